#include "coordination/stored_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "engine/name_index.hpp"
#include "engine/random.hpp"
#include "process/clock.hpp"
#include "process/primitive_client.hpp"
#include "shmcoord/error.hpp"

namespace shmcoord::coordination {
namespace {

using engine::Kind;
using engine::RealPolicy;
using process::GrantView;
using process::LockView;
using process::PrimitiveClient;

constexpr std::size_t most_parts = max_stored_text / engine::max_reason;
constexpr int tries = 1000;  // of what only goes wrong while others change the same name

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

/// The tag of the text; nothing: none is complete.
std::optional<std::string> first_complete(const std::map<std::string, Try>& all) {
  const std::pair<const std::string, Try>* first = nullptr;
  for (const auto& one : all) {
    if (one.second.completed == 0) continue;
    if (first == nullptr || one.second.completed < first->second.completed) first = &one;
  }
  return first == nullptr ? std::nullopt : std::optional(first->first);
}

std::size_t parts_of(std::string_view text) { return (text.size() + engine::max_reason - 1) / engine::max_reason; }

/// After a part of our own try could not be written: whoever is refused leaves nothing.
void withdraw(const std::shared_ptr<process::Participant>& participant, PrimitiveClient& client, std::size_t of,
              const std::string& tag) {
  try {
    for (std::size_t number = 1; number <= of; ++number) (void)client.release(PartName{number, of, tag}.str());
    PrimitiveClient::remove(*participant, client.name(), false, client.kind());  // if nobody else has a part in it
  } catch (const Error&) {                                                       // the first failure is what is told
  }
}

void write_parts(PrimitiveClient& client, std::string_view text, const std::string& tag) {
  const std::size_t of = parts_of(text);
  for (std::size_t number = 1; number <= of; ++number) {
    const std::string_view part = text.substr((number - 1) * engine::max_reason, engine::max_reason);
    keep(client, PartName{number, of, tag}.str(), part, "definition; remove it and add it again");
  }
}

void remove_parts(PrimitiveClient& client, const Try& one) {
  for (const GrantView* part : one.parts) {
    if (part != nullptr) (void)client.release(part->holder);
  }
}

}  // namespace

void keep(PrimitiveClient& client, const std::string& holder, std::string_view text, std::string_view what) {
  process::Request request;
  request.holder = holder;
  request.weight = 1;
  request.reason = text;
  request.no_lease = true;
  request.detached = true;
  if (client.acquire(request, process::try_once)) return;
  throw Error(Errc::table_full, client.title() + " has no room for its " + std::string(what));
}

std::string fresh_tag() {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(engine::random_word()));
  return text.data();
}

std::optional<LockView> look_at(const engine::Mapping& mapping, Kind kind, std::string_view name) {
  auto seen = process::look_at(mapping, name);
  if (seen && seen->kind != kind) {
    throw Error(Errc::wrong_type, "'" + std::string(name) + "' exists as a " +
                                      std::string(engine::word_of(seen->kind)) + ", not as a " +
                                      std::string(engine::word_of(kind)));
  }
  return seen;
}

std::optional<StoredText> stored_text(const LockView& seen) {
  const auto all = tries_of(seen);
  auto tag = first_complete(all);
  if (!tag) return std::nullopt;
  StoredText stored{seen.record, seen.generation, *std::move(tag), {}, 0};
  for (const GrantView* part : all.at(stored.tag).parts) {
    stored.text += part->reason;
    stored.part = part->entry;
  }
  return stored;
}

std::vector<std::string> parts_seen(const LockView& seen) {
  const auto text = first_complete(tries_of(seen));
  std::vector<std::string> parts;
  for (const bool of_text : {false, true}) {
    for (const GrantView& g : seen.holders) {
      const auto name = part_name(g.holder);
      if (name && (name->tag == text) == of_text) parts.push_back(g.holder);
    }
  }
  return parts;
}

bool is_still(const engine::Mapping& mapping, std::string_view name, const StoredText& stored) {
  const auto found = engine::NameIndex<RealPolicy>(mapping.view()).find(name);
  return found && found->record == stored.record && found->generation == stored.generation;
}

AddedText add_text(const std::shared_ptr<process::Participant>& participant, Kind kind, std::string_view name,
                   std::string_view text, Tries taken_away) {
  PrimitiveClient client(participant, name, {.kind = kind});
  std::string mine;  // the tag of our last try
  for (int n = 0; n < tries; ++n) {
    const std::optional<LockView> seen = look_at(participant->mapping(), kind, name);
    const auto all = seen ? tries_of(*seen) : std::map<std::string, Try>{};
    const auto first = first_complete(all);
    if (!first) {
      client.attach({.kind = kind});  // it may have been removed meanwhile
      const std::string tag = fresh_tag();
      try {
        write_parts(client, text, tag);
      } catch (...) {
        withdraw(participant, client, parts_of(text), tag);
        throw;
      }
      mine = tag;
      continue;
    }
    for (const auto& [tag, one] : all) {
      if (tag != *first && (taken_away == Tries::all || tag == mine)) remove_parts(client, one);
    }
    return {*stored_text(*seen), *first == mine};
  }
  throw Error(Errc::in_use, client.title() + " is added and removed by others all the time");
}

}  // namespace shmcoord::coordination
