#include "coordination/guard_action.hpp"

#include "base/duration.hpp"
#include "base/printable.hpp"

namespace shmcoord::coordination {
namespace {

constexpr std::string_view retry_word = "retry:";
constexpr std::string_view fail_word = "fail:";

}  // namespace

std::string str_of(const GuardAction& action) {
  if (const auto* const retry = std::get_if<Retry>(&action)) {
    return std::string(retry_word) + base::exact_duration(retry->delay);
  }
  if (const auto* const fail = std::get_if<Fail>(&action)) return std::string(fail_word) + fail->message;
  return std::holds_alternative<Warn>(action) ? "warn" : "block";
}

std::string parse_action(std::string_view text, GuardAction& action) {
  if (text == "block") {
    action = Block{};
  } else if (text == "warn") {
    action = Warn{};
  } else if (text.starts_with(retry_word)) {
    const std::string_view delay = text.substr(retry_word.size());
    Retry retry;
    if (const auto wrong = base::parse_duration(delay, base::Zero::refused, retry.delay); !wrong.empty()) {
      return "the delay '" + base::shortened(delay, 60) + "' " + std::string(wrong);
    }
    action = retry;
  } else if (text.starts_with(fail_word)) {
    action = Fail{std::string(text.substr(fail_word.size()))};
  } else {
    return "'" + base::shortened(text, 60) +
           "' is none of block, warn, retry:DUR (like retry:5s) and fail:TEXT (like fail:frozen)";
  }
  return {};
}

}  // namespace shmcoord::coordination
