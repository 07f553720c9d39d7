#pragma once

#include <string>
#include <string_view>

#include "shmcoord/guard.hpp"

// What happens when a guard does not hold, as one word: block, warn, retry:DUR, fail:TEXT.

namespace shmcoord::coordination {

/// parse_action() of it gives an equal one.
[[nodiscard]] std::string str_of(const GuardAction& action);

/// Nothing when `text` is one; else what is wrong with it. "fail:" fails without a text of its own.
[[nodiscard]] std::string parse_action(std::string_view text, GuardAction& action);

}  // namespace shmcoord::coordination
