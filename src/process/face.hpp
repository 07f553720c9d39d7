#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "process/primitive_client.hpp"
#include "shmcoord/shmcoord.hpp"

// What the public handles hold. The face translates: names and options in, exceptions or error codes out; everything
// that thinks is in PrimitiveClient and Participant.

namespace shmcoord::process {
class Dispatcher;
}

namespace shmcoord {

/// Handles of one name in one session share one PrimitiveClient, so that equal holder ids are one holder (C-50). It
/// outlives the handles while one of its holders holds; those that stand for nothing are forgotten when there are many.
struct Session::State {
  Segment segment;
  std::shared_ptr<process::Participant> participant;
  std::mutex mutex;
  std::map<std::pair<engine::Kind, std::string>, std::shared_ptr<process::PrimitiveClient>> clients;
  std::size_t forget_above = 64;
  std::weak_ptr<process::Dispatcher> dispatcher;

  std::shared_ptr<process::PrimitiveClient> client(std::string_view name, const process::NameOptions& options);
  /// Who reads the journal for this session, while somebody has it.
  std::shared_ptr<process::Dispatcher> events();
};

struct detail::Access {
  using SessionState = Session::State;
  static const std::shared_ptr<engine::Mapping>& mapping(const Segment& s) noexcept { return s.mapping_; }
  static Segment segment(std::shared_ptr<engine::Mapping> m) noexcept { return Segment(std::move(m)); }
  static const std::shared_ptr<Session::State>& state(const Session& s) noexcept { return s.state_; }
  /// Throws session_dead when the handle is empty.
  static const std::shared_ptr<Session::State>& usable_state(const Session& s) {
    if (!s.state_) throw Error(Errc::session_dead, "the session was moved from or left");
    return s.state_;
  }
  static const std::shared_ptr<process::PrimitiveClient>& client(const Lock& lock);
  static const std::shared_ptr<process::PrimitiveClient>& client(const SharedLock& lock);
  static const std::shared_ptr<process::PrimitiveClient>& client(const Semaphore& semaphore);
  static std::unique_ptr<MultiHold::State> plan(Session& session, std::span<const Wanted> wanted,
                                                std::int64_t deadline_ns, const std::stop_token& stop);
  static MultiHold hold(std::unique_ptr<MultiHold::State> state) noexcept;
};

/// Runs `f`; an exception becomes an error code, and the answer of `failed()`.
template <class F, class Failed>
auto with_code(std::error_code& ec, F&& f, Failed&& failed) noexcept -> decltype(failed()) {
  try {
    ec.clear();
    return f();
  } catch (const std::system_error& e) {
    ec = e.code();
  } catch (...) {
    ec = std::make_error_code(std::errc::not_enough_memory);
  }
  return failed();
}

}  // namespace shmcoord
