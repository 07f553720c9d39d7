#pragma once

// The lock's state table as text, walked out of the machine itself.
//
// A table that is typed by hand above the code is right on the day it is written. This one is made by feeding each
// input to a sample of each class of state, so the comment in lock_machine.hpp can be compared with it by a test.

#include <string>

namespace shmcoord::core {

/// One line per input, group of state classes that answer alike, answer. Ends with a newline.
[[nodiscard]] std::string lock_state_table();

}  // namespace shmcoord::core
