#include "shmcoord/tasks/shared.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "shmcoord/error.hpp"
#include "shmcoord/tasks/semaphore.hpp"

// The queue in this process is a cooperative semaphore, whose permits are the places in the segment's queue: FIFO,
// time-outs, cancellation and passing on are those of semaphore.cpp. Who has a place queues up by wait_fd().
//
// Two things must hold. The descriptor is the primitive's, which closes it with the wait, also when somebody else ends
// that: so Asio gets a duplicate (of a descriptor that is closed behind its back the registration is left to the next
// one of that number). And whatever ends a wait, the coroutine or this queue, ends it in the segment at once, because
// the primitive may be gone when the coroutine runs next. Both are in Wait::end().
//
// g++ 12 destroys some temporaries of an expression with co_await or co_return twice, or not at all. So what is awaited
// or returned has a name, here and in the rest of the component.
//
// What if we die here: the entries in the segment speak for themselves.

namespace shmcoord::tasks {

namespace asio = boost::asio;
using detail::Outcome;
using detail::SharedQueue;

namespace {

/// As every waiter of this library looks again now and then: a session that is over tells nobody by a descriptor.
constexpr std::chrono::seconds look_again{1};

std::runtime_error dropped() { return std::runtime_error("the queue was dropped while waited in"); }

/// Of one process: holders that name nobody must differ between all queues of a session.
std::uint64_t next_queue_number() {
  static std::mutex mutex;
  static std::uint64_t last = 0;
  const std::scoped_lock lock(mutex);
  return ++last;
}

/// What is asked for, kept for as long as the coroutine waits.
struct Request {
  HolderId holder;
  std::uint32_t weight;
  std::optional<std::string> reason;
  std::optional<std::chrono::nanoseconds> ttl;
  bool unnamed = false;  // of a holder that is new
  bool timed = false;

  Request(HolderId who, std::uint32_t how_much, const AcquireOptions& options)
      : holder(std::move(who)), weight(how_much), reason(options.reason), ttl(options.ttl) {}

  [[nodiscard]] AcquireOptions options() const {
    AcquireOptions o;
    if (reason) o.reason = *reason;
    o.ttl = ttl;
    o.gives_up = timed;
    return o;
  }
};

// The calls that differ by a weight.
int wait_fd(Semaphore& s, const Request& r) { return s.wait_fd(r.holder, r.weight, r.options()); }
int wait_fd(Lock& l, const Request& r) { return l.wait_fd(r.holder, r.options()); }

/// One try: of who waits already, whether the wait is over.
PermitOutcome try_once(Semaphore& s, const Request& r) {
  return s.acquire(r.holder, r.weight, r.options(), std::chrono::nanoseconds::zero());
}
AcquireOutcome try_once(Lock& l, const Request& r) {
  return l.acquire(r.holder, r.options(), std::chrono::nanoseconds::zero());
}

}  // namespace

template <class Primitive>
struct detail::SharedQueue {
  class Claim;
  class Wait;
  using Weak = std::weak_ptr<SharedQueue>;
  using Out = Outcome<Primitive>;

  SharedQueue(Primitive& of, const AsyncOptions& options)
      : primitive(of), places(CooperativeSemaphore::create(1, checked(options.waits))), number(next_queue_number()) {}
  SharedQueue(const SharedQueue&) = delete;
  SharedQueue& operator=(const SharedQueue&) = delete;
  ~SharedQueue() {
    while (!waits.empty()) waits.front()->end();
  }

  static int checked(int waits) {
    if (waits < 1) throw Error(Errc::invalid_argument, "waits must be >= 1");
    return waits;
  }
  static std::shared_ptr<SharedQueue> alive(const Weak& queue) {
    auto self = queue.lock();
    if (!self) throw dropped();
    return self;
  }

  /// A request of a holder of its own.
  Request unnamed(std::uint32_t weight, const AcquireOptions& options) {
    Request request(HolderId("task:" + std::to_string(number) + "." + std::to_string(++holders_made)), weight, options);
    request.unnamed = true;
    return request;
  }

  /// Who has it already must not queue behind those who wait for that. True: `out` is the answer.
  static bool extend(SharedQueue& self, const Request& request, Out& out) {
    if (self.places.available() > 0 || request.unnamed) return false;
    if (self.primitive.heartbeat(request.holder).result != HeartbeatResult::refreshed) return false;
    out = try_once(self.primitive, request);
    if (out) return true;
    throw Error(Errc::in_use, "'" + request.holder.str() + "' has fewer permits already; get more with acquire()");
  }

  static asio::awaitable<Out> acquire(Weak queue, Request request, std::optional<std::chrono::nanoseconds> timeout);
  static asio::awaitable<AsyncHold<Primitive>> acquire_hold(Weak queue, Request request,
                                                            std::optional<std::chrono::nanoseconds> timeout) {
    auto acquiring = acquire(queue, request, timeout);
    Out outcome = co_await std::move(acquiring);
    // Nothing ran since, so the queue is there, and with it the primitive.
    AsyncHold<Primitive> hold(alive(queue)->primitive, request.holder, std::move(outcome));
    co_return hold;
  }

  Primitive& primitive;
  CooperativeSemaphore places;
  std::unordered_set<std::string> holders;  // that wait, in either queue
  std::list<Wait*> waits;                   // in the segment's queue
  std::uint64_t number;
  std::uint64_t holders_made = 0;
};

namespace detail {

/// A holder waits once.
template <class Primitive>
class SharedQueue<Primitive>::Claim {
 public:
  Claim(Weak queue, const HolderId& holder) : queue_(std::move(queue)), holder_(holder.str()) {
    if (alive(queue_)->holders.insert(holder_).second) return;
    throw Error(Errc::in_use, "another task waits as '" + holder_ + "' already");
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim() {
    if (const auto self = queue_.lock()) self->holders.erase(holder_);
  }

 private:
  Weak queue_;
  std::string holder_;
};

template <class Primitive>
class SharedQueue<Primitive>::Wait {
 public:
  Wait(SharedQueue& queue, const Request& request, const asio::any_io_executor& executor)
      : queue_(&queue),
        request_(request),
        descriptor_(executor),
        look_(executor),
        at_(queue.waits.insert(queue.waits.end(), this)) {}
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;
  ~Wait() { end(); }

  /// Leaves the segment's queue. A grant that nobody took goes to the next one; a hold that was taken stays.
  void end() noexcept {
    if (queue_ == nullptr) return;
    let_go();
    try {
      queue_->primitive.cancel_wait(request_.holder);
    } catch (...) {  // the session is over, and its waits with it
    }
    queue_->waits.erase(at_);
    queue_ = nullptr;
  }
  [[nodiscard]] bool ended() const noexcept { return queue_ == nullptr; }

  /// Queues up, if it does not stand there already. False: it could never fit.
  bool queue_up() {
    try {
      const int fd = wait_fd(queue_->primitive, request_);
      let_go();
      fd_ = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
      if (fd_ < 0) throw Error(Errc::system, std::string("a duplicate of a descriptor: ") + std::strerror(errno));
      return true;
    } catch (const Error& e) {
      if (e.errc() == Errc::invalid_argument) return false;
      throw;
    }
  }
  /// Is it over? What is not held is waited for on, or could never fit.
  Out look() {
    std::uint64_t told = 0;
    (void)!::read(fd_, &told, sizeof told);  // before the look, so that a wake behind it is seen by the next wait
    return try_once(queue_->primitive, request_);
  }

  /// Until there may be something to see. False: the deadline has passed.
  asio::awaitable<bool> until_told(const asio::steady_timer::time_point deadline) {
    using asio::experimental::awaitable_operators::operator||;
    constexpr auto plain = asio::as_tuple(asio::use_awaitable);
    look_.expires_after(look_again);
    if (deadline < look_.expiry()) look_.expires_at(deadline);
    descriptor_.assign(fd_);
    const auto first =
        co_await (descriptor_.async_wait(asio::posix::descriptor_base::wait_read, plain) || look_.async_wait(plain));
    if (descriptor_.is_open()) descriptor_.release();
    co_return first.index() == 0 || look_.expiry() < deadline;
  }

 private:
  void let_go() noexcept {
    if (descriptor_.is_open()) descriptor_.release();
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

  SharedQueue* queue_;
  const Request& request_;
  asio::posix::stream_descriptor descriptor_;  // Asio's hold of fd_, while it is awaited
  asio::steady_timer look_;
  int fd_ = -1;
  typename std::list<Wait*>::iterator at_;
};

template <class Primitive>
asio::awaitable<Outcome<Primitive>> SharedQueue<Primitive>::acquire(Weak queue, Request request,
                                                                    std::optional<std::chrono::nanoseconds> timeout) {
  const auto executor = co_await asio::this_coro::executor;
  const auto limit = std::min(timeout.value_or(shmcoord::detail::longest_wait), shmcoord::detail::longest_wait);
  const bool once = limit <= std::chrono::nanoseconds::zero();
  const asio::steady_timer deadline(executor, limit);
  request.timed = timeout.has_value();
  const Claim claim(queue, request.holder);
  Out out;
  if (extend(*alive(queue), request, out)) co_return out;
  auto placing = alive(queue)->places.acquire_permit_for(limit);
  const auto place = co_await std::move(placing);
  if (!place) {
    if (!once) out.result = decltype(out.result)::timed_out;
    co_return out;
  }
  if (once) {
    out = try_once(alive(queue)->primitive, request);
    co_return out;
  }
  Wait wait(*alive(queue), request, executor);
  bool in_time = true;
  while (wait.queue_up()) {
    out = wait.look();
    if (out || out.result == decltype(out.result)::deadlock) co_return out;
    if (!in_time) {
      out.result = decltype(out.result)::timed_out;
      co_return out;
    }
    if (!wait.queue_up()) break;  // that look may have ended the wait: turned away by a resize
    auto waiting = wait.until_told(deadline.expiry());
    in_time = co_await std::move(waiting);
    const auto cancellation = co_await asio::this_coro::cancellation_state;
    if (cancellation.cancelled() != asio::cancellation_type::none) throw TaskCancelledError();
    if (wait.ended()) throw dropped();
  }
  // It could never fit, or the request is not valid: this says which.
  out = try_once(alive(queue)->primitive, request);
  co_return out;
}

}  // namespace detail

// --- the face --------------------------------------------------------------------------------------------------------

AsyncSemaphore::AsyncSemaphore(Semaphore& semaphore, const AsyncOptions& options)
    : queue_(std::make_shared<SharedQueue<Semaphore>>(semaphore, options)) {}
AsyncSemaphore::~AsyncSemaphore() = default;

asio::awaitable<PermitOutcome> AsyncSemaphore::async_acquire(const HolderId& holder, std::uint32_t weight,
                                                             const AcquireOptions& options,
                                                             std::optional<std::chrono::nanoseconds> timeout) {
  return SharedQueue<Semaphore>::acquire(queue_, {holder, weight, options}, timeout);
}

asio::awaitable<AsyncHold<Semaphore>> AsyncSemaphore::async_permit(std::uint32_t weight, const AcquireOptions& options,
                                                                   std::optional<std::chrono::nanoseconds> timeout) {
  return SharedQueue<Semaphore>::acquire_hold(queue_, queue_->unnamed(weight, options), timeout);
}

std::size_t AsyncSemaphore::queued() const noexcept { return queue_->places.waiting(); }

AsyncLock::AsyncLock(Lock& lock, const AsyncOptions& options)
    : queue_(std::make_shared<SharedQueue<Lock>>(lock, options)) {}
AsyncLock::~AsyncLock() = default;

asio::awaitable<AcquireOutcome> AsyncLock::async_acquire(const HolderId& holder, const AcquireOptions& options,
                                                         std::optional<std::chrono::nanoseconds> timeout) {
  return SharedQueue<Lock>::acquire(queue_, {holder, 1, options}, timeout);
}

asio::awaitable<AsyncHold<Lock>> AsyncLock::async_hold(const AcquireOptions& options,
                                                       std::optional<std::chrono::nanoseconds> timeout) {
  return SharedQueue<Lock>::acquire_hold(queue_, queue_->unnamed(1, options), timeout);
}

std::size_t AsyncLock::queued() const noexcept { return queue_->places.waiting(); }

}  // namespace shmcoord::tasks
