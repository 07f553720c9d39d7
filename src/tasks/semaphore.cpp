#include "shmcoord/tasks/semaphore.hpp"

#include <stdexcept>
#include <utility>
#include <vector>

#include <boost/asio/this_coro.hpp>

#include "core/control_machine.hpp"
#include "shmcoord/tasks/parking.hpp"

// What is decided about a permit, core/control_machine.hpp decides: may a newcomer be let in, who gets what is given
// back, what the queue is without somebody. It is the machine of the shared semaphore, with a word that lies in this
// process and needs no compare-and-swap. Its Control holds the queue's tail, and the queue is what it is in a segment:
// a circle, so that the head is the one behind the tail. (core/semaphore_machine.hpp knows holders and leases, which
// this semaphore must not have, and no queue.)
//
// A Waiter is a local of the coroutine that waits. However the coroutine ends - cancelled, timed out, or destroyed with
// its context - the destructor leaves the queue, or passes on a permit that was handed to it and that it never took. So
// a cancellation that comes in the very moment of the hand-over loses nothing.

namespace shmcoord::tasks {

namespace asio = boost::asio;
using detail::Parked;
using detail::Woken;

namespace {

/// The semaphore does not know who holds: all holders are this entry to the machine.
constexpr core::EntryIndex anybody = 0;
constexpr std::uint32_t one = 1;

}  // namespace

struct CooperativeSemaphore::State {
  struct Waiter {
    Waiter(std::weak_ptr<State> of, const asio::any_io_executor& executor,
           std::optional<std::chrono::nanoseconds> timeout)
        : semaphore(std::move(of)), parked(executor, timeout) {}
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    ~Waiter() {
      const auto state = semaphore.lock();
      if (!state) return;
      if (phase == Phase::waiting) state->leave(*this);
      if (phase == Phase::granted) state->give_back();
    }

    std::weak_ptr<State> semaphore;
    Parked parked;
    enum class Phase : std::uint8_t { idle, waiting, granted, taken, dropped } phase = Phase::idle;
    core::EntryIndex index = core::nil_entry;
    Waiter* next = this;
    Waiter* prev = this;
  };

  State(std::int64_t number, int count) : id(number), permits(static_cast<std::uint32_t>(count)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    while (Waiter* const head = this->head()) {
      leave(*head);
      head->phase = Waiter::Phase::dropped;
      head->parked.wake();
    }
  }

  bool try_take() noexcept {
    if (!core::admits(control, permits, one)) return false;
    control = core::acquire(control, anybody, one);
    return true;
  }

  void enqueue(Waiter& waiter) {
    if (unused.empty()) {
      if (waiters.size() >= core::max_entries) throw std::length_error("too many tasks wait for the semaphore");
      waiters.push_back(nullptr);
      unused.reserve(waiters.capacity());  // so that leaving never allocates
      unused.push_back(static_cast<core::EntryIndex>(waiters.size() - 1));
    }
    waiter.index = unused.back();
    unused.pop_back();
    waiters[waiter.index] = &waiter;
    if (control.tail != core::nil_entry) {
      Waiter& tail = *waiters[control.tail];
      waiter.prev = &tail;
      waiter.next = std::exchange(tail.next, &waiter);
      waiter.next->prev = &waiter;
    }
    waiter.phase = Waiter::Phase::waiting;
    control = core::enqueue(control, waiter.index);
  }

  void leave(Waiter& waiter) noexcept {
    control = core::cancel(control, waiter.index, waiter.next->index, waiter.prev->index);
    unlink(waiter);
    waiter.phase = Waiter::Phase::idle;
  }

  /// False: all of them are free.
  bool give_back() {
    if (core::idle(control)) return false;
    Waiter* const head = this->head();
    const core::Head first = head == nullptr ? core::Head{} : core::Head{head->index, one};
    const core::Release released = core::release(control, anybody, one, permits, first, false);
    control = released.next;
    if (released.grantee == core::nil_entry) return true;
    unlink(*head);
    head->phase = Waiter::Phase::granted;
    head->parked.wake();
    return true;
  }

  const std::int64_t id;
  const std::uint32_t permits;
  core::Control control{1, 0, core::nil_entry, core::nil_entry, core::Op::none};
  std::vector<Waiter*> waiters;  // by index
  std::vector<core::EntryIndex> unused;

 private:
  [[nodiscard]] Waiter* head() const noexcept {
    return control.tail == core::nil_entry ? nullptr : waiters[control.tail]->next;
  }

  void unlink(Waiter& waiter) noexcept {
    waiter.prev->next = waiter.next;
    waiter.next->prev = waiter.prev;
    waiter.next = waiter.prev = &waiter;
    waiters[waiter.index] = nullptr;
    unused.push_back(waiter.index);
  }
};

CooperativeSemaphore::CooperativeSemaphore(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

CooperativeSemaphore CooperativeSemaphore::create(std::int64_t id, int permits) {
  if (permits < 1) throw std::invalid_argument("permits must be >= 1");
  return CooperativeSemaphore(std::make_shared<State>(id, permits));
}

std::int64_t CooperativeSemaphore::id() const noexcept { return state_->id; }
int CooperativeSemaphore::permits() const noexcept { return static_cast<int>(state_->permits); }
int CooperativeSemaphore::available() const noexcept {
  return static_cast<int>(state_->permits - state_->control.used);
}
std::size_t CooperativeSemaphore::waiting() const noexcept { return state_->waiters.size() - state_->unused.size(); }

bool CooperativeSemaphore::try_acquire() const { return state_->try_take(); }

void CooperativeSemaphore::release() const {
  if (!state_->give_back()) throw std::runtime_error("semaphore released too many times");
}

// A parked task must not keep the semaphore: `semaphore` is weak, also before the coroutine begins.
asio::awaitable<bool> CooperativeSemaphore::take(std::weak_ptr<State> semaphore,
                                                 std::optional<std::chrono::nanoseconds> timeout) {
  const auto executor = co_await asio::this_coro::executor;
  const auto dropped = [] { return std::runtime_error("semaphore dropped while waited for"); };
  State::Waiter waiter(semaphore, executor, timeout);
  {
    const auto state = semaphore.lock();
    if (!state) throw dropped();
    if (state->try_take()) co_return true;
    if (timeout && *timeout <= std::chrono::nanoseconds::zero()) co_return false;
    state->enqueue(waiter);
  }
  const Woken woken = co_await waiter.parked.park();
  if (woken == Woken::by_cancel) throw TaskCancelledError();
  if (waiter.phase == State::Waiter::Phase::dropped) throw dropped();
  if (woken == Woken::by_deadline) co_return false;
  waiter.phase = State::Waiter::Phase::taken;
  co_return true;
}

asio::awaitable<std::optional<CooperativePermit>> CooperativeSemaphore::take_permit(
    std::weak_ptr<State> semaphore, std::optional<std::chrono::nanoseconds> timeout) {
  auto taking = take(semaphore, timeout);
  const bool taken = co_await std::move(taking);
  std::optional<CooperativePermit> permit;
  if (taken) permit = CooperativePermit(semaphore.lock());
  co_return permit;
}

namespace {

asio::awaitable<void> without_result(asio::awaitable<bool> taken) { (void)co_await std::move(taken); }

asio::awaitable<CooperativePermit> for_sure(asio::awaitable<std::optional<CooperativePermit>> taken) {
  auto permit = co_await std::move(taken);
  co_return *std::move(permit);
}

}  // namespace

asio::awaitable<void> CooperativeSemaphore::acquire() const { return without_result(take(state_, std::nullopt)); }

asio::awaitable<bool> CooperativeSemaphore::acquire_for(std::chrono::nanoseconds timeout) const {
  return take(state_, timeout);
}

asio::awaitable<CooperativePermit> CooperativeSemaphore::acquire_permit() const {
  return for_sure(take_permit(state_, std::nullopt));
}

asio::awaitable<std::optional<CooperativePermit>> CooperativeSemaphore::acquire_permit_for(
    std::chrono::nanoseconds timeout) const {
  return take_permit(state_, timeout);
}

// --- the guard -------------------------------------------------------------------------------------------------------

CooperativePermit::CooperativePermit(std::shared_ptr<CooperativeSemaphore::State> of) noexcept : of_(std::move(of)) {}

CooperativePermit& CooperativePermit::operator=(CooperativePermit&& other) noexcept {
  if (this != &other) {
    release();
    of_ = std::move(other.of_);
  }
  return *this;
}

CooperativePermit::~CooperativePermit() { release(); }

void CooperativePermit::release() noexcept {
  if (const auto of = std::exchange(of_, nullptr)) (void)of->give_back();
}

}  // namespace shmcoord::tasks
