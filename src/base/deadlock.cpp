#include "shmcoord/deadlock.hpp"

#include <cstdio>

namespace shmcoord {
namespace {

std::string seconds(std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(time).count());
  return text;
}

std::string who(const DeadlockMember& member) {
  std::string process = "pid " + std::to_string(member.pid);
  if (!member.label.empty()) process += " '" + member.label + "'";
  if (!member.command.empty()) process += ", " + member.command;
  if (!member.holder.empty()) return "'" + member.holder + "' (" + process + ")";
  return "thread " + std::to_string(member.thread) + " (" + process + ")";
}

std::string in_the_way(const DeadlockMember& member) {
  if (member.holds.empty()) return " is before that one in the queue";
  return " has held " + member.holds + " for " + seconds(member.held_for);
}

}  // namespace

std::string to_string(const std::vector<DeadlockMember>& circle) {
  if (circle.empty()) return "nobody";
  constexpr std::size_t most = 10;
  std::string text;
  for (std::size_t n = 0; n < circle.size(); ++n) {
    if (circle.size() > most && n == most / 2) {
      const std::size_t hidden = circle.size() - most;
      text += "; … " + std::to_string(hidden) + " more …";
      n += hidden;
    }
    const DeadlockMember& member = circle[n];
    text += text.empty() ? who(member) : "; " + who(member) + in_the_way(member) + " and";
    text += " has waited for " + member.waits_for + " for " + seconds(member.waiting_for);
  }
  return text + "; " + who(circle.front()) + in_the_way(circle.front());
}

}  // namespace shmcoord
