#pragma once

#include <cstdlib>

namespace shmcoord::test {

/// `tests/run --long`: the forms of tests that take minutes.
inline bool long_form() { return std::getenv("SHMCOORD_LONG") != nullptr; }

}  // namespace shmcoord::test
