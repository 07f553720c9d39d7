#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/name_index.hpp"
#include "engine/real_policy.hpp"
#include "engine/segment_file.hpp"
#include "process/face.hpp"
#include "process/participant.hpp"
#include "process/primitive_client.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/global.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/numbers.hpp"

// The tool as a participant: most commands join, do one thing, and leave.

namespace shmcoord::tool {

enum class IfMissing : bool { fail, create };

/// A system call that fails while the segment is opened means that it cannot be used, and is no fault of ours.
template <class Open>
[[nodiscard]] auto opening(Open&& open) {
  try {
    return open();
  } catch (const Error& e) {
    if (e.errc() == Errc::system) throw Refusal{exit_unusable, name_of(Errc::system), e.what()};
    if (e.errc() == Errc::segment_not_found) {
      throw Error(e.errc(), std::string(e.what()) +
                                "; `segment create`, `lock acquire`, `run -l`, `sem create`, `guard add` and `pipeline "
                                "run` make it, `segment "
                                "list` shows those that there are");
    }
    throw;
  }
}

[[nodiscard]] inline std::shared_ptr<engine::Mapping> open_segment(const Global& global, IfMissing if_missing) {
  const engine::OpenOptions options{global.trusted_owner, false};
  return opening([&] {
    return if_missing == IfMissing::create ? engine::Mapping::open_or_create(global.segment, {}, options)
                                           : engine::Mapping::open(global.segment, options);
  });
}

/// Only to look.
[[nodiscard]] inline std::shared_ptr<engine::Mapping> open_read_only(const Global& global) {
  return opening([&] { return engine::Mapping::open(global.segment, {global.trusted_owner, true}); });
}

[[nodiscard]] inline std::shared_ptr<process::Participant> join(const Global& global, IfMissing if_missing,
                                                                const char* label = "") {
  process::JoinOptions options;
  options.label = label;
  return process::Participant::join(open_segment(global, if_missing), options);
}

/// A segment may be removed between its opening and what is done in it, by somebody who saw that nobody used it: then
/// all over again, in the next one.
template <class Do>
[[nodiscard]] auto again_if_removed(Do&& do_it) {
  for (int removals_left = 100;; --removals_left) {
    try {
      return do_it();
    } catch (const Error& e) {
      if (e.errc() != Errc::segment_gone || removals_left == 0) throw;
    }
  }
}

/// Joins, and makes what `make(participant)` does of it, up to a first try of a lock.
template <class Make>
[[nodiscard]] auto join_and(const Global& global, IfMissing if_missing, const char* label, Make&& make) {
  return again_if_removed([&] { return make(join(global, if_missing, label)); });
}

/// As the library's users join, for what it does as a whole.
[[nodiscard]] inline Session join_session(const Global& global, IfMissing if_missing, const char* label = "") {
  SessionOptions options;
  options.label = label;
  return Session(detail::Access::segment(open_segment(global, if_missing)), options);
}

using engine::word_of;

/// For what is asked for and not there: says what to do.
[[nodiscard]] inline Error no_such(engine::Kind kind, const std::string& name, const std::string& segment) {
  if (const auto parts = name_and_weight(name); parts && kind == engine::Kind::semaphore) {
    return {Errc::not_found, "no semaphore '" + name + "' in segment " + segment +
                                 "; NAME:WEIGHT is for `run -S`, here it is the name '" + parts->name +
                                 "' and, to acquire, --weight " + parts->weight};
  }
  return process::no_such_name(kind, name, segment);
}
/// The same of a name that could be either.
[[nodiscard]] inline Error no_such(const std::string& name, const std::string& segment) {
  return {Errc::not_found, "no lock or semaphore '" + name + "' in segment " + segment +
                               "; `shmcoord inspect` lists those that there are"};
}

/// The lock or semaphore of that name; throws Error(not_found), or wrong_type if it is the other.
[[nodiscard]] inline std::unique_ptr<process::PrimitiveClient> find_known(
    const std::shared_ptr<process::Participant>& participant, const std::string& name, engine::Kind kind) {
  auto client = process::PrimitiveClient::find(participant, name, kind);
  if (client == nullptr) throw no_such(kind, name, participant->mapping().name());
  return client;
}

/// Whichever has that name; throws Error(not_found).
[[nodiscard]] inline std::unique_ptr<process::PrimitiveClient> find_either(
    const std::shared_ptr<process::Participant>& participant, const std::string& name) {
  const engine::View& view = participant->mapping().view();
  const auto found = engine::NameIndex<engine::RealPolicy>(view).find(name);
  if (!found) throw no_such(name, participant->mapping().name());
  const auto kind = static_cast<engine::Kind>(engine::RealPolicy::load(view.record(found->record).kind));
  if (kind == engine::Kind::guard) {
    throw Error(Errc::wrong_type, "'" + name + "' is a guard, which nobody holds; it is removed, not taken away");
  }
  if (kind == engine::Kind::pipeline) {
    throw Error(Errc::wrong_type, "'" + name + "' is a pipeline; `shmcoord pipeline cancel` ends it");
  }
  return find_known(participant, name, kind);
}

}  // namespace shmcoord::tool
