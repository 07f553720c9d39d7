#include "coordination/guard_store.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "engine/verdict.hpp"
#include "process/clock.hpp"
#include "shmcoord/error.hpp"

namespace shmcoord::coordination {
namespace {

using engine::Kind;
using engine::RealPolicy;
using engine::Step;
using process::LockView;

std::string cut(std::string_view reason) {
  constexpr std::size_t most = engine::max_verdict - 1;
  constexpr std::string_view dots = "…";
  if (reason.size() <= most) return std::string(reason);
  std::size_t bytes = 0;
  for (char32_t code = 0;;) {
    const std::size_t next = std::max<std::size_t>(base::utf8_sequence(reason.substr(bytes), &code), 1);
    if (bytes + next > most - dots.size()) break;
    bytes += next;
  }
  return std::string(reason.substr(0, bytes)) + std::string(dots);
}

}  // namespace

void require_same_definition(std::string_view name, std::string_view there, std::string_view wanted) {
  if (there == wanted) return;
  throw Error(Errc::config_differs, "guard '" + std::string(name) + "' exists as " + base::shortened(there, 1000) +
                                        ", asked for as " + base::shortened(wanted, 1000) +
                                        "; remove it first to change it");
}

std::optional<StoredText> find_guard(const engine::Mapping& mapping, std::string_view name) {
  const std::optional<LockView> seen = look_at(mapping, Kind::guard, name);
  return seen ? stored_text(*seen) : std::nullopt;
}

std::vector<GuardListing> list_guards(const engine::Mapping& mapping, const process::Picture& picture) {
  std::vector<GuardListing> all;
  for (const LockView& seen : picture.locks) {
    if (seen.kind != Kind::guard || seen.damaged) continue;
    const auto stored = stored_text(seen);
    if (!stored) continue;
    try {
      all.push_back({guard_from(seen.name, stored->text), verdict_of(mapping, stored->record)});
    } catch (const Error&) {
      continue;  // damaged, or it moved while it was read: asked for by its name, it says so
    }
  }
  return all;
}

bool add_guard(const std::shared_ptr<process::Participant>& participant, const Guard& guard) {
  check_guard(guard);
  const std::string definition = definition_of(guard);
  const AddedText added = add_text(participant, Kind::guard, guard.name, definition);
  require_same_definition(guard.name, added.there.text, definition);
  return added.mine;
}

std::optional<GuardVerdict> verdict_of(const engine::Mapping& mapping, engine::RecordIndex record) {
  auto seen = engine::read_verdict<RealPolicy>(mapping.view(), record);
  if (!seen) return std::nullopt;
  return GuardVerdict{seen->passed, std::move(seen->reason), seen->pid,
                      std::chrono::steady_clock::time_point(std::chrono::nanoseconds(seen->at_ns))};
}

bool set_verdict(process::Participant& participant, std::string_view name, const StoredText& guard,
                 const GuardOutcome& outcome) {
  participant.require_usable();
  const engine::Mapping& mapping = participant.mapping();
  if (!is_still(mapping, name, guard)) return false;
  mapping.prepare_notices(engine::Mapping::NoticePart::head, {&guard.record, 1});
  mapping.prepare_notices(engine::Mapping::NoticePart::rest, {&guard.record, 1});
  const engine::ControlOps<RealPolicy> ops(mapping.view(), guard.record, guard.generation);
  const auto* const failed = std::get_if<GuardFailed>(&outcome);
  const Step step =
      engine::write_verdict<RealPolicy>(ops, guard.part, failed == nullptr, ::getpid(), process::real_clock().now_ns(),
                                        failed == nullptr ? std::string() : cut(failed->reason));
  if (step == Step::corrupt || step == Step::exhausted) {
    throw Error(Errc::segment_corrupt,
                "guard '" + std::string(name) + "' is damaged; `shmcoord segment check` tells more");
  }
  return step != Step::closed;
}

}  // namespace shmcoord::coordination
