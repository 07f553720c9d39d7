#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "process/acquire_all.hpp"
#include "shmcoord/acquire.hpp"
#include "shmcoord/command_table.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/occupancy.hpp"
#include "shmcoord/outer_run.hpp"
#include "shmcoord/render.hpp"
#include "shmcoord/run_front.hpp"
#include "shmcoord/run_plan.hpp"

// `shmcoord run`: a command while holding locks and permits.
//
// This process has the session and waits for them; the guardian (run_guardian.hpp) starts the command and sees its
// tree end. What if we die here: the guardian ends everything, and the slot is not dead before it has. Loss of a hold
// while the command runs ends the command and makes the exit code 75, whatever the command itself says.

namespace shmcoord::tool {
namespace {

using process::PrimitiveClient;

struct Held {
  std::unique_ptr<PrimitiveClient> client;
  std::uint64_t token = 0;
};

/// How they are taken.
struct Taking {
  std::string holder;
  std::int64_t deadline_ns;
  const StopSignals& signals;
  LossBell& bell;
};

/// One of them.
class Taken {
 public:
  Taken(Held& held, const Taking& how, const process::Request& request, std::optional<process::Answer> tried = {})
      : held_(held), how_(how), request_(request), tried_(std::move(tried)) {}

  process::Answer acquire() {
    callback_ = held_.client->on_lost([this, title = title_of(*held_.client)](const HolderId&, const Lost& lost) {
      how_.bell.ring(loss_text(title, lost));
    });
    got_ = acquire_aloud(*held_.client, request_, how_.deadline_ns, how_.signals, std::exchange(tried_, std::nullopt));
    held_.token = got_.outcome.token;
    return got_.outcome;
  }
  void give_back() noexcept {
    held_.client->remove_on_lost(callback_);
    try {
      if (!stands()) say("lost " + title_of(*held_.client) + " while waiting for the others");
      (void)held_.client->release(how_.holder);
    } catch (const std::exception&) {  // the segment is gone, and the hold with it
    }
    how_.bell.hush();
  }
  [[nodiscard]] bool stands() const { return held_.client->stands(how_.holder, held_.token); }

  int say_not_acquired(const WaitRule& rule) { return tool::say_not_acquired(*held_.client, request_, got_, rule); }

 private:
  Held& held_;
  const Taking& how_;
  process::Request request_;
  std::optional<process::Answer> tried_;
  Acquired got_;
  std::uint64_t callback_ = 0;
};

std::string command_environment(const std::vector<Held>& held, const std::string& first, bool wait_tree) {
  std::string all = "SHMCOORD_TOKENS=";
  std::string of_first;
  std::vector<OuterHold> outer;
  for (const Held& h : held) {
    if (&h != &held.front()) all += ',';
    all += h.client->name() + '=' + std::to_string(h.token);
    if (h.client->name() == first) of_first = "SHMCOORD_TOKEN=" + std::to_string(h.token);
    if (wait_tree) outer.push_back({h.client.get(), h.token});
  }
  return of_first + '\0' + all + '\0' + held_environment(outer);
}

/// Gives all back. False: one was lost before we came to that; says so unless that is known.
bool release_all(std::vector<Held>& held, const std::string& holder, bool known) {
  bool all_ours = true;
  for (Held& h : held) {
    try {
      const ReleaseOutcome got = h.client->release(holder).of_a_lock();
      if (got.result == ReleaseResult::released) continue;
      if (!known) say_error("lost", loss_text(title_of(*h.client), got.lost.value_or(Lost{})));
    } catch (const Error& e) {
      if (!known) say_error(name_of(e.errc()), title_of(*h.client) + ": " + e.what());
    }
    all_ours = false;
  }
  return all_ours;
}

}  // namespace

int run_command(const Arguments& arguments) {
  Plan plan = plan_of(arguments);
  const StopSignals signals;
  Terminal terminal;
  plan.task.original_mask = signals.original();
  plan.task.terminal = terminal.fd();
  plan.task.environment = segment_environment(arguments.global);
  plan.task.environment.push_back("SHMCOORD_HOLDER=" + plan.holder);
  const bool adopts = adopt_orphans();
  const GuardianHandle guardian(plan.task);

  LossBell bell;
  const auto request_for = [&plan](const Wanted& wanted) {
    process::Request request;
    request.holder = plan.holder;
    request.weight = wanted.weight;
    request.reason = plan.reason;
    request.ttl = plan.ttl;
    request.no_lease = !plan.ttl;
    return request;
  };
  std::optional<process::Answer> tried;
  std::vector<Held> held;
  const bool can_make = plan.wanted.front().kind == engine::Kind::lock;
  const auto if_missing = can_make ? IfMissing::create : IfMissing::fail;
  const auto participant = join_and(arguments.global, if_missing, "run", [&](auto joined) {
    held.clear();
    for (const Wanted& wanted : plan.wanted) {
      const process::NameOptions options{.kind = wanted.kind};
      held.push_back({std::make_unique<PrimitiveClient>(joined, wanted.name, options)});
    }
    tried = held.front().client->acquire(request_for(plan.wanted.front()), process::try_once);
    return joined;
  });
  const Taking how{plan.holder, deadline_of(plan.wait), signals, bell};
  std::vector<Taken> parts;
  parts.reserve(held.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    parts.emplace_back(held[i], how, request_for(plan.wanted[i]), std::exchange(tried, std::nullopt));
  }
  const process::AllAnswer all = process::acquire_all(std::span(parts));
  if (all.held == 0) return parts[all.failed].say_not_acquired(plan.wait);
  const int code = run_in_front({guardian, terminal, bell, plan.task, adopts}, *participant, 0,
                                command_environment(held, plan.first, plan.task.wait_tree))
                       .code;
  return release_all(held, plan.holder, code == exit_lost) ? code : exit_lost;
}

}  // namespace shmcoord::tool
