#include <algorithm>
#include <vector>

#include "process/clock.hpp"
#include "process/face.hpp"

namespace shmcoord {
namespace {

using process::Hold;
using process::LockClient;

// Tells threads of this process apart without a call. Initial-exec: one instruction, also from a shared library.
thread_local char thread_mark __attribute__((tls_model("initial-exec")));
const void* this_thread() noexcept { return &thread_mark; }

std::int64_t deadline_after(std::optional<std::chrono::nanoseconds> timeout) {
  if (!timeout) return process::no_deadline;
  if (*timeout <= std::chrono::nanoseconds::zero()) return process::try_once;
  const std::int64_t now = process::real_clock().now_ns();
  return timeout->count() > process::no_deadline - now ? process::no_deadline : now + timeout->count();
}

process::Request request(const HolderId& holder, const AcquireOptions& options) {
  process::Request r;
  r.holder = holder.str();
  r.reason = options.reason;
  r.ttl = options.ttl;
  return r;
}

}  // namespace

// The first thread that locks through a handle gets its Hold without any search; others look theirs up.
struct Lock::State {
  std::shared_ptr<detail::Access::SessionState> session;
  std::shared_ptr<LockClient> client;
  const void* first_thread = nullptr;
  Hold* first_hold = nullptr;
  std::mutex mutex;
  std::vector<std::pair<const void*, Hold*>> others;
  std::uint64_t callback = 0;

  // This thread's Hold, made if it has none yet.
  Hold& mine() {
    if (first_thread_is(this_thread())) return *first_hold;
    client->participant().require_not_forked();
    const std::scoped_lock lock(mutex);
    if (first_hold == nullptr) {
      first_hold = &client->new_implicit();
      first_thread = this_thread();
      engine::RealPolicy::store(first_known_, 1);
      return *first_hold;
    }
    for (const auto& [thread, hold] : others) {
      if (thread == this_thread()) return *hold;
    }
    // A thread that ended may have left its Hold; its mark is another thread's now, or nobody's.
    return *others.emplace_back(this_thread(), &client->new_implicit()).second;
  }

  // The Hold that unlock() means: this thread's, else whichever is held (acquired in one thread, released in another).
  Hold* held() {
    if (first_thread_is(this_thread()) && first_hold->state == Hold::State::held) return first_hold;
    if (client->participant().forked()) return nullptr;
    const std::scoped_lock lock(mutex);
    const auto is_held = [](const Hold* h) { return h != nullptr && h->state == Hold::State::held; };
    for (const auto& [thread, hold] : others) {
      if (thread == this_thread() && is_held(hold)) return hold;
    }
    if (is_held(first_hold)) return first_hold;
    for (const auto& [thread, hold] : others) {
      if (is_held(hold)) return hold;
    }
    return nullptr;
  }

  // This thread's Hold if it can be used to lock; throws if the thread holds it already.
  Hold& to_lock() {
    Hold& hold = mine();
    if (hold.state == Hold::State::held) {
      if (hold.ops.holds(hold.entry, hold.token) && client->participant().usable()) {
        throw Error(Errc::deadlock, "this thread holds lock '" + client->name() + "' already");
      }
      client->unlock_implicit(hold);  // lost, and nobody asked
    }
    return hold;
  }

 private:
  [[nodiscard]] bool first_thread_is(const void* thread) const noexcept {
    return engine::RealPolicy::load(first_known_) != 0 && first_thread == thread;
  }
  engine::Word32 first_known_;  // set after first_hold and first_thread, which then never change
};

Lock::Lock(Session& session, std::string_view name, const LockOptions& options) : state_(std::make_unique<State>()) {
  state_->session = detail::Access::state(session);
  if (!state_->session) throw Error(Errc::session_dead, "the session was moved from or left");
  state_->client = state_->session->lock(name, options);
}

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
  const auto end = [this](Hold* hold) {
    if (hold != nullptr) state_->client->retire_implicit(*hold);
  };
  end(state_->first_hold);
  for (const auto& [thread, hold] : state_->others) end(hold);
}

void Lock::lock() {
  Hold& hold = state_->to_lock();
  if (state_->client->try_fast(hold)) return;
  (void)state_->client->lock_implicit(hold, process::no_deadline);
}

void Lock::lock(std::error_code& ec) noexcept {
  with_code(
      ec, [&] { lock(); }, []() noexcept {});
}

bool Lock::try_lock() { return lock_within(std::chrono::nanoseconds::zero()); }

bool Lock::lock_within(std::chrono::nanoseconds timeout) {
  Hold& hold = state_->mine();
  if (hold.state == Hold::State::held) return false;
  if (state_->client->try_fast(hold)) return true;
  return state_->client->lock_implicit(hold, deadline_after(timeout));
}

void Lock::unlock() noexcept {
  if (Hold* const hold = state_->held()) state_->client->unlock_implicit(*hold);
}

std::uint64_t Lock::token() const noexcept {
  const Hold* const hold = state_->held();
  return hold == nullptr ? 0 : hold->token;
}

bool Lock::lost() const {
  const Hold* const hold = state_->held();
  if (hold == nullptr) return false;
  return !state_->client->participant().usable() || !hold->ops.holds(hold->entry, hold->token);
}

std::optional<Previous> Lock::previous() const {
  const Hold* const hold = state_->held();
  return hold == nullptr ? std::nullopt : hold->previous;
}

AcquireOutcome Lock::try_acquire(const HolderId& holder, const AcquireOptions& options) {
  return state_->client->acquire(request(holder, options), process::try_once);
}

AcquireOutcome Lock::acquire(const HolderId& holder, const AcquireOptions& options,
                             std::optional<std::chrono::nanoseconds> timeout, const std::stop_token& stop) {
  return state_->client->acquire(request(holder, options), deadline_after(timeout), stop);
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

ReleaseOutcome Lock::release(const HolderId& holder) { return state_->client->release(holder.str()); }

ReleaseOutcome Lock::release(const HolderId& holder, std::error_code& ec) noexcept {
  return with_code(
      ec, [&] { return release(holder); }, []() noexcept { return ReleaseOutcome{}; });
}

HeartbeatOutcome Lock::heartbeat(const HolderId& holder) { return state_->client->heartbeat(holder.str()); }

HeartbeatOutcome Lock::renew(const HolderId& holder, std::chrono::nanoseconds ttl) {
  return state_->client->heartbeat(holder.str(), ttl);
}

bool Lock::is_current(std::uint64_t token) const { return state_->client->is_current(token); }
std::optional<HolderInfo> Lock::holder() const {
  state_->client->participant().require_not_forked();  // looking finishes what others left unfinished
  return state_->client->holder();
}
const std::string& Lock::name() const noexcept { return state_->client->name(); }

void Lock::on_lost(std::function<void(const HolderId&, const Lost&)> callback) {
  state_->client->participant().require_not_forked();
  if (state_->callback != 0) state_->client->remove_on_lost(std::exchange(state_->callback, 0));
  if (callback) state_->callback = state_->client->on_lost(std::move(callback));
}

int Lock::wait_fd(const HolderId& holder, const AcquireOptions& options) {
  return state_->client->wait_fd(request(holder, options));
}

void Lock::cancel_wait(const HolderId& holder) { state_->client->cancel_wait(holder.str()); }

void Lock::remove(Session& session, std::string_view name, bool force) {
  const auto& state = detail::Access::state(session);
  if (!state) throw Error(Errc::session_dead, "the session was moved from or left");
  LockClient::remove(*state->participant, name, force);
}

// --- LockGuard -------------------------------------------------------------------------------------------------------

LockGuard::LockGuard(Lock& lock, HolderId holder, const AcquireOptions& options) : holder_(std::move(holder)) {
  AcquireOutcome got = lock.acquire(holder_, options);
  if (!got) throw Error(Errc::deadlock, "waiting for lock '" + lock.name() + "' would never end");
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
  return state_->client->stands(holder.str(), token);
}

}  // namespace shmcoord
