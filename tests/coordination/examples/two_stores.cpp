#include <unistd.h>

#include <cstdio>
#include <string>

#include <shmcoord/shmcoord.hpp>
#include <shmcoord/testing.hpp>

// A program that coordinates by a manager and does not know what is below it: here once in its own process, with a
// clock that is moved to see what becomes of a holder that went silent, and once in a segment. Exit code 0: both did as
// it expected.

namespace {

using namespace std::chrono_literals;

const shmcoord::HolderId one{"pipeline:42"};
const shmcoord::HolderId other{"pipeline:43"};

void show(const shmcoord::Effects& effects) {
  for (const shmcoord::Event& e : effects) {
    std::printf("  %s %s %s\n", std::string(e.name()).c_str(), e.subject.c_str(), e.holder.c_str());
  }
}

bool deploy(shmcoord::CoordinationManager& manager) {
  manager.ensure_semaphore({"agents", 4});
  const auto lock = manager.acquire_lock("deploy", one, "rev=abc");
  const auto agents = manager.acquire_semaphore("agents", one, 3);
  show(lock.effects);
  show(agents.effects);
  const auto second = manager.acquire_semaphore("agents", other, 2);
  show(second.effects);
  if (!lock || !agents || second || second.outcome.available != 1) return false;
  show(manager.release_semaphore("agents", one).effects);
  show(manager.release_lock("deploy", one).effects);
  return manager.get_lock("deploy")->is_free();
}

bool who_went_silent_loses() {
  const auto clock = std::make_shared<shmcoord::testing::FakeClock>();
  shmcoord::CoordinationManager manager{clock};
  const shmcoord::CoordinationManager before = manager;
  bool reclaimed = false;
  shmcoord::Maintenance maintenance{manager, {.interval = 30s}, {.on_effect = [&](const shmcoord::Event& e) {
                                      show({e});
                                      reclaimed = reclaimed || e.kind == shmcoord::EventKind::lock_reclaimed;
                                    }}};
  if (!manager.acquire_lock("deploy", one)) return false;
  clock->advance(61s);
  maintenance.tick();
  return reclaimed && manager.acquire_lock("deploy", other).outcome.previous && !before.get_lock("deploy");
}

}  // namespace

int main() {
  shmcoord::CoordinationManager here;
  if (!deploy(here) || !who_went_silent_loses()) return 1;

  const std::string name = "example-" + std::to_string(::getpid());
  bool good = false;
  {
    const shmcoord::Segment segment = shmcoord::Segment::create(name);
    shmcoord::Session session{segment, {.label = "example"}};
    shmcoord::CoordinationManager shared{session};
    const shmcoord::MaintenanceThread tidies{shmcoord::Maintenance{shared}, [](const std::exception_ptr&) {}};
    good = deploy(shared);
  }
  shmcoord::Segment::remove(name);
  return good ? 0 : 1;
}
