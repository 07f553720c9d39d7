#include "coordination/guard_store.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <map>
#include <utility>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "engine/name_index.hpp"
#include "engine/random.hpp"
#include "engine/verdict.hpp"
#include "process/clock.hpp"
#include "process/primitive_client.hpp"
#include "shmcoord/error.hpp"

namespace shmcoord::coordination {
namespace {

using engine::Kind;
using engine::RealPolicy;
using engine::Step;
using process::GrantView;
using process::LockView;
using process::PrimitiveClient;

constexpr std::size_t most_parts = 1000;  // far more than max_text needs
constexpr int tries = 1000;               // of what only goes wrong while others change the same name

struct PartName {
  std::size_t number = 0;  // from 1
  std::size_t of = 0;
  std::string tag;

  [[nodiscard]] std::string str() const {
    return "part " + std::to_string(number) + "/" + std::to_string(of) + " of " + tag;
  }
};

std::optional<PartName> part_name(std::string_view holder) {
  constexpr std::string_view begin = "part ";
  constexpr std::string_view middle = " of ";
  PartName part;
  if (!holder.starts_with(begin)) return std::nullopt;
  const std::string text(holder.substr(begin.size()));
  const char* const end = text.data() + text.size();
  const auto number = std::from_chars(text.data(), end, part.number);
  if (number.ec != std::errc{} || number.ptr == end || *number.ptr != '/') return std::nullopt;
  const auto of = std::from_chars(number.ptr + 1, end, part.of);
  if (of.ec != std::errc{} || part.number < 1 || part.number > part.of || part.of > most_parts) return std::nullopt;
  const std::string_view rest(of.ptr, static_cast<std::size_t>(end - of.ptr));
  if (!rest.starts_with(middle) || rest.size() == middle.size()) return std::nullopt;
  part.tag = rest.substr(middle.size());
  return part;
}

struct Try {
  std::vector<const GrantView*> parts;  // by number; nullptr: missing
  std::uint64_t completed = 0;          // token of the last part; 0: incomplete
  bool sound = true;
};

std::map<std::string, Try> tries_of(const LockView& seen) {
  std::map<std::string, Try> all;
  for (const GrantView& g : seen.holders) {
    const auto name = part_name(g.holder);
    if (!name) continue;
    Try& one = all[name->tag];
    one.parts.resize(std::max(one.parts.size(), name->of), nullptr);
    one.sound = one.sound && one.parts.size() == name->of && one.parts[name->number - 1] == nullptr && g.token != 0;
    one.parts[name->number - 1] = &g;
  }
  for (auto& [tag, one] : all) {
    if (!one.sound || std::find(one.parts.begin(), one.parts.end(), nullptr) != one.parts.end()) continue;
    for (const GrantView* part : one.parts) one.completed = std::max(one.completed, part->token);
  }
  return all;
}

/// The tag of the definition; nothing: none is complete.
std::optional<std::string> first_complete(const std::map<std::string, Try>& all) {
  const std::pair<const std::string, Try>* first = nullptr;
  for (const auto& one : all) {
    if (one.second.completed == 0) continue;
    if (first == nullptr || one.second.completed < first->second.completed) first = &one;
  }
  return first == nullptr ? std::nullopt : std::optional(first->first);
}

std::optional<LockView> look(const engine::Mapping& mapping, std::string_view name) {
  for (int n = 0; n < tries; ++n) {
    process::Picture picture = process::take_picture(mapping, process::real_clock().now_ns(), {std::string(name)});
    if (picture.locks.empty()) return std::nullopt;
    LockView& seen = picture.locks.front();
    if (seen.settled) return std::move(seen);
  }
  throw Error(Errc::segment_corrupt, "guard '" + std::string(name) + "' changes faster than it can be read");
}

std::string in_hex(std::uint64_t word) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(word));
  return text.data();
}

std::size_t parts_of(std::string_view definition) {
  return (definition.size() + engine::max_reason - 1) / engine::max_reason;
}

/// After a part of our own try could not be written: whoever is refused leaves nothing.
void withdraw(const std::shared_ptr<process::Participant>& participant, PrimitiveClient& client, std::size_t of,
              const std::string& tag) {
  try {
    for (std::size_t number = 1; number <= of; ++number) (void)client.release(PartName{number, of, tag}.str());
    PrimitiveClient::remove(*participant, client.name(), false, Kind::guard);  // if nobody else has a part in it
  } catch (const Error&) {                                                     // the first failure is what is told
  }
}

void write_parts(PrimitiveClient& client, std::string_view definition, const std::string& tag) {
  const std::size_t of = parts_of(definition);
  for (std::size_t number = 1; number <= of; ++number) {
    const std::string holder = PartName{number, of, tag}.str();
    process::Request request;
    request.holder = holder;
    request.weight = 1;
    request.reason = definition.substr((number - 1) * engine::max_reason, engine::max_reason);
    request.no_lease = true;
    request.detached = true;
    if (client.acquire(request, process::try_once)) continue;
    throw Error(Errc::table_full, client.title() + " has no room for its definition; remove it and add it again");
  }
}

void remove_parts(PrimitiveClient& client, const Try& one) {
  for (const GrantView* part : one.parts) {
    if (part != nullptr) (void)client.release(part->holder);
  }
}

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

std::optional<StoredGuard> stored_guard(const LockView& seen) {
  const auto all = tries_of(seen);
  const auto tag = first_complete(all);
  if (!tag) return std::nullopt;
  StoredGuard guard{seen.record, seen.generation, {}, 0};
  for (const GrantView* part : all.at(*tag).parts) {
    guard.definition += part->reason;
    guard.part = part->entry;
  }
  return guard;
}

std::optional<StoredGuard> find_guard(const engine::Mapping& mapping, std::string_view name) {
  const std::optional<LockView> seen = look(mapping, name);
  if (!seen) return std::nullopt;
  if (seen->kind != Kind::guard) {
    throw Error(Errc::wrong_type, "'" + std::string(name) + "' exists as a " +
                                      std::string(engine::word_of(seen->kind)) + ", not as a guard");
  }
  if (seen->damaged) {
    throw Error(Errc::segment_corrupt,
                "guard '" + std::string(name) + "' is damaged; `shmcoord segment check` tells more");
  }
  return stored_guard(*seen);
}

bool is_still(const engine::Mapping& mapping, std::string_view name, const StoredGuard& guard) {
  const auto found = engine::NameIndex<RealPolicy>(mapping.view()).find(name);
  return found && found->record == guard.record && found->generation == guard.generation;
}

std::vector<GuardListing> list_guards(const engine::Mapping& mapping, const process::Picture& picture) {
  std::vector<GuardListing> all;
  for (const LockView& seen : picture.locks) {
    if (seen.kind != Kind::guard || seen.damaged) continue;
    const auto stored = stored_guard(seen);
    if (!stored) continue;
    try {
      all.push_back({guard_from(seen.name, stored->definition), verdict_of(mapping, stored->record)});
    } catch (const Error&) {
      continue;  // damaged, or it moved while it was read: asked for by its name, it says so
    }
  }
  return all;
}

bool add_guard(const std::shared_ptr<process::Participant>& participant, const Guard& guard) {
  check_guard(guard);
  const std::string definition = definition_of(guard);
  PrimitiveClient client(participant, guard.name, {.kind = Kind::guard});
  bool mine = false;
  for (int n = 0; n < tries; ++n) {
    const std::optional<LockView> seen = look(participant->mapping(), guard.name);
    const auto all = seen ? tries_of(*seen) : std::map<std::string, Try>{};
    const auto first = first_complete(all);
    if (!first) {
      client.attach({.kind = Kind::guard});  // it may have been removed meanwhile
      const std::string tag = in_hex(engine::random_word());
      try {
        write_parts(client, definition, tag);
      } catch (...) {
        withdraw(participant, client, parts_of(definition), tag);
        throw;
      }
      mine = true;
      continue;
    }
    for (const auto& [tag, one] : all) {
      if (tag != *first) remove_parts(client, one);
    }
    const std::string there = stored_guard(*seen)->definition;
    require_same_definition(guard.name, there, definition);
    return mine;
  }
  throw Error(Errc::in_use, "guard '" + guard.name + "' is added and removed by others all the time");
}

std::optional<GuardVerdict> verdict_of(const engine::Mapping& mapping, engine::RecordIndex record) {
  auto seen = engine::read_verdict<RealPolicy>(mapping.view(), record);
  if (!seen) return std::nullopt;
  return GuardVerdict{seen->passed, std::move(seen->reason), seen->pid,
                      std::chrono::steady_clock::time_point(std::chrono::nanoseconds(seen->at_ns))};
}

bool set_verdict(process::Participant& participant, std::string_view name, const StoredGuard& guard,
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
