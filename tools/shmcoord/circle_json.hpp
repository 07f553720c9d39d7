#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "base/printable.hpp"
#include "shmcoord/deadlock.hpp"

namespace shmcoord::tool {

/// A deadlock, as every document shows it: each member waits for the next one, the last one for the first.
[[nodiscard]] inline boost::json::array circle_of(const std::vector<DeadlockMember>& circle) {
  namespace json = boost::json;
  const auto text = [](const std::string& t) { return t.empty() ? json::value() : json::value(base::printable(t)); };
  const auto number = [](std::int64_t n) { return n == 0 ? json::value() : json::value(n); };
  const auto seconds = [](std::chrono::nanoseconds t) { return std::chrono::duration<double>(t).count(); };
  json::array all;
  for (const DeadlockMember& member : circle) {
    all.emplace_back(json::object{{"holder", text(member.holder)},
                                  {"label", text(member.label)},
                                  {"command", text(member.command)},
                                  {"pid", number(member.pid)},
                                  {"thread", number(member.thread)},
                                  {"holds", text(member.holds)},
                                  {"held_s", member.holds.empty() ? json::value() : seconds(member.held_for)},
                                  {"waits_for", text(member.waits_for)},
                                  {"waiting_s", seconds(member.waiting_for)}});
  }
  return all;
}

}  // namespace shmcoord::tool
