#include <algorithm>
#include <utility>
#include <vector>

#include "process/face_holds.hpp"

namespace shmcoord {
namespace {

using process::Answer;
using process::Hold;
using process::PrimitiveClient;

process::NameOptions name_options(const SemaphoreOptions& options) {
  process::NameOptions o;
  o.kind = engine::Kind::semaphore;
  o.capacity = options.capacity;
  o.per_session = options.per_session;
  o.lease.stale_threshold = options.stale_threshold;
  o.lease.heartbeat_interval = options.heartbeat_interval;
  o.lease.ttl = options.ttl;
  return o;
}

}  // namespace

// Permits come and go, each with a Hold of its own. Those that are out of use lie here, so that the next permit
// allocates nothing; the first thread that used the handle has its own heap of them, which needs no mutex.
struct Semaphore::State {
  std::shared_ptr<detail::Access::SessionState> session;
  std::shared_ptr<PrimitiveClient> client;
  std::uint64_t callback = 0;

  State(std::shared_ptr<detail::Access::SessionState> of, std::string_view name, const SemaphoreOptions& options)
      : session(std::move(of)), client(session->client(name, name_options(options))) {
    first_unused_.reserve(16);
    unused_.reserve(16);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (client->participant().forked()) return;
    if (callback != 0) client->remove_on_lost(callback);
    for (Hold* hold : all_) client->retire_implicit(*hold);
  }

  Hold& take() {
    if (is_first_thread() && !first_unused_.empty()) {
      Hold& hold = *first_unused_.back();
      first_unused_.pop_back();
      return hold;
    }
    client->participant().require_not_forked();
    const std::scoped_lock lock(mutex_);
    if (engine::RealPolicy::load(first_known_) == 0) {
      first_thread_ = this_thread();
      engine::RealPolicy::store(first_known_, 1);
    }
    if (!unused_.empty()) {
      Hold& hold = *unused_.back();
      unused_.pop_back();
      return hold;
    }
    Hold& hold = client->new_implicit();
    all_.push_back(&hold);
    // So that giving back never has to allocate.
    unused_.reserve(all_.size());
    if (is_first_thread()) first_unused_.reserve(all_.size());
    return hold;
  }

  void give_back(Hold& hold) noexcept {
    if (is_first_thread() && first_unused_.size() < first_unused_.capacity()) {
      first_unused_.push_back(&hold);
      return;
    }
    if (client->participant().forked()) return;
    const std::scoped_lock lock(mutex_);
    unused_.push_back(&hold);
  }

 private:
  [[nodiscard]] bool is_first_thread() const noexcept {
    return engine::RealPolicy::load(first_known_) != 0 && first_thread_ == this_thread();
  }

  const void* first_thread_ = nullptr;
  engine::Word32 first_known_;       // set after first_thread_, which then never changes
  std::vector<Hold*> first_unused_;  // touched by that thread only
  std::mutex mutex_;                 // guards the next two
  std::vector<Hold*> unused_;
  std::vector<Hold*> all_;
};

const std::shared_ptr<PrimitiveClient>& detail::Access::client(const Semaphore& semaphore) {
  return present(semaphore.state_).client;
}

Semaphore::Semaphore(Session& session, std::string_view name, const SemaphoreOptions& options)
    : state_(std::make_unique<State>(detail::Access::usable_state(session), name, options)) {}

std::optional<Semaphore> Semaphore::attach(Session& session, std::string_view name, const SemaphoreOptions& options,
                                           std::error_code& ec) noexcept {
  return with_code(
      ec, [&] { return std::optional<Semaphore>(std::in_place, session, name, options); },
      []() noexcept { return std::optional<Semaphore>(); });
}

Semaphore::Semaphore(Semaphore&&) noexcept = default;
Semaphore& Semaphore::operator=(Semaphore&&) noexcept = default;
Semaphore::~Semaphore() = default;

PermitOutcome Semaphore::try_acquire(const HolderId& holder, std::uint32_t weight, const AcquireOptions& options) {
  return present(state_).client->acquire(request_of(holder, weight, options), process::try_once).of_a_semaphore();
}

PermitOutcome Semaphore::acquire(const HolderId& holder, std::uint32_t weight, const AcquireOptions& options,
                                 std::optional<std::chrono::nanoseconds> timeout, const std::stop_token& stop) {
  return present(state_)
      .client->acquire(request_of(holder, weight, options), deadline_after(timeout), stop)
      .of_a_semaphore();
}

PermitOutcome Semaphore::try_acquire(const HolderId& holder, std::uint32_t weight, const AcquireOptions& options,
                                     std::error_code& ec) noexcept {
  return with_code(
      ec, [&] { return try_acquire(holder, weight, options); }, []() noexcept { return PermitOutcome{}; });
}

PermitOutcome Semaphore::acquire(const HolderId& holder, std::uint32_t weight, const AcquireOptions& options,
                                 std::optional<std::chrono::nanoseconds> timeout, const std::stop_token& stop,
                                 std::error_code& ec) noexcept {
  return with_code(
      ec, [&] { return acquire(holder, weight, options, timeout, stop); }, []() noexcept { return PermitOutcome{}; });
}

PermitReleaseOutcome Semaphore::release(const HolderId& holder) {
  process::Return got = present(state_).client->release(holder.str());
  const bool released = got.result == ReleaseResult::released;
  return {released ? PermitRelease::released : PermitRelease::not_holder, std::move(got.lost), got.token, got.weight};
}

PermitReleaseOutcome Semaphore::release(const HolderId& holder, std::error_code& ec) noexcept {
  return with_code(
      ec, [&] { return release(holder); }, []() noexcept { return PermitReleaseOutcome{}; });
}

HeartbeatOutcome Semaphore::heartbeat(const HolderId& holder) {
  return present(state_).client->heartbeat(holder.str());
}

HeartbeatOutcome Semaphore::renew(const HolderId& holder, std::chrono::nanoseconds ttl) {
  return present(state_).client->heartbeat(holder.str(), ttl);
}

void Semaphore::resize(std::uint32_t capacity) { present(state_).client->resize(capacity); }
std::uint32_t Semaphore::reclaim_stale() {
  return static_cast<std::uint32_t>(present(state_).client->take_lost().size());
}

// Looking finishes what others left unfinished, which only a participant may do.
std::uint32_t Semaphore::capacity() const {
  present(state_).client->participant().require_not_forked();
  return present(state_).client->amounts().capacity;
}
std::uint32_t Semaphore::used() const {
  present(state_).client->participant().require_not_forked();
  return present(state_).client->amounts().used;
}
std::uint32_t Semaphore::available() const {
  present(state_).client->participant().require_not_forked();
  return present(state_).client->amounts().available();
}
std::vector<PermitHolder> Semaphore::holders() const {
  present(state_).client->participant().require_not_forked();
  return present(state_).client->holders();
}

bool Semaphore::stands(const HolderId& holder, std::uint64_t token) const {
  return present(state_).client->stands(holder.str(), token);
}
bool Semaphore::is_current(std::uint64_t token) const { return present(state_).client->is_current(token); }
const std::string& Semaphore::name() const noexcept { return present(state_).client->name(); }

void Semaphore::on_lost(std::function<void(const HolderId&, const Lost&)> callback) {
  State& state = present(state_);
  state.client->participant().require_not_forked();
  if (state.callback != 0) state.client->remove_on_lost(std::exchange(state.callback, 0));
  if (callback) state.callback = state.client->on_lost(std::move(callback));
}

int Semaphore::wait_fd(const HolderId& holder, std::uint32_t weight, const AcquireOptions& options) {
  return present(state_).client->wait_fd(request_of(holder, weight, options));
}
void Semaphore::cancel_wait(const HolderId& holder) { present(state_).client->cancel_wait(holder.str()); }

void Semaphore::remove(Session& session, std::string_view name, bool force) {
  PrimitiveClient::remove(*detail::Access::usable_state(session)->participant, name, force, engine::Kind::semaphore);
}

// --- Permit ----------------------------------------------------------------------------------------------------------

namespace {
Hold& as_hold(void* hold) noexcept { return *static_cast<Hold*>(hold); }
}  // namespace

Permit::Permit(Semaphore& semaphore, std::uint32_t weight) : Permit(semaphore, weight, process::no_deadline) {}
Permit::Permit(Semaphore& semaphore, std::uint32_t weight, std::try_to_lock_t)
    : Permit(semaphore, weight, process::try_once) {}
Permit::Permit(Semaphore& semaphore, std::uint32_t weight, std::chrono::nanoseconds timeout)
    : Permit(semaphore, weight, deadline_after(timeout)) {}

Permit::Permit(Semaphore& semaphore, std::uint32_t weight, std::int64_t deadline_ns) {
  Semaphore::State& state = present(semaphore.state_);
  Hold& hold = state.take();
  if (!state.client->try_fast(hold, weight)) {
    try {
      const Answer answer = state.client->acquire_implicit(hold, weight, deadline_ns);
      state.client->require_no_deadlock(answer);
      if (!answer) {
        if (answer.impossible) {
          throw Error(Errc::invalid_argument, state.client->too_much_text(weight));
        }
        state.give_back(hold);
        return;
      }
    } catch (...) {
      if (hold.state != Hold::State::held) state.give_back(hold);
      throw;
    }
  }
  state_ = &state;
  hold_ = &hold;
}

Permit::Permit(Permit&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)), hold_(std::exchange(other.hold_, nullptr)) {}

Permit& Permit::operator=(Permit&& other) noexcept {
  if (this != &other) {
    release();
    state_ = std::exchange(other.state_, nullptr);
    hold_ = std::exchange(other.hold_, nullptr);
  }
  return *this;
}

Permit::~Permit() { release(); }

void Permit::release() noexcept {
  if (hold_ == nullptr) return;
  auto& state = *static_cast<Semaphore::State*>(state_);
  Hold& hold = as_hold(std::exchange(hold_, nullptr));
  state.client->unlock_implicit(hold);
  state.give_back(hold);
}

std::uint64_t Permit::token() const noexcept { return hold_ == nullptr ? 0 : as_hold(hold_).token; }

bool Permit::lost() const {
  if (hold_ == nullptr) return false;
  const auto& state = *static_cast<const Semaphore::State*>(state_);
  const Hold& hold = as_hold(hold_);
  return !state.client->participant().usable() || !hold.ops.holds(hold.entry, hold.token);
}

}  // namespace shmcoord
