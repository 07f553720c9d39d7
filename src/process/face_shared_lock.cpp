#include <utility>

#include "process/face_holds.hpp"

namespace shmcoord {

struct SharedLock::State {
  std::shared_ptr<detail::Access::SessionState> session;
  std::shared_ptr<process::PrimitiveClient> client;
  ThreadHolds holds;

  State(std::shared_ptr<detail::Access::SessionState> of, std::string_view name, const LockOptions& options)
      : session(std::move(of)), client(session->client(name, {.lease = options})), holds(*client) {}

  static constexpr std::uint32_t weight(Mode mode) noexcept {
    return mode == Mode::exclusive ? process::whole_lock : process::shared_lock;
  }
  // What this thread holds; throws if it holds nothing.
  process::Hold& held() {
    process::Hold* const hold = holds.held();
    if (hold == nullptr) throw Error(Errc::invalid_argument, "this thread does not hold " + client->title());
    return *hold;
  }
};

const std::shared_ptr<process::PrimitiveClient>& detail::Access::client(const SharedLock& lock) {
  return present(lock.state_).client;
}

SharedLock::SharedLock(Session& session, std::string_view name, const LockOptions& options)
    : state_(std::make_unique<State>(detail::Access::usable_state(session), name, options)) {}

std::optional<SharedLock> SharedLock::attach(Session& session, std::string_view name, const LockOptions& options,
                                             std::error_code& ec) noexcept {
  return with_code(
      ec, [&] { return std::optional<SharedLock>(std::in_place, session, name, options); },
      []() noexcept { return std::optional<SharedLock>(); });
}

SharedLock::SharedLock(SharedLock&&) noexcept = default;
SharedLock& SharedLock::operator=(SharedLock&&) noexcept = default;
SharedLock::~SharedLock() = default;

void SharedLock::lock() { lock_as(Mode::exclusive); }
void SharedLock::lock_shared() { lock_as(Mode::shared); }
void SharedLock::lock_as(Mode mode) { present(state_).holds.lock(State::weight(mode)); }
bool SharedLock::try_lock() { return lock_within(Mode::exclusive, std::chrono::nanoseconds::zero()); }
bool SharedLock::try_lock_shared() { return lock_within(Mode::shared, std::chrono::nanoseconds::zero()); }
bool SharedLock::lock_within(Mode mode, std::chrono::nanoseconds timeout) {
  return present(state_).holds.lock_within(State::weight(mode), timeout);
}
void SharedLock::unlock() noexcept { present(state_).holds.unlock(); }
void SharedLock::unlock_shared() noexcept { present(state_).holds.unlock(); }

void SharedLock::downgrade() {
  State& state = present(state_);
  state.client->shrink_implicit(state.held(), process::shared_lock);
}

void SharedLock::upgrade() { (void)upgrade_within(std::nullopt); }
bool SharedLock::try_upgrade() { return upgrade_within(std::chrono::nanoseconds::zero()); }

bool SharedLock::upgrade_within(std::optional<std::chrono::nanoseconds> timeout) {
  State& state = present(state_);
  process::Hold& hold = state.held();
  if (hold.weight == process::whole_lock) return true;
  const process::Answer answer = state.client->upgrade_implicit(hold, deadline_after(timeout));
  if (answer.result == AcquireResult::deadlock && answer.circle.empty()) {
    throw Error(Errc::deadlock, "another one upgrades " + state.client->title() +
                                    " already and waits for this shared hold; give it back, and lock again");
  }
  state.client->require_no_deadlock(answer);
  return static_cast<bool>(answer);
}

std::uint64_t SharedLock::token() const noexcept { return present(state_).holds.token(); }
bool SharedLock::lost() const { return present(state_).holds.lost(); }
std::optional<Previous> SharedLock::previous() const { return present(state_).holds.previous(); }
const std::string& SharedLock::name() const noexcept { return present(state_).client->name(); }

}  // namespace shmcoord
