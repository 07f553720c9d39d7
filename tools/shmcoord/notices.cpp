#include "shmcoord/notices.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "process/surroundings.hpp"

namespace shmcoord::tool {
namespace {

using process::SessionView;
using process::Surroundings;

void add_own(std::vector<Notice>& notices, const Surroundings& here) {
  if (here.proc == Surroundings::Proc::missing) {
    notices.push_back({"proc_missing",
                       "/proc cannot be read here: no start time can be confirmed and no process judged; who cannot be "
                       "proven dead counts as alive"});
  } else if (here.proc == Surroundings::Proc::foreign) {
    notices.push_back({"proc_foreign",
                       "/proc here shows another PID namespace: no start time can be confirmed and no process judged; "
                       "who cannot be proven dead counts as alive"});
  }
  if (!here.time_namespace_known) {
    notices.push_back({"time_namespace_unknown",
                       "the time namespace of this process cannot be found out: if it is not that of the others, ages "
                       "and leases are wrong"});
  }
  if (!here.pidfd) {
    notices.push_back({"no_pidfd",
                       "pidfd_open is not available here: `reap`, and who waits for a holder bound to a process, look "
                       "once a second"});
  }
  if (!here.futex_waitv) {
    notices.push_back({"no_futex_waitv", "futex_waitv is not available here: waits are re-checked every 50 ms"});
  }
}

template <class Predicate>
void add(std::vector<Notice>& notices, const std::vector<SessionUse>& uses, std::string_view code,
         std::string_view text, Predicate&& concerns) {
  constexpr std::size_t shown = 5;
  Notice notice{code, {}, {}};
  std::string who;
  for (const SessionUse& use : uses) {
    if (!concerns(*use.session)) continue;
    if (notice.sessions.size() < shown) who += fmt::format("{}{}", who.empty() ? "pid " : ", ", use.session->pid);
    notice.sessions.push_back(use.session);
  }
  if (notice.sessions.empty()) return;
  if (notice.sessions.size() > shown) who += fmt::format(" and {} more", notice.sessions.size() - shown);
  notice.text = fmt::format("{} ({})", text, who);
  notices.push_back(std::move(notice));
}

}  // namespace

std::vector<Notice> notices_of(const Scene& scene) {
  std::vector<Notice> notices;
  const Surroundings here = process::own_surroundings();
  add_own(notices, here);
  const std::vector<SessionUse> uses = sessions_of(scene);
  add(notices, uses, "no_life_word",
      "no death notice from the kernel (set_robust_list is not available to them): byte lock and heartbeat only, "
      "looked "
      "at once a second",
      [](const SessionView& s) { return (s.flags & engine::slot_no_life_word) != 0; });
  add(notices, uses, "sessions_without_futex_waitv",
      "futex_waitv is not available to them: their waits are re-checked every 50 ms",
      [](const SessionView& s) { return (s.flags & engine::slot_no_waitv) != 0; });
  add(notices, uses, "sessions_without_proc",
      "they saw no /proc when they joined: their processes cannot be told from later ones of the same number, and "
      "`run` "
      "ends only the process group of its command",
      [](const SessionView& s) { return s.start_time == 0 || s.pid_namespace == 0; });
  // Nobody's own processes are hidden from him.
  const auto hidden = [me = ::geteuid()](const SessionView& s) {
    return s.uid != me && process::sight_of(s.pid, s.pid_namespace) == process::Sight::hidden;
  };
  if (here.proc == Surroundings::Proc::own) {
    add(notices, uses, "processes_hidden",
        "/proc does not show their processes here (hidepid): start times cannot be confirmed; who cannot be proven "
        "dead "
        "counts as alive",
        hidden);
  }
  return notices;
}

}  // namespace shmcoord::tool
