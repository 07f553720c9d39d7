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
#include "process/liveness.hpp"
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
  engine::ChunkOwner maker;  // the session that writes it

  [[nodiscard]] std::string str() const {
    return "part " + std::to_string(number) + "/" + std::to_string(of) + " of " + tag + " by " +
           std::to_string(maker.slot) + "." + std::to_string(maker.incarnation);
  }
};

/// A number and what stands behind it, taken off what `text` begins with.
template <class Number>
bool take(std::string_view& text, Number& number, std::string_view end) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  if (!text.starts_with(end)) return false;
  text.remove_prefix(end.size());
  return true;
}

std::optional<PartName> part_name(std::string_view holder) {
  constexpr std::string_view begin = "part ";
  constexpr std::string_view before_maker = " by ";
  PartName part;
  if (!holder.starts_with(begin)) return std::nullopt;
  holder.remove_prefix(begin.size());
  if (!take(holder, part.number, "/") || !take(holder, part.of, " of ")) return std::nullopt;
  if (part.number < 1 || part.number > part.of || part.of > most_parts) return std::nullopt;
  const std::size_t at = holder.find(before_maker);
  if (at == 0 || at == std::string_view::npos) return std::nullopt;
  part.tag = holder.substr(0, at);
  holder.remove_prefix(at + before_maker.size());
  if (!take(holder, part.maker.slot, ".") || !take(holder, part.maker.incarnation, "")) return std::nullopt;
  return holder.empty() ? std::optional(std::move(part)) : std::nullopt;
}

struct Try {
  std::vector<const GrantView*> parts;  // by number; nullptr: missing
  engine::ChunkOwner maker;
  bool sound = true;

  [[nodiscard]] bool whole() const {
    return sound && std::find(parts.begin(), parts.end(), nullptr) == parts.end() &&
           parts.back()->weight >= text_weight;
  }
  /// Its last part was written, so no other is any more.
  [[nodiscard]] bool broken() const { return parts.back() != nullptr && !whole(); }
};

std::map<std::string, Try> tries_of(const LockView& seen) {
  std::map<std::string, Try> all;
  for (const GrantView& g : seen.holders) {
    const auto name = part_name(g.holder);
    if (!name) continue;
    Try& one = all[name->tag];
    one.maker = name->maker;
    one.parts.resize(std::max(one.parts.size(), name->of), nullptr);
    one.sound = one.sound && one.parts.size() == name->of && one.parts[name->number - 1] == nullptr && g.token != 0;
    one.parts[name->number - 1] = &g;
  }
  return all;
}

/// The tag of the text; nothing: there is none.
std::optional<std::string> tag_of_text(const std::map<std::string, Try>& all) {
  for (const auto& [tag, one] : all) {
    if (one.whole()) return tag;
  }
  return std::nullopt;
}

std::size_t parts_of(std::string_view text) {
  return std::max<std::size_t>(1, (text.size() + engine::max_reason - 1) / engine::max_reason);
}

bool try_keep(PrimitiveClient& client, const std::string& holder, std::string_view text, std::uint32_t weight) {
  process::Request request;
  request.holder = holder;
  request.weight = weight;
  request.reason = text;
  request.no_lease = true;
  request.detached = true;
  return static_cast<bool>(client.acquire(request, process::try_once));
}

/// Whoever is refused leaves nothing.
void withdraw(PrimitiveClient& client, PartName part) {
  for (part.number = 1; part.number <= part.of; ++part.number) (void)client.release(part.str());
}

/// False: another one has the last part. `part`: the first.
bool write_parts(PrimitiveClient& client, std::string_view text, PartName part) {
  for (;; ++part.number) {
    const std::string_view said = text.substr((part.number - 1) * engine::max_reason, engine::max_reason);
    if (part.number == part.of) return try_keep(client, part.str(), said, text_weight);
    keep(client, part.str(), said, "definition; remove it and add it again");
  }
}

bool is_dead(const engine::Mapping& mapping, const engine::ChunkOwner& maker) {
  return process::life_of(mapping, maker.slot, maker.incarnation).life == process::Life::dead;
}

}  // namespace

void keep(PrimitiveClient& client, const std::string& holder, std::string_view text, std::string_view what) {
  if (try_keep(client, holder, text, 1)) return;
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
  auto tag = tag_of_text(all);
  if (!tag) return std::nullopt;
  StoredText stored{seen.record, seen.generation, *std::move(tag), {}, 0};
  for (const GrantView* part : all.at(stored.tag).parts) {
    stored.text += part->reason;
    stored.part = part->entry;
  }
  return stored;
}

std::vector<std::string> parts_of_text(const LockView& seen) {
  const auto all = tries_of(seen);
  std::vector<std::string> parts;
  if (const auto tag = tag_of_text(all)) {
    for (const GrantView* part : all.at(*tag).parts) parts.push_back(part->holder);
  }
  return parts;
}

bool is_still(const engine::Mapping& mapping, std::string_view name, const StoredText& stored) {
  const auto found = engine::NameIndex<RealPolicy>(mapping.view()).find(name);
  return found && found->record == stored.record && found->generation == stored.generation;
}

AddedText add_text(const std::shared_ptr<process::Participant>& participant, Kind kind, std::string_view name,
                   std::string_view text) {
  const engine::Mapping& mapping = participant->mapping();
  PrimitiveClient client(participant, name, {.kind = kind});
  for (int n = 0; n < tries; ++n) {
    if (const auto seen = look_at(mapping, kind, name)) {
      if (auto there = stored_text(*seen)) return {*std::move(there), false};
      for (const std::string& holder : remains_of(mapping, *seen)) (void)client.release(holder);
    }
    client.attach({.kind = kind});  // it may have been removed meanwhile
    const PartName first{1, parts_of(text), fresh_tag(), {participant->slot(), participant->incarnation()}};
    try {
      const bool written = write_parts(client, text, first);
      const auto seen = written ? look_at(mapping, kind, name) : std::nullopt;
      auto there = seen ? stored_text(*seen) : std::nullopt;
      if (there && there->tag == first.tag) return {*std::move(there), true};
    } catch (...) {
      try {
        withdraw(client, first);
        remove_empty(client);
      } catch (const Error&) {  // the first failure is what is told
      }
      throw;
    }
    withdraw(client, first);
  }
  throw Error(Errc::in_use, client.title() + " is added and removed by others all the time");
}

// --- what the dead left ----------------------------------------------------------------------------------------------

std::vector<std::string> remains_of(const engine::Mapping& mapping, const LockView& seen) {
  std::vector<std::string> holders;
  bool may_be = false;  // a text, now or later
  for (const auto& [tag, one] : tries_of(seen)) {
    // Whoever was alive when it was seen wrote it, and may write on; so this is asked after the look.
    if (one.whole() || (!one.broken() && !is_dead(mapping, one.maker))) {
      may_be = true;
      continue;
    }
    for (const GrantView* part : one.parts) {
      if (part != nullptr) holders.push_back(part->holder);
    }
  }
  if (may_be) return holders;
  for (const GrantView& g : seen.holders) {
    if (g.slot == engine::detached_slot && !part_name(g.holder)) holders.push_back(g.holder);
  }
  return holders;
}

std::vector<Remains> all_remains(const engine::Mapping& mapping, std::int64_t now_ns) {
  std::vector<Remains> all;
  for (const LockView& name : process::take_picture(mapping, now_ns).locks) {
    if (!engine::is_registered(name.kind) || name.damaged || remains_of(mapping, name).empty()) continue;
    // A picture of everything may miss what came while it was taken.
    const auto seen = process::look_at(mapping, name.name);
    if (!seen || seen->kind != name.kind || seen->damaged || !seen->settled) continue;
    Remains remains{seen->kind, seen->name, remains_of(mapping, *seen)};
    if (!remains.holders.empty()) all.push_back(std::move(remains));
  }
  return all;
}

void take_away(const std::shared_ptr<process::Participant>& participant, const Remains& remains) {
  const auto client = PrimitiveClient::find(participant, remains.name, remains.kind);
  if (client == nullptr) return;
  for (const std::string& holder : remains.holders) (void)client->release(holder);
  remove_empty(*client);
}

void remove_empty(const PrimitiveClient& client) {
  try {
    PrimitiveClient::remove(client.participant(), client.name(), false, client.kind());
  } catch (const Error& e) {
    // Somebody adds one anew, or removed what was left.
    if (e.errc() != Errc::in_use && e.errc() != Errc::not_found) throw;
  }
}

}  // namespace shmcoord::coordination
