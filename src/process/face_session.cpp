#include <algorithm>

#include "process/face.hpp"

namespace shmcoord {

Session::Session(const Segment& segment, const SessionOptions& options) {
  process::JoinOptions join;
  join.label = options.label;
  join.manual_heartbeat = options.manual_heartbeat;
  join.heartbeat_interval = options.heartbeat_interval;
  join.detect_deadlocks = options.detect_deadlocks;
  state_ = std::make_shared<State>(segment, std::shared_ptr<process::Participant>(
                                                process::Participant::join(detail::Access::mapping(segment), join)));
}

std::optional<Session> Session::join(const Segment& segment, const SessionOptions& options,
                                     std::error_code& ec) noexcept {
  return with_code(
      ec, [&] { return std::optional<Session>(std::in_place, segment, options); },
      []() noexcept { return std::optional<Session>(); });
}

Session::Session(Session&&) noexcept = default;

Session& Session::operator=(Session&& other) noexcept {
  if (this != &other) {
    leave();
    state_ = std::move(other.state_);
  }
  return *this;
}

Session::~Session() { leave(); }

void Session::leave() noexcept {
  if (state_) state_->participant->leave();
}

std::uint64_t Session::id() const noexcept { return state_->participant->session_id(); }
bool Session::alive() const noexcept { return state_ && state_->participant->usable(); }
const Segment& Session::segment() const noexcept { return state_->segment; }

std::shared_ptr<process::PrimitiveClient> Session::State::client(std::string_view name,
                                                                 const process::NameOptions& options) {
  participant->require_usable();
  const std::scoped_lock one(mutex);
  const auto known = clients.find({options.kind, std::string(name)});
  if (known != clients.end()) {
    known->second->attach(options);
    return known->second;
  }
  if (clients.size() >= forget_above) {
    std::erase_if(clients, [](const auto& c) { return c.second.use_count() == 1 && c.second->idle(); });
    forget_above = std::max<std::size_t>(64, 2 * clients.size());
  }
  // A forked child leaves its copy as it is: threads that it does not have may be inside.
  const auto end = [](process::PrimitiveClient* c) {
    if (!c->participant().forked()) delete c;
  };
  std::shared_ptr<process::PrimitiveClient> made(new process::PrimitiveClient(participant, name, options), end);
  clients.emplace(std::pair(options.kind, std::string(name)), made);
  return made;
}

}  // namespace shmcoord
