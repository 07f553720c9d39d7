#include <utility>

#include "process/face_holds.hpp"

namespace shmcoord {
namespace {

using process::PrimitiveClient;

}  // namespace

struct Lock::State {
  std::shared_ptr<detail::Access::SessionState> session;
  std::shared_ptr<PrimitiveClient> client;
  ThreadHolds holds;
  std::uint64_t callback = 0;

  State(std::shared_ptr<detail::Access::SessionState> of, std::string_view name, const LockOptions& options)
      : session(std::move(of)), client(session->client(name, {.lease = options})), holds(*client) {}
};

const std::shared_ptr<PrimitiveClient>& detail::Access::client(const Lock& lock) { return present(lock.state_).client; }

Lock::Lock(Session& session, std::string_view name, const LockOptions& options)
    : state_(std::make_unique<State>(detail::Access::usable_state(session), name, options)) {}

std::optional<Lock> Lock::attach(Session& session, std::string_view name, const LockOptions& options,
                                 std::error_code& ec) noexcept {
  return with_code(
      ec, [&] { return std::optional<Lock>(std::in_place, session, name, options); },
      []() noexcept { return std::optional<Lock>(); });
}

Lock::Lock(Lock&&) noexcept = default;

Lock& Lock::operator=(Lock&& other) noexcept {
  if (this != &other) {
    Lock old(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}

Lock::~Lock() {
  if (!state_ || state_->client->participant().forked()) return;
  if (state_->callback != 0) state_->client->remove_on_lost(state_->callback);
}

void Lock::lock() { present(state_).holds.lock(process::whole_lock); }

void Lock::lock(std::error_code& ec) noexcept {
  with_code(
      ec, [&] { lock(); }, []() noexcept {});
}

bool Lock::try_lock() { return lock_within(std::chrono::nanoseconds::zero()); }
bool Lock::lock_within(std::chrono::nanoseconds timeout) {
  return present(state_).holds.lock_within(process::whole_lock, timeout);
}
void Lock::unlock() noexcept { present(state_).holds.unlock(); }
std::uint64_t Lock::token() const noexcept { return present(state_).holds.token(); }
bool Lock::lost() const { return present(state_).holds.lost(); }
std::optional<Previous> Lock::previous() const { return present(state_).holds.previous(); }

AcquireOutcome Lock::try_acquire(const HolderId& holder, const AcquireOptions& options) {
  return present(state_)
      .client->acquire(request_of(holder, process::whole_lock, options), process::try_once)
      .of_a_lock();
}

AcquireOutcome Lock::acquire(const HolderId& holder, const AcquireOptions& options,
                             std::optional<std::chrono::nanoseconds> timeout, const std::stop_token& stop) {
  return present(state_)
      .client->acquire(request_of(holder, process::whole_lock, options), deadline_after(timeout), stop)
      .of_a_lock();
}

AcquireOutcome Lock::try_acquire(const HolderId& holder, const AcquireOptions& options, std::error_code& ec) noexcept {
  return with_code(
      ec, [&] { return try_acquire(holder, options); }, []() noexcept { return AcquireOutcome{}; });
}

AcquireOutcome Lock::acquire(const HolderId& holder, const AcquireOptions& options,
                             std::optional<std::chrono::nanoseconds> timeout, const std::stop_token& stop,
                             std::error_code& ec) noexcept {
  return with_code(
      ec, [&] { return acquire(holder, options, timeout, stop); }, []() noexcept { return AcquireOutcome{}; });
}

ReleaseOutcome Lock::release(const HolderId& holder) {
  return present(state_).client->release(holder.str()).of_a_lock();
}

ReleaseOutcome Lock::release(const HolderId& holder, std::error_code& ec) noexcept {
  return with_code(
      ec, [&] { return release(holder); }, []() noexcept { return ReleaseOutcome{}; });
}

HeartbeatOutcome Lock::heartbeat(const HolderId& holder) { return present(state_).client->heartbeat(holder.str()); }

HeartbeatOutcome Lock::renew(const HolderId& holder, std::chrono::nanoseconds ttl) {
  return present(state_).client->heartbeat(holder.str(), ttl);
}

bool Lock::is_current(std::uint64_t token) const { return present(state_).client->is_current(token); }
std::optional<HolderInfo> Lock::holder() const {
  present(state_).client->participant().require_not_forked();  // looking finishes what others left unfinished
  return present(state_).client->holder();
}
const std::string& Lock::name() const noexcept { return present(state_).client->name(); }

void Lock::on_lost(std::function<void(const HolderId&, const Lost&)> callback) {
  State& state = present(state_);
  state.client->participant().require_not_forked();
  if (state.callback != 0) state.client->remove_on_lost(std::exchange(state.callback, 0));
  if (callback) state.callback = state.client->on_lost(std::move(callback));
}

int Lock::wait_fd(const HolderId& holder, const AcquireOptions& options) {
  return present(state_).client->wait_fd(request_of(holder, process::whole_lock, options));
}

void Lock::cancel_wait(const HolderId& holder) { present(state_).client->cancel_wait(holder.str()); }

void Lock::remove(Session& session, std::string_view name, bool force) {
  PrimitiveClient::remove(*detail::Access::usable_state(session)->participant, name, force);
}

// --- LockGuard -------------------------------------------------------------------------------------------------------

LockGuard::LockGuard(Lock& lock, HolderId holder, const AcquireOptions& options) : holder_(std::move(holder)) {
  AcquireOutcome got = lock.acquire(holder_, options);
  if (!got) throw Error(Errc::deadlock, "lock '" + lock.name() + "' would never be free: " + to_string(got.circle));
  lock_ = &lock;
  token_ = got.token;
  previous_ = std::move(got.previous);
}

LockGuard::LockGuard(LockGuard&& other) noexcept
    : lock_(std::exchange(other.lock_, nullptr)),
      holder_(std::move(other.holder_)),
      token_(other.token_),
      previous_(std::move(other.previous_)) {}

LockGuard& LockGuard::operator=(LockGuard&& other) noexcept {
  if (this != &other) {
    LockGuard old(std::move(*this));
    lock_ = std::exchange(other.lock_, nullptr);
    holder_ = std::move(other.holder_);
    token_ = other.token_;
    previous_ = std::move(other.previous_);
  }
  return *this;
}

LockGuard::~LockGuard() {
  std::error_code ignored;  // lost, left or removed meanwhile: nothing of ours is held then
  if (lock_ != nullptr) (void)lock_->release(holder_, ignored);
}

bool LockGuard::lost() const { return lock_ != nullptr && !lock_->stands(holder_, token_); }

void LockGuard::release() {
  if (Lock* const lock = std::exchange(lock_, nullptr)) (void)lock->release(holder_);
}

bool Lock::stands(const HolderId& holder, std::uint64_t token) const {
  return present(state_).client->stands(holder.str(), token);
}

}  // namespace shmcoord
