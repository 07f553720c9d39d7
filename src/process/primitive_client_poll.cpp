#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "process/call_arguments.hpp"
#include "process/primitive_client.hpp"

// Waiting without a thread: a descriptor that becomes readable when the wait is over.

namespace shmcoord::process {

using engine::Step;

int PrimitiveClient::wait_fd(const Request& request) {
  participant_->require_usable();
  need_tick();
  const int fd = queue_async(request);
  participant_->keeper().poke();  // it may be granted already
  return fd;
}

int PrimitiveClient::queue_async(const Request& request) {
  participant_->require_usable();
  require_holder(request.holder);
  require_permits("the weight", request.weight);
  require_reason(request.reason);
  require_duration("ttl", request.ttl);
  std::unique_lock lock(mutex_);
  Hold& hold = hold_of(request.holder, false);
  if (hold.busy) throw Error(Errc::in_use, "another thread waits for " + title() + " as this holder");
  hold.busy = true;
  lock.unlock();
  const Busy busy{*this, hold};
  if (hold.fd < 0) {
    hold.fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (hold.fd < 0) throw Error(Errc::system, std::string("eventfd: ") + std::strerror(errno));
  }
  if (hold.state == Hold::State::held && settle_loss(hold)) hold.lost.reset();
  if (hold.state == Hold::State::held && hold.weight < request.weight) {
    throw Error(Errc::in_use,
                title() + ": this holder has " + std::to_string(hold.weight) + " already; get more with acquire()");
  }
  if (hold.state == Hold::State::idle) {
    engine::Result r{Step::closed};
    for (;;) {
      prepare(hold, request, request.gives_up);
      r = start(hold, request, true);
      if (r.step != Step::closed) break;
      attach_again(hold);
    }
    if (r.step == Step::impossible) {
      throw Error(Errc::invalid_argument, too_much_text(request.weight));
    }
    if (r.step != Step::acquired && r.step != Step::queued) fail(r.step);
    hold.state = Hold::State::waiting;  // acquire() takes it over, also when it is granted already
  }
  return hold.fd;
}

void PrimitiveClient::cancel_wait(std::string_view holder) {
  participant_->require_usable();
  const std::scoped_lock lock(mutex_);
  Hold* const hold = find_hold(holder);
  if (hold == nullptr || hold->fd < 0 || hold->busy) return;
  (void)end_wait(*hold);
}

// True: it was granted, and is given back. A hold that acquire() took over is none of the wait any more.
bool PrimitiveClient::end_wait(Hold& hold) noexcept {
  if (hold.state == Hold::State::held) {
    if (hold.fd >= 0) ::close(std::exchange(hold.fd, -1));
    return false;
  }
  bool granted = false;
  if (hold.state == Hold::State::waiting) {
    const engine::Result r = hold.ops.cancel(hold.entry);
    granted = r.step == Step::granted && hold.ops.release(hold.entry, r.seq).step == Step::released;
  }
  finish_hold(hold);
  return granted;
}

// The keeper looks at this lock only once there is somebody to tell.
void PrimitiveClient::need_tick() {
  const std::scoped_lock lock(mutex_);
  if (tick_id_ == 0) tick_id_ = participant_->keeper().add_tick([this] { tick(); });
}

}  // namespace shmcoord::process
