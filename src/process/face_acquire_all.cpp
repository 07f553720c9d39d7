#include <algorithm>
#include <utility>

#include "process/acquire_all.hpp"
#include "process/call_arguments.hpp"
#include "process/face_holds.hpp"

// Several holds at once for the public face, each with an implicit holder of its own.

namespace shmcoord {
namespace {

using process::Answer;
using process::Hold;
using process::PrimitiveClient;

struct One {
  std::shared_ptr<PrimitiveClient> client;
  std::uint32_t weight = 0;
  std::int64_t deadline_ns = process::no_deadline;
  std::stop_token stop = {};
  Hold* hold = nullptr;

  Answer acquire() {
    if (hold == nullptr) hold = &client->new_implicit();
    return client->acquire_implicit(*hold, weight, deadline_ns, stop);
  }
  void give_back() const noexcept { client->unlock_implicit(*hold); }
  [[nodiscard]] bool stands() const {
    return client->participant().usable() && hold->ops.holds(hold->entry, hold->token);
  }
};

}  // namespace

struct MultiHold::State {
  std::shared_ptr<detail::Access::SessionState> session;
  std::vector<One> parts;
  AcquireResult result = AcquireResult::busy;
  std::string missing;
  std::vector<DeadlockMember> circle;

  explicit State(std::shared_ptr<detail::Access::SessionState> of) : session(std::move(of)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (session->participant->forked()) return;
    for (const One& part : parts) {
      if (part.hold != nullptr) part.client->retire_implicit(*part.hold);
    }
  }
  [[nodiscard]] const One* find(std::string_view name) const noexcept {
    if (!is_held(result)) return nullptr;
    const auto at =
        std::find_if(parts.begin(), parts.end(), [&](const One& part) { return part.client->name() == name; });
    return at == parts.end() ? nullptr : &*at;
  }
};

Wanted::Wanted(Lock& lock) : Wanted(&detail::Access::client(lock), process::whole_lock) {}
Wanted::Wanted(SharedLock& lock) : Wanted(&detail::Access::client(lock), process::whole_lock) {}
Wanted::Wanted(Semaphore& semaphore, std::uint32_t weight) : Wanted(&detail::Access::client(semaphore), weight) {}
Wanted Wanted::shared(SharedLock& lock) { return {&detail::Access::client(lock), process::shared_lock}; }

/// In the order in which everybody takes them, each name once.
std::unique_ptr<MultiHold::State> detail::Access::plan(Session& session, std::span<const Wanted> wanted,
                                                       std::int64_t deadline_ns, const std::stop_token& stop) {
  if (wanted.empty()) throw Error(Errc::invalid_argument, "acquire_all() of nothing: name what it is to get");
  auto plan = std::make_unique<MultiHold::State>(usable_state(session));
  for (const Wanted& one : wanted) {
    const auto& client = *static_cast<const std::shared_ptr<PrimitiveClient>*>(one.client_);
    if (&client->participant() != plan->session->participant.get()) {
      throw Error(Errc::invalid_argument,
                  client->title() + " was opened in another session than the one that acquires");
    }
    process::require_permits("the weight of " + client->title(), one.weight_);
    plan->parts.push_back({client, one.weight_, deadline_ns, stop});
  }
  auto& parts = plan->parts;
  std::sort(parts.begin(), parts.end(), [](const One& a, const One& b) {
    return process::taken_before(a.client->kind(), a.client->name(), b.client->kind(), b.client->name());
  });
  for (std::size_t i = 1; i < parts.size();) {
    if (parts[i].client != parts[i - 1].client) {
      ++i;
      continue;
    }
    if (parts[i].client->kind() == engine::Kind::lock) {
      throw Error(Errc::invalid_argument, parts[i].client->title() + " is named twice; name it once");
    }
    parts[i - 1].weight += parts[i].weight;
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (const One& part : parts) {
    if (part.client->kind() == engine::Kind::semaphore && part.weight > part.client->amounts().capacity) {
      throw Error(Errc::invalid_argument, part.client->too_much_text(part.weight));
    }
  }
  return plan;
}

MultiHold acquire_all(Session& session, std::span<const Wanted> wanted, std::optional<std::chrono::nanoseconds> timeout,
                      const std::stop_token& stop) {
  auto state = detail::Access::plan(session, wanted, deadline_after(timeout), stop);
  const process::AllAnswer all = process::acquire_all(std::span(state->parts));
  if (all.held == 0) {
    const One& failed = state->parts[all.failed];
    if (all.answer.impossible) throw Error(Errc::invalid_argument, failed.client->too_much_text(failed.weight));
    state->result = all.answer.result;
    state->missing = failed.client->name();
    state->circle = all.answer.circle;
  } else {
    state->result = AcquireResult::acquired;
  }
  return detail::Access::hold(std::move(state));
}

MultiHold acquire_all(Session& session, std::initializer_list<Wanted> wanted,
                      std::optional<std::chrono::nanoseconds> timeout, const std::stop_token& stop) {
  return acquire_all(session, std::span(wanted.begin(), wanted.size()), timeout, stop);
}

std::optional<MultiHold> acquire_all(Session& session, std::span<const Wanted> wanted,
                                     std::optional<std::chrono::nanoseconds> timeout, const std::stop_token& stop,
                                     std::error_code& ec) noexcept {
  return with_code(
      ec, [&] { return std::optional<MultiHold>(acquire_all(session, wanted, timeout, stop)); },
      []() noexcept { return std::optional<MultiHold>(); });
}

MultiHold detail::Access::hold(std::unique_ptr<MultiHold::State> state) noexcept { return MultiHold(std::move(state)); }

MultiHold::MultiHold(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
MultiHold::MultiHold(MultiHold&&) noexcept = default;
MultiHold& MultiHold::operator=(MultiHold&&) noexcept = default;
MultiHold::~MultiHold() = default;

MultiHold::operator bool() const noexcept { return state_ != nullptr && is_held(state_->result); }
AcquireResult MultiHold::result() const noexcept { return present(state_).result; }
const std::string& MultiHold::missing() const noexcept { return present(state_).missing; }
const std::vector<DeadlockMember>& MultiHold::circle() const noexcept { return present(state_).circle; }

std::uint64_t MultiHold::token(std::string_view name) const noexcept {
  const One* const part = present(state_).find(name);
  return part == nullptr ? 0 : part->hold->token;
}
std::optional<Previous> MultiHold::previous(std::string_view name) const {
  const One* const part = present(state_).find(name);
  return part == nullptr ? std::nullopt : part->hold->previous;
}
bool MultiHold::lost() const {
  return *this && !std::all_of(state_->parts.begin(), state_->parts.end(), [](const One& p) { return p.stands(); });
}
void MultiHold::release() noexcept {
  if (!*this) return;
  state_->result = AcquireResult::cancelled;
  if (!state_->session->participant->forked()) {
    for (const One& part : state_->parts) part.give_back();
  }
}

}  // namespace shmcoord
