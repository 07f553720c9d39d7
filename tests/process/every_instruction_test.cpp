#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <stop_token>
#include <thread>

#include "process/recovery.hpp"
#include "support/death_scene.hpp"
#include "support/sim_scheduler.hpp"

namespace shmcoord {
namespace {

using test::Actor;
using test::Counts;
using test::Effort;
using test::Scenario;
using Waiter = Scenario::Waiter;

class EveryInstruction : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = test::Stepper::refused(); !why.empty()) GTEST_SKIP() << why;
  }
  void TearDown() override {
    say("all", counts_);
    RecordProperty("instructions", std::to_string(counts_.instructions));
    RecordProperty("images", std::to_string(counts_.images));
    RecordProperty("kills", std::to_string(counts_.kills));
  }
  test::Death die(const Scenario& scenario, const Effort& effort = Effort::of_this_run()) {
    const test::Death death = test::die_everywhere(scenario, effort);
    counts_ += death.counts;
    say(scenario.name.c_str(), death.counts);
    return death;
  }
  static void say(const char* what, const Counts& c) {
    const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    std::printf("%s: %llu instructions, %llu changes, %llu images, %llu recoveries, %llu kills (%llu elsewhere)\n",
                what, number(c.instructions), number(c.changes), number(c.images), number(c.recoveries),
                number(c.kills), number(c.missed));
  }

  Counts counts_;
};

const HolderId victim{"V"};
const HolderId detached{"D"};

void joins(Actor& v) {
  v.join();
  v.attach();
}
void holds(Actor& v) {
  joins(v);
  v.note(v.lock->try_acquire(victim));
}
void releases(Actor& v) { v.lock->release(victim); }
void tries(Actor& v) { v.note(v.lock->try_acquire(victim)); }
void waits(Actor& v) { v.note(v.lock->acquire(victim)); }
void gives_up(Actor& v) { (void)v.lock->acquire(victim, {}, std::chrono::milliseconds(20)); }
void sweeps(Actor& v) { process::sweep(*v.mapping, engine::RealPolicy::now_ns()); }

process::Request detached_request(std::optional<std::string_view> reason) {
  process::Request r;
  r.holder = "D";
  r.reason = reason;
  r.detached = true;
  return r;
}
void acquires_detached(Actor& v) {
  v.note(v.client().acquire(detached_request("for the night"), process::no_deadline));
}
void has_detached(Actor& v) {
  joins(v);
  acquires_detached(v);
}

// --- acquiring -------------------------------------------------------------------------------------------------------

TEST_F(EveryInstruction, TryAcquire) {
  die({.name = "free", .operation = tries, .outcomes = {"free", "free after died"}});
  die({.name = "busy", .operation = tries, .outcomes = {"H"}, .holder = true});
  die({.name = "busy, with a waiter",
       .operation = tries,
       .outcomes = {"H > W"},
       .holder = true,
       .waiter = Waiter::queued});
}

TEST_F(EveryInstruction, Acquire) {
  die({.name = "free", .operation = waits, .outcomes = {"free", "free after died"}});
  die({.name = "waits",
       .operation = waits,
       .outcomes = {"H", "free after died"},
       .holder = true,
       .holder_yields = true});
}

// And whatever is left behind, everything is told, once.
TEST_F(EveryInstruction, WithAJournal) {
  const auto told = [&](Scenario scenario) {
    scenario.sizes.journal = 4096;
    scenario.journal = true;
    die(scenario);
  };
  told({.name = "try", .operation = tries, .outcomes = {"free", "free after died"}});
  told({.name = "wait",
        .operation = waits,
        .outcomes = {"H", "free after died"},
        .holder = true,
        .holder_yields = true});
  told({.name = "release", .before = holds, .operation = releases, .outcomes = {"free after died", "free"}});
  told({.name = "release to a waiter",
        .before = holds,
        .operation = releases,
        .outcomes = {"W after died", "W"},
        .waiter = Waiter::queued});
}

TEST_F(EveryInstruction, AcquireWithAWaiterBehind) {
  die({.name = "waits",
       .operation = waits,
       .outcomes = {"H", "H > W", "W after died"},
       .holder = true,
       .waiter = Waiter::behind_victim,
       .holder_yields = true});
}

TEST_F(EveryInstruction, AcquireThatTimesOut) {
  die({.name = "alone", .operation = gives_up, .outcomes = {"H"}, .holder = true});
  die({.name = "behind a waiter",
       .operation = gives_up,
       .outcomes = {"H > W"},
       .holder = true,
       .waiter = Waiter::queued});
}

TEST_F(EveryInstruction, AcquireThatIsCancelled) {
  static std::stop_source stop;
  die({.name = "before a waiter",
       .operation =
           [](Actor& v) {
             std::thread([&v] {
               v.line.await_go();
               stop.request_stop();
             }).detach();
             (void)v.lock->acquire(victim, {}, std::nullopt, stop.get_token());
           },
       .outcomes = {"H", "H > W"},
       .holder = true,
       .waiter = Waiter::behind_victim,
       .cancelled = true});
}

TEST_F(EveryInstruction, LockAndUnlockWithoutAHolderId) {
  const auto once = [](Actor& v) {
    v.lock->lock();
    v.lock->unlock();
  };
  die({.name = "for the first time", .operation = once, .outcomes = {"free", "free after died", "free"}});
  die({.name = "again",
       .before =
           [once](Actor& v) {
             joins(v);
             once(v);
           },
       .operation = once,
       .outcomes = {"free", "free after died", "free"}});
}

// --- holding ---------------------------------------------------------------------------------------------------------

TEST_F(EveryInstruction, Release) {
  die({.name = "alone", .before = holds, .operation = releases, .outcomes = {"free after died", "free"}});
  die({.name = "with a waiter",
       .before = holds,
       .operation = releases,
       .outcomes = {"W after died", "W"},
       .waiter = Waiter::queued});
}

TEST_F(EveryInstruction, Heartbeat) {
  const auto beats = [](Actor& v) {
    (void)v.lock->heartbeat(victim);
    (void)v.lock->renew(victim, std::chrono::hours(2));
  };
  die({.name = "alone", .before = holds, .operation = beats, .outcomes = {"free after died"}});
  die({.name = "with a waiter",
       .before = holds,
       .operation = beats,
       .outcomes = {"W after died"},
       .waiter = Waiter::queued});
}

TEST_F(EveryInstruction, ChangeOfReason) {
  const auto says_why = [](Actor& v) {
    (void)v.lock->try_acquire(victim, {.reason = "another reason than before", .ttl = std::chrono::hours(3)});
  };
  die({.name = "alone", .before = holds, .operation = says_why, .outcomes = {"free after died"}});
  die({.name = "with a waiter",
       .before = holds,
       .operation = says_why,
       .outcomes = {"W after died"},
       .waiter = Waiter::queued});
}

// --- holds that outlive their process --------------------------------------------------------------------------------

TEST_F(EveryInstruction, DetachedAcquire) {
  die({.name = "free", .operation = acquires_detached, .outcomes = {"free", "free after died", "D"}});
  die({.name = "waits",
       .operation = acquires_detached,
       .outcomes = {"H", "H > W", "W after died", "D > W"},
       .holder = true,
       .waiter = Waiter::behind_victim,
       .holder_yields = true});
}

TEST_F(EveryInstruction, DetachedHeartbeatAndReason) {
  die({.name = "heartbeat",
       .before = has_detached,
       .operation = [](Actor& v) { (void)v.lock->heartbeat(detached); },
       .outcomes = {"D"}});
  for (const std::size_t bytes : {40U, 3000U}) {
    die({.name = "reason of " + std::to_string(bytes) + " bytes",
         .before = has_detached,
         .operation =
             [bytes](Actor& v) {
               const std::string reason(bytes, 'x');
               (void)v.client().acquire(detached_request(reason), process::try_once);
             },
         .outcomes = {"D"}});
  }
}

TEST_F(EveryInstruction, DetachedRelease) {
  const auto release = [](Actor& v) { v.lock->release(detached); };
  die({.name = "alone", .before = has_detached, .operation = release, .outcomes = {"D", "free"}});
  die({.name = "with a waiter",
       .before = has_detached,
       .operation = release,
       .outcomes = {"D > W", "W"},
       .waiter = Waiter::queued});
}

// --- shared, more and less -------------------------------------------------------------------------------------------

std::optional<SharedLock> shared;  // V's other face of the lock
void reads(Actor& v) {
  joins(v);
  shared.emplace(*v.session, v.name);
  shared->lock_shared();
}
void writes(Actor& v) {
  joins(v);
  shared.emplace(*v.session, v.name);
  shared->lock();
}

TEST_F(EveryInstruction, SharedAcquireAndRelease) {
  const auto once = [](Actor&) {
    shared->lock_shared();
    shared->unlock_shared();
  };
  const auto opens_shared = [](Actor& v) {
    joins(v);
    shared.emplace(*v.session, v.name);
  };
  die({.name = "alone", .before = opens_shared, .operation = once, .outcomes = {"free", "free after died", "free"}});
  die({.name = "with a waiter",
       .before = reads,
       .operation = [](Actor&) { shared->unlock_shared(); },
       .outcomes = {"W after died", "W"},
       .waiter = Waiter::queued});
}

// The part that it gets besides, and the merge.
TEST_F(EveryInstruction, UpgradeAndDowngrade) {
  const auto upgrades = [](Actor&) { shared->upgrade(); };
  const auto downgrades = [](Actor&) { shared->downgrade(); };
  die({.name = "upgrade", .before = reads, .operation = upgrades, .outcomes = {"free after died"}});
  die({.name = "upgrade past a waiter",
       .before = reads,
       .operation = upgrades,
       .outcomes = {"W after died"},
       .waiter = Waiter::queued});
  die({.name = "downgrade", .before = writes, .operation = downgrades, .outcomes = {"free after died"}});
  die({.name = "downgrade with a waiter",
       .before = writes,
       .operation = downgrades,
       .outcomes = {"W after died"},
       .waiter = Waiter::queued});
}

// What it does to a semaphore must leave that one exact too: the check of the whole segment counts its permits.
std::optional<Semaphore> pool;
void opens_pool(Actor& v) {
  joins(v);
  pool.emplace(*v.session, "pool", SemaphoreOptions{.capacity = 8});
}

TEST_F(EveryInstruction, PermitsOfASemaphore) {
  die({.name = "taken, increased and given back",
       .before = opens_pool,
       .operation =
           [](Actor&) {
             (void)pool->try_acquire(victim, 2);
             (void)pool->try_acquire(victim, 5);
             pool->release(victim);
           },
       .outcomes = {"free"}});
  die({.name = "resized",
       .before =
           [](Actor& v) {
             opens_pool(v);
             (void)pool->try_acquire(victim, 2);
           },
       .operation =
           [](Actor&) {
             pool->resize(1);
             pool->resize(9);
           },
       .outcomes = {"free"}});
}

TEST_F(EveryInstruction, SeveralAtOnce) {
  const auto takes_all = [](Actor& v) { EXPECT_TRUE(acquire_all(*v.session, {{*pool, 3}, *v.lock})); };
  die({.name = "taken and given back",
       .before = opens_pool,
       .operation = takes_all,
       .outcomes = {"free", "free after died", "free"}});
  die({.name = "of which one is missing",
       .before =
           [](Actor& v) {
             opens_pool(v);
             (void)pool->try_acquire(victim, 6);
           },
       .operation =
           [](Actor& v) {
             EXPECT_FALSE(acquire_all(*v.session, {{*pool, 3}, *v.lock}, std::chrono::seconds{0}));
           },
       .outcomes = {"free", "free after died", "free"}});
}

TEST_F(EveryInstruction, AShareOfAQuota) {
  die({.name = "joined",
       .operation = [](Actor& v) { Semaphore quota(*v.session, "quota", {.per_session = 2}); },
       .outcomes = {"free"}});
  die({.name = "left",
       .before =
           [](Actor& v) {
             joins(v);
             Semaphore quota(*v.session, "quota", {.per_session = 2});
           },
       .operation = [](Actor& v) { v.session->leave(); },
       .outcomes = {"free"},
       .others_run = true});
}

// --- the operator ----------------------------------------------------------------------------------------------------

TEST_F(EveryInstruction, ForceRelease) {
  const auto forces = [](Actor& v) { (void)v.client().force_release({}); };
  die({.name = "alone", .operation = forces, .outcomes = {"H", "free after forced"}, .holder = true});
  die({.name = "with a waiter",
       .operation = forces,
       .outcomes = {"H > W", "W after forced"},
       .holder = true,
       .waiter = Waiter::queued});
}

// --- names -----------------------------------------------------------------------------------------------------------

void opens(Actor& v) { v.attach(); }
void only_joins(Actor& v) { v.join(); }

TEST_F(EveryInstruction, FirstOpeningOfAName) {
  die({.name = "short", .before = only_joins, .operation = opens, .outcomes = {"free"}});
  die({.name = "long", .before = only_joins, .operation = opens, .outcomes = {"free"}, .lock = std::string(200, 'n')});
}

TEST_F(EveryInstruction, FirstOpeningThatRecyclesOthers) {
  die({.name = "recycles",
       .before =
           [](Actor& v) {
             v.join();
             for (int n = 0; n < 7; ++n) v.attach("job-" + std::to_string(n));
             v.lock.reset();
           },
       .operation = opens,
       .outcomes = {"free"}});
}

TEST_F(EveryInstruction, RemovalOfAName) {
  const auto removes = [](bool force) {
    return [force](Actor& v) {
      try {
        Lock::remove(*v.session, v.name, force);
      } catch (const Error& e) {
        EXPECT_EQ(e.errc(), Errc::in_use);
      }
    };
  };
  die({.name = "idle", .operation = removes(false), .outcomes = {"free"}});
  // A refusal is an exception: tens of thousands of instructions, and nothing changes.
  if (Effort::of_this_run().all) {
    die({.name = "in use", .operation = removes(false), .outcomes = {"H"}, .holder = true});
  }
  die({.name = "by force", .operation = removes(true), .outcomes = {"H", "free after forced", "free"}, .holder = true});
  // Who waits is sent away first.
  die({.name = "by force, with a waiter",
       .operation = removes(true),
       .outcomes = {"H > W", "H", "free after forced", "free"},
       .holder = true,
       .waiter = Waiter::queued});
}

// --- sessions --------------------------------------------------------------------------------------------------------

TEST_F(EveryInstruction, Joining) {
  Effort effort = Effort::of_this_run();
  if (!effort.all) effort.kills = 2;  // each is stepped to, through more instructions than elsewhere
  die({.name = "a new slot",
       .before = [](Actor&) {},
       .operation = only_joins,
       .outcomes = {"free"},
       .others_run = true},
      effort);
  die({.name = "a slot that was used",
       .before =
           [](Actor& v) {
             v.join();
             v.session.reset();
           },
       .operation = only_joins,
       .outcomes = {"free"},
       .others_run = true},
      effort);
}

TEST_F(EveryInstruction, Leaving) {
  const auto leaves = [](Actor& v) { v.session->leave(); };
  die({.name = "with a hold",
       .before = holds,
       .operation = leaves,
       .outcomes = {"free after died", "free"},
       .others_run = true});
  die({.name = "with a hold and a waiter",
       .before = holds,
       .operation = leaves,
       .outcomes = {"W after died", "W"},
       .waiter = Waiter::queued,
       .others_run = true});
}

// --- helping ---------------------------------------------------------------------------------------------------------

// U releases and comes only so far, with W in the queue or nobody; then V does something with the same lock, and dies.
class EveryInstructionOfAHelper : public EveryInstruction {
 protected:
  // `stride`: in the short form not after each of U's changes.
  void help(Scenario s, std::size_t stride = 3) {
    s.first_before = [](Actor& u) {
      u.join();
      u.attach();
      u.note(u.lock->try_acquire(HolderId{"U"}));
    };
    s.first = [](Actor& u) { u.lock->release(HolderId{"U"}); };
    const std::string name = s.name;
    const bool all = Effort::of_this_run().all;
    if (all) stride = 1;
    if (!all && sim::instrumented) stride = 20;
    for (std::size_t changes = 1; !HasFailure(); changes += stride) {
      s.first_changes = changes;
      s.name = name + ", after " + std::to_string(changes) + " changes";
      Effort effort = Effort::of_this_run();
      if (!all) effort.kills = 1;
      if (die(s, effort).first_ended) break;
    }
  }
};

TEST_F(EveryInstructionOfAHelper, OfAStoppedRelease) {
  const std::vector<std::string> before{"U > W"};
  const std::vector<std::string> after{"W"};
  help({.name = "try", .operation = tries, .outcomes = before, .or_else = after, .waiter = Waiter::queued});
  help({.name = "time out", .operation = gives_up, .outcomes = before, .or_else = after, .waiter = Waiter::queued});
  help({.name = "sweep", .operation = sweeps, .outcomes = before, .or_else = after, .waiter = Waiter::queued}, 6);
}

TEST_F(EveryInstructionOfAHelper, OfADeadRelease) {
  const std::vector<std::string> before{"W after died"};
  const std::vector<std::string> after{"W"};
  const auto dead = [&](const char* name, const test::Act& operation, const test::Act& v_before, std::size_t stride) {
    help({.name = name,
          .before = v_before,
          .operation = operation,
          .outcomes = before,
          .or_else = after,
          .waiter = Waiter::queued,
          .first_dies = true},
         stride);
  };
  dead("try", tries, joins, 3);
  dead("sweep", sweeps, joins, 6);
  dead(
      "join", only_joins, [](Actor&) {}, 6);
}

TEST_F(EveryInstructionOfAHelper, WhoTakesWhatTheDeadHeld) {
  help({.name = "try",
        .operation = tries,
        .outcomes = {"free after died"},
        .or_else = {"free", "free after died"},
        .first_dies = true});
  help({.name = "acquire",
        .operation = waits,
        .outcomes = {"free after died"},
        .or_else = {"free", "free after died"},
        .first_dies = true});
}

}  // namespace
}  // namespace shmcoord
