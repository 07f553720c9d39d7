#include "coordination/saved_state.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <boost/crc.hpp>
#include <boost/json.hpp>

#include "base/printable.hpp"
#include "coordination/guard_store.hpp"
#include "core/names.hpp"
#include "engine/segment_header.hpp"
#include "process/clock.hpp"
#include "process/primitive_client.hpp"
#include "shmcoord/error.hpp"
#include "shmcoord/pipeline.hpp"

namespace shmcoord::coordination {
namespace {

namespace json = boost::json;
using engine::Kind;

constexpr std::string_view beginning = R"({"shmcoord_snapshot":)";
constexpr std::string_view middle = R"(,"names":[)";
constexpr std::string_view ending = R"(],"crc32":[)";

std::string crc_of(std::string_view line) {
  boost::crc_32_type crc;
  crc.process_bytes(line.data(), line.size());
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", static_cast<unsigned>(crc.checksum()));
  return text.data();
}

std::string_view to_string(SavedHold::Of of) {
  switch (of) {
    case SavedHold::Of::detached: return "detached";
    case SavedHold::Of::process: return "process";
    case SavedHold::Of::session: return "session";
  }
  return "";
}

json::object object_of(const SavedHold& hold, Kind kind) {
  json::object o{{"holder", hold.holder}, {"token", hold.token}};
  if (kind == Kind::semaphore) o["weight"] = hold.weight;
  if (kind == Kind::lock) o["shared"] = hold.shared;
  o["reason"] = hold.reason;
  o["held_ns"] = hold.held_ns;
  o["silent_ns"] = hold.silent_ns;
  o["ttl_ns"] = hold.ttl_ns;
  o["leased"] = hold.leased;
  const std::string_view of = to_string(hold.of);
  o["of"] = json::string_view(of.data(), of.size());
  o["pid"] = hold.pid;
  o["process_start"] = hold.process_start;
  o["session"] = hold.session;
  o["command"] = hold.command;
  return o;
}

std::string line_of(const SavedName& name) {
  const std::string_view kind = engine::word_of(name.kind);
  json::object o{{"kind", json::string_view(kind.data(), kind.size())}, {"name", name.name}};
  if (name.kind == Kind::guard) {
    o["definition"] = json::parse(name.definition);
    return json::serialize(o);
  }
  if (name.kind == Kind::pipeline) {
    o["definition"] = json::parse(name.definition);
    o["progress"] = json::parse(name.progress);
    return json::serialize(o);
  }
  if (name.kind == Kind::semaphore) {
    o["capacity"] = name.capacity;
    o["per_session"] = name.per_session;
  }
  o["stale_threshold_ns"] = name.stale_threshold_ns;
  o["heartbeat_interval_ns"] = name.heartbeat_interval_ns;
  o["ttl_ns"] = name.ttl_ns;
  o["max_hold_ns"] = name.max_hold_ns;
  json::array holders;
  for (const SavedHold& hold : name.holders) holders.push_back(object_of(hold, name.kind));
  o["holders"] = std::move(holders);
  return json::serialize(o);
}

std::string first_line_of(const SavedState& state) {
  const json::object o{{"shmcoord_snapshot", snapshot_version},
                       {"saved_wall_ns", state.saved_wall_ns},
                       {"boot", state.boot},
                       {"segment", state.segment},
                       {"instance", state.instance},
                       {"sizes",
                        {{"names", state.sizes.names},
                         {"entries", state.sizes.entries},
                         {"sessions", state.sizes.sessions},
                         {"journal", state.sizes.journal}}},
                       {"flags", state.flags},
                       {"mode", state.mode},
                       {"group", state.group},
                       {"token_reserved", state.token_reserved}};
  std::string line = json::serialize(o);
  line.pop_back();  // the names follow
  return line + std::string(middle);
}

// --- reading ---------------------------------------------------------------------------------------------------------

// Neither knows the tokens that were given out after it.
constexpr std::string_view then =
    "; nothing was restored; take an older copy of the file or start without one, but either may give out tokens a "
    "second time";

/// What is in one line, or why it cannot be.
class Line {
 public:
  Line(const std::string& file, std::size_t number) : where_(file + ":" + std::to_string(number) + ": ") {}

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Errc::snapshot_damaged, where_ + what + std::string(then));
  }
  [[nodiscard]] json::object parse(std::string_view text) const {
    boost::system::error_code error;
    json::parse_options options;
    options.max_depth = 100;
    options.allow_invalid_utf8 = true;  // in a reason
    json::value value = json::parse(json::string_view(text.data(), text.size()), error, {}, options);
    if (error || !value.is_object()) fail("this is not what a snapshot has here");
    return std::move(value.as_object());
  }
  [[nodiscard]] const json::value& member(const json::object& o, const char* key) const {
    const json::value* const value = o.if_contains(key);
    if (value == nullptr) fail(std::string("'") + key + "' is missing");
    return *value;
  }
  [[nodiscard]] std::string text(const json::object& o, const char* key) const {
    const json::value& value = member(o, key);
    if (!value.is_string()) fail(std::string("'") + key + "' is no text");
    return {value.as_string().begin(), value.as_string().end()};
  }
  [[nodiscard]] bool truth(const json::object& o, const char* key) const {
    const json::value& value = member(o, key);
    if (!value.is_bool()) fail(std::string("'") + key + "' is neither true nor false");
    return value.as_bool();
  }
  template <class Number>
  [[nodiscard]] Number number(const json::object& o, const char* key, std::uint64_t most,
                              std::uint64_t least = 0) const {
    boost::system::error_code error;
    const auto value = member(o, key).to_number<std::uint64_t>(error);
    if (error || value > most || value < least) fail(std::string("'") + key + "' is out of its range");
    return static_cast<Number>(value);
  }
  [[nodiscard]] std::int64_t duration(const json::object& o, const char* key) const {
    return number<std::int64_t>(o, key, std::uint64_t{longest_duration_ns});
  }
  /// Nothing that is not known: it would be lost without a word.
  void only(const json::object& o, std::initializer_list<std::string_view> known) const {
    for (const auto& [key, value] : o) {
      const std::string_view name(key.data(), key.size());
      if (std::find(known.begin(), known.end(), name) == known.end())
        fail("'" + base::printable(name) + "' is not known here");
    }
  }

 private:
  std::string where_;
};

SavedHold hold_from(const Line& line, const json::object& o, Kind kind, std::uint64_t reserved) {
  const char* const amount = kind == Kind::semaphore ? "weight" : "shared";
  line.only(o, {"holder", "token", amount, "reason", "held_ns", "silent_ns", "ttl_ns", "leased", "of", "pid",
                "process_start", "session", "command"});
  SavedHold hold;
  hold.holder = line.text(o, "holder");
  hold.token = line.number<std::uint64_t>(o, "token", reserved + engine::token_margin, 1);
  if (kind == Kind::semaphore) hold.weight = line.number<std::uint32_t>(o, "weight", core::max_capacity, 1);
  if (kind == Kind::lock) hold.shared = line.truth(o, "shared");
  hold.reason = line.text(o, "reason");
  if (hold.reason.size() > engine::max_reason) line.fail("a reason is too long");
  hold.held_ns = line.duration(o, "held_ns");
  hold.silent_ns = line.duration(o, "silent_ns");
  hold.ttl_ns = line.duration(o, "ttl_ns");
  hold.leased = line.truth(o, "leased");
  const std::string of = line.text(o, "of");
  const auto all = {SavedHold::Of::detached, SavedHold::Of::process, SavedHold::Of::session};
  const auto* const found =
      std::find_if(all.begin(), all.end(), [&](SavedHold::Of one) { return to_string(one) == of; });
  if (found == all.end()) line.fail("'of' is none of detached, process, session");
  hold.of = *found;
  hold.pid = line.number<std::int32_t>(o, "pid", std::numeric_limits<std::int32_t>::max());
  hold.process_start = line.number<std::uint64_t>(o, "process_start", std::numeric_limits<std::uint64_t>::max());
  hold.session = line.text(o, "session");
  hold.command = line.text(o, "command");
  const bool named = !hold.holder.empty() || hold.of != SavedHold::Of::session;
  if (const auto fault = core::check_name(hold.holder); named && !fault.empty())
    line.fail("a holder id " + std::string(fault));
  if (hold.of == SavedHold::Of::process && hold.pid == 0)
    line.fail("a hold is bound to a process and does not say which");
  return hold;
}

/// Of a guard or a pipeline; as they are written, whatever form the text has.
void read_definition(const Line& line, const json::object& o, SavedName& name) {
  const auto document = [&](const char* key) {
    const json::value& value = line.member(o, key);
    if (!value.is_object()) line.fail(std::string("'") + key + "' is none");
    return std::string(json::serialize(value));
  };
  if (name.kind == Kind::guard) {
    line.only(o, {"kind", "name", "definition"});
  } else {
    line.only(o, {"kind", "name", "definition", "progress"});
    name.progress = document("progress");
  }
  name.definition = document("definition");
  try {
    if (name.kind == Kind::guard) {
      const Guard guard = guard_from(name.name, name.definition);
      check_guard(guard);
      name.definition = definition_of(guard);
      return;
    }
    const Pipeline pipeline = Pipeline::parse_json(name.definition).with_progress(name.progress);
    if (pipeline.id() != name.name) throw Error(Errc::snapshot_damaged, "its definition is another one's");
    name.definition = pipeline.json();
    name.progress = pipeline.progress();
  } catch (const Error& e) {
    line.fail("'" + base::printable(name.name) + "' cannot be restored: " + base::printable(e.what()));
  }
}

SavedName name_from(const Line& line, std::string_view text, std::uint64_t reserved) {
  const json::object o = line.parse(text);
  SavedName name;
  const std::string kind = line.text(o, "kind");
  for (const Kind one : {Kind::lock, Kind::semaphore, Kind::guard, Kind::pipeline}) {
    if (engine::word_of(one) == kind) name.kind = one;
  }
  if (engine::word_of(name.kind) != kind) line.fail("'" + base::printable(kind) + "' is no kind of name");
  name.name = line.text(o, "name");
  if (const auto fault = core::check_name(name.name); !fault.empty()) line.fail("the name " + std::string(fault));
  if (name.kind == Kind::guard || name.kind == Kind::pipeline) {
    read_definition(line, o, name);
    return name;
  }
  if (name.kind == Kind::semaphore) {
    line.only(o, {"kind", "name", "capacity", "per_session", "stale_threshold_ns", "heartbeat_interval_ns", "ttl_ns",
                  "max_hold_ns", "holders"});
    name.per_session = line.number<std::uint32_t>(o, "per_session", core::max_capacity);
    name.capacity = line.number<std::uint32_t>(o, "capacity", core::max_capacity, name.per_session == 0 ? 1 : 0);
  } else {
    line.only(o, {"kind", "name", "stale_threshold_ns", "heartbeat_interval_ns", "ttl_ns", "max_hold_ns", "holders"});
  }
  name.stale_threshold_ns = line.duration(o, "stale_threshold_ns");
  name.heartbeat_interval_ns = line.duration(o, "heartbeat_interval_ns");
  name.ttl_ns = line.duration(o, "ttl_ns");
  name.max_hold_ns = line.duration(o, "max_hold_ns");
  const json::value& holders = line.member(o, "holders");
  if (!holders.is_array()) line.fail("'holders' is no list");
  std::set<std::uint64_t> tokens;
  std::uint64_t together = 0;
  for (const json::value& one : holders.as_array()) {
    if (!one.is_object()) line.fail("a holder is none");
    name.holders.push_back(hold_from(line, one.as_object(), name.kind, reserved));
    const SavedHold& hold = name.holders.back();
    if (!tokens.insert(hold.token).second) line.fail("two holds have the same token");
    if (name.kind == Kind::lock && !hold.shared && holders.as_array().size() > 1)
      line.fail("one holds the lock alone, and so does another");
    together += hold.weight;
  }
  if (together > core::max_capacity) line.fail("its holders have more than there can be");
  return name;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  if (!text.empty()) lines.push_back(text);
  return lines;
}

/// Before anything is believed.
void check_lines(const std::vector<std::string_view>& lines, bool ends, const std::string& file) {
  const Line last(file, lines.size());
  const std::string_view text = lines.back();
  if (!ends || lines.size() < 2 || !text.starts_with(ending) || !text.ends_with("]}")) {
    last.fail("the end of the snapshot is missing: the file was cut");
  }
  const json::object o = last.parse("{\"crc32\":[" + std::string(text.substr(ending.size())));
  const json::value& sums = last.member(o, "crc32");
  if (!sums.is_array() || sums.as_array().size() != lines.size() - 1) {
    last.fail("it has " + std::to_string(lines.size() - 1) + " lines before this one, and another number of checksums");
  }
  for (std::size_t n = 0; n + 1 < lines.size(); ++n) {
    const json::value& sum = sums.as_array()[n];
    if (!sum.is_string()) last.fail("a checksum is none");
    const std::string_view said(sum.as_string().data(), sum.as_string().size());
    if (said != crc_of(lines[n])) Line(file, n + 1).fail("this line was changed: its checksum is another one");
  }
}

}  // namespace

std::string text_of(const SavedState& state) {
  std::string text;
  json::array sums;
  const auto add = [&](const std::string& line) {
    sums.emplace_back(crc_of(line));
    text += line;
    text += '\n';
  };
  add(first_line_of(state));
  for (std::size_t n = 0; n < state.names.size(); ++n) {
    add(line_of(state.names[n]) + (n + 1 < state.names.size() ? "," : ""));
  }
  const std::string list = json::serialize(sums);
  text += std::string(ending) + list.substr(1) + "}\n";
  return text;
}

SavedState state_from(std::string_view text, const std::string& file) {
  if (!text.starts_with(beginning)) {
    throw Error(Errc::snapshot_damaged,
                file + ": this is no snapshot of shmcoord, or its first line is damaged" + std::string(then));
  }
  int version = 0;
  const std::string_view behind = text.substr(beginning.size());
  std::from_chars(behind.data(), behind.data() + behind.size(), version);
  if (version != snapshot_version) {
    throw Error(Errc::segment_version, file + ": snapshot version " + std::to_string(version) + ", this library has " +
                                           std::to_string(snapshot_version) +
                                           "; nothing was restored, use the version that saved it");
  }
  const std::vector<std::string_view> lines = lines_of(text);
  check_lines(lines, text.ends_with('\n'), file);

  // From here on only who writes snapshots by hand, with checksums, finds anything wrong.
  SavedState state;
  const Line first(file, 1);
  if (!lines[0].ends_with(middle)) first.fail("the list of names does not begin here");
  const json::object o = first.parse(std::string(lines[0].substr(0, lines[0].size() - middle.size())) + "}");
  first.only(o, {"shmcoord_snapshot", "saved_wall_ns", "boot", "segment", "instance", "sizes", "flags", "mode", "group",
                 "token_reserved"});
  state.saved_wall_ns = first.duration(o, "saved_wall_ns");
  state.boot = first.text(o, "boot");
  state.segment = first.text(o, "segment");
  state.instance = first.text(o, "instance");
  const json::value& sizes = first.member(o, "sizes");
  if (!sizes.is_object()) first.fail("'sizes' is none");
  const auto size = [&](const char* key) {
    return first.number<std::uint32_t>(sizes.as_object(), key, std::numeric_limits<std::uint32_t>::max());
  };
  state.sizes = {size("names"), size("entries"), size("sessions"), size("journal")};
  if (const std::string fault = engine::check_sizes(state.sizes); !fault.empty())
    first.fail("a segment cannot have " + fault);
  state.flags = first.number<std::uint32_t>(o, "flags", engine::journal_always);
  state.mode = first.number<std::uint32_t>(o, "mode", 0777);
  state.group = first.number<std::uint32_t>(o, "group", std::numeric_limits<std::uint32_t>::max() - 1);
  state.token_reserved = first.number<std::uint64_t>(o, "token_reserved", core::seq_limit);
  std::set<std::string_view> seen;
  state.names.reserve(lines.size() - 2);
  for (std::size_t n = 1; n + 1 < lines.size(); ++n) {
    std::string_view one = lines[n];
    const Line line(file, n + 1);
    const bool more = n + 2 < lines.size();
    if (one.ends_with(',') != more) line.fail("there is a comma too many or too few");
    if (more) one.remove_suffix(1);
    state.names.push_back(name_from(line, one, state.token_reserved));
    if (!seen.insert(state.names.back().name).second) line.fail("the name is there twice");
  }
  return state;
}

}  // namespace shmcoord::coordination
