#include <unistd.h>

#include "engine/segment_file.hpp"
#include "process/dispatcher.hpp"
#include "process/face.hpp"
#include "process/telling.hpp"

namespace shmcoord {

struct Subscription::State {
  std::shared_ptr<process::Participant> participant;
  std::shared_ptr<process::Dispatcher> dispatcher;
  process::Mailbox mailbox;

  State(const std::shared_ptr<detail::Access::SessionState>& session, std::vector<std::string> patterns,
        Callback callback)
      : participant(session->participant),
        dispatcher(session->events()),
        mailbox(std::move(patterns), std::move(callback)) {
    dispatcher->add(mailbox);
  }
  ~State() { dispatcher->remove(mailbox); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

std::shared_ptr<process::Dispatcher> Session::State::events() {
  participant->require_usable();
  const std::scoped_lock one(mutex);
  if (auto known = dispatcher.lock()) return known;
  auto made = std::make_shared<process::Dispatcher>(participant);
  dispatcher = made;
  return made;
}

Subscription::Subscription(Session& session, std::vector<std::string> patterns, Callback callback) {
  if (!callback) throw Error(Errc::invalid_argument, "a subscription needs a callback");
  if (patterns.empty()) throw Error(Errc::invalid_argument, "a subscription needs a pattern; '*' is every event");
  for (const std::string& p : patterns) {
    if (const std::string_view fault = process::fault_of_pattern(p); !fault.empty()) {
      throw Error(Errc::invalid_argument, "the pattern '" + p + "' " + std::string(fault));
    }
  }
  state_ = std::make_unique<State>(detail::Access::usable_state(session), std::move(patterns), std::move(callback));
}

Subscription::Subscription(Subscription&&) noexcept = default;
Subscription& Subscription::operator=(Subscription&& other) noexcept {
  Subscription before(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

Subscription::~Subscription() {
  // A forked child has none of the threads, and must not wait for them.
  if (state_ && state_->participant->forked()) [[maybe_unused]]
    const State* const copy = state_.release();
}

void publish(Session& session, const Event& event) {
  const auto& state = detail::Access::usable_state(session);
  state->participant->require_usable();
  const bool own = event.kind >= EventKind::guard_registered && event.kind <= EventKind::phase_left;
  if (!own) {
    throw Error(Errc::invalid_argument, "'" + std::string(event.name()) +
                                            "' is told by the segment itself; programs tell of guards and pipelines");
  }
  process::tell_event(state->participant->mapping().view(), event, static_cast<std::int32_t>(::getpid()));
}

}  // namespace shmcoord
