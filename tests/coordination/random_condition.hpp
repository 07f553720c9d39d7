#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "shmcoord/condition.hpp"

// Conditions as no person would write them, each from its seed.

namespace shmcoord::test {

class RandomCondition {
 public:
  explicit RandomCondition(std::uint64_t seed) : random_(seed) {}

  GuardCondition condition(int depth = 4) {
    using C = GuardCondition;
    switch (below(depth > 0 ? 20 : 17)) {
      case 0: return C::lock_free(name());
      case 1: return below(2) == 0 ? C::lock_held(name()) : C::lock_held(name(), name());
      case 2: return C::semaphore_available(name(), 1 + static_cast<std::uint32_t>(below(5)));
      case 3: return C::issues_complete(filter());
      case 4: return C::no_blocked_issues(filter());
      case 5: return C::issue_status(word(), status());
      case 6: return C::branch_exists(word());
      case 7: return C::branch_not_exists(word());
      case 8: return C::branch_clean(word());
      case 9: return C::branch_merged(word(), word());
      case 10: return C::file_exists(word());
      case 11: return C::file_not_exists(word());
      case 12: return C::file_contains(word(), word());
      case 13: return C::session_alive(word());
      case 14: return C::pipeline_in_phase(word(), word());
      case 15: return C::pipeline_complete(word());
      case 16: {
        std::optional<std::string> description;
        if (below(2) == 0) description = word();
        return C::command(word(), below(2) == 0, description);
      }
      case 17: return C::all(list(depth - 1));
      case 18: return C::any(list(depth - 1));
      default: return C::negation(condition(depth - 1));
    }
  }

  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  IssueStatus status() { return static_cast<IssueStatus>(below(5)); }

 private:
  std::vector<GuardCondition> list(int depth) {
    std::vector<GuardCondition> all;
    for (std::uint64_t n = below(4); n > 0; --n) all.push_back(condition(depth));
    return all;
  }
  IssueFilter filter() {
    IssueFilter f;
    for (std::uint64_t n = below(3); n > 0; --n) f.ids.push_back(word());
    for (std::uint64_t n = below(3); n > 0; --n) f.labels.push_back(word());
    for (std::uint64_t n = below(3); n > 0; --n) f.statuses.push_back(status());
    return f;
  }
  // Valid as the name of a lock.
  std::string name() {
    return from({"a", "Z", "7", "-", "/", ".", "(", ")", "\"", "'", "\\", ",", "&&", "!", " ", "ä"});
  }
  std::string word() {
    return from({"a", "=", "id=", "expect=failure", "(", ")", "\"", "'", "\\", ",", "||", "!", " ", "\n", "\t", "\x01",
                 "ä", "\xF0\x9F\x94\x92"});
  }
  std::string from(const std::vector<const char*>& parts) {
    std::string text;
    for (std::uint64_t n = 1 + below(5); n > 0; --n) text += parts[below(parts.size())];
    return text;
  }

  std::mt19937_64 random_;
};

}  // namespace shmcoord::test
