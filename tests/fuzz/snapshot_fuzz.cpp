#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/crc.hpp>

#include "coordination/guard_store.hpp"
#include "coordination/save.hpp"
#include "engine/journal_words.hpp"
#include "process/identity.hpp"
#include "process/segment_check.hpp"
#include "shmcoord/error.hpp"
#include "shmcoord/pipeline.hpp"
#include "shmcoord/snapshot.hpp"

// Any text as a snapshot: it is refused with an Error, or taken; what is taken comes back equal from its text, and is
// restored or refused, and then nothing is there. What was restored is sound, has each hold that is said to be back,
// with its token, and can be saved and read again.
//
// The first byte says what the rest is. Even: the text. Odd: a list of changes to the lines of a good snapshot, which
// then get the checksums that they need, because no fuzzer guesses these: {line:1, what:1, place:2, …}.

namespace shmcoord {
namespace {

using coordination::SavedHold;
using coordination::SavedName;
using coordination::SavedState;
using engine::Kind;

constexpr engine::Sizes sizes{.names = 32, .entries = 128, .sessions = 8, .journal = engine::least_journal};

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  ::abort();
}

std::string boot() {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  std::erase(text, '-');
  return text;
}

SavedHold hold(const std::string& holder, std::uint64_t token, std::uint32_t weight) {
  SavedHold h;
  h.holder = holder;
  h.weight = weight;
  h.token = token;
  h.held_ns = 7'000'000'000;
  h.silent_ns = 1'000'000'000;
  return h;
}

SavedHold bound_hold() {
  SavedHold h = hold("bound", 5'000'003, 1);
  h.of = SavedHold::Of::process;
  h.pid = static_cast<std::int32_t>(::getpid());
  h.process_start = process::own_start_time().value_or(0);
  return h;
}

SavedName name(Kind kind, const std::string& text, std::vector<SavedHold> holders) {
  SavedName n;
  n.kind = kind;
  n.name = text;
  n.stale_threshold_ns = 60'000'000'000;
  n.heartbeat_interval_ns = 15'000'000'000;
  n.holders = std::move(holders);
  return n;
}

/// By hand, so that an input means the same in every run; only `bound` is of this process.
SavedState good() {
  SavedState state;
  state.saved_wall_ns = 1'764'000'000'000'000'000;
  state.boot = boot();
  state.segment = "fuzz";
  state.instance = "0123456789abcdef";
  state.sizes = sizes;
  state.token_reserved = 9'000'000;
  SavedHold leased = hold("script", 5'000'001, 1);
  leased.reason = "release \"42\"\n\xff";
  leased.ttl_ns = 300'000'000'000;
  SavedHold of_session = hold("worker", 5'000'002, 1);
  of_session.of = SavedHold::Of::session;
  of_session.pid = 1;
  SavedHold reader = hold("reader 1", 5'000'004, 1);
  reader.shared = true;
  reader.leased = false;
  SavedHold second = hold("reader 2", 5'000'005, 1);
  second.shared = true;
  SavedName agents = name(Kind::semaphore, "agents", {hold("a", 5'000'006, 3), hold("b", 5'000'007, 4)});
  agents.capacity = 5;  // made smaller than what is in use
  SavedName quota = name(Kind::semaphore, "quota", {});
  quota.per_session = 2;
  const Guard gate{"gate",
                   GuardCondition::parse("lock_free(deploy) && !file_exists(hold)"),
                   Retry{std::chrono::seconds(5)},
                   {"lock:*"}};
  SavedName guard;
  guard.kind = Kind::guard;
  guard.name = gate.name;
  guard.definition = coordination::definition_of(gate);
  const Pipeline release("release", {{.name = "build", .command = {"make"}, .locks = {"deploy"}},
                                     {.name = "test", .guards = PhaseGuards().with_pre(gate.condition)}});
  SavedName pipeline;
  pipeline.kind = Kind::pipeline;
  pipeline.name = release.id();
  pipeline.definition = release.json();
  pipeline.progress = release.start().pipeline.wait_for_holds("deploy is held").pipeline.progress();
  state.names = {
      agents,   name(Kind::lock, "bound", {bound_hold()}),  name(Kind::lock, "deploy", {leased}),  guard, quota,
      pipeline, name(Kind::lock, "tree", {reader, second}), name(Kind::lock, "work", {of_session})};
  return state;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::string take_text(std::size_t bytes) {
    const std::string taken(rest_.substr(0, bytes));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::uint64_t take(unsigned bytes) {
    std::uint64_t value = 0;
    unsigned shift = 0;
    for (const char c : take_text(bytes)) {
      value |= std::uint64_t{static_cast<unsigned char>(c)} << shift;
      shift += 8;
    }
    return value;
  }

 private:
  std::string_view rest_;
};

/// The number that stands at that place or behind it is another one then.
void change_number(std::string& line, std::size_t at, std::uint64_t number) {
  constexpr std::string_view digits = "0123456789";
  const std::size_t begin = line.find_first_of(digits, at);
  if (begin == std::string::npos) return;
  const std::size_t end = std::min(line.find_first_not_of(digits, begin), line.size());
  line.replace(begin, end - begin, std::to_string(number));
}

void change(std::vector<std::string>& lines, Input& input) {
  const auto n = static_cast<std::size_t>(input.take(1) % lines.size());
  std::string& line = lines[n];
  const std::uint64_t what = input.take(1);
  const auto at = static_cast<std::size_t>(input.take(2) % (line.size() + 1));
  switch (what % 7) {
    case 0: {
      const std::string text = input.take_text(input.take(1));
      line.replace(at, text.size(), text);
      break;
    }
    case 1: line.insert(at, input.take_text(input.take(1))); break;
    case 2: line.erase(at, input.take(1)); break;
    case 3: change_number(line, at, input.take(static_cast<unsigned>(what / 7 % 8 + 1))); break;
    case 4: {
      const std::string& other = lines[static_cast<std::size_t>(input.take(1) % lines.size())];
      const auto from = static_cast<std::size_t>(input.take(2) % (other.size() + 1));
      line.insert(at, std::string(other, from, input.take(2)));
      break;
    }
    case 5:
      if (lines.size() < 2 * std::size_t{sizes.names})
        lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(n), line);
      break;
    default:
      if (lines.size() > 1) lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(n));
  }
}

/// With the checksums that the lines need, whatever is in them.
std::string changed_text(Input input) {
  static const std::string text = coordination::text_of(good());
  std::vector<std::string> lines = lines_of(text);
  lines.pop_back();
  for (std::size_t n = 1; n + 1 < lines.size(); ++n) lines[n].pop_back();  // commas are put back below
  for (int n = 0; n < 16 && !input.empty(); ++n) change(lines, input);
  std::string all;
  for (std::size_t n = 0; n < lines.size(); ++n) all += lines[n] + (n != 0 && n + 1 < lines.size() ? ",\n" : "\n");
  std::string sums;
  for (const std::string& line : lines_of(all)) {
    boost::crc_32_type crc;
    crc.process_bytes(line.data(), line.size());
    char sum[12];
    std::snprintf(sum, sizeof sum, "\"%08x\"", static_cast<unsigned>(crc.checksum()));
    sums += (sums.empty() ? "" : ",") + std::string(sum);
  }
  return all + "],\"crc32\":[" + sums + "]}\n";
}

/// Nothing: refused.
std::optional<SavedState> taken(std::string_view text) {
  try {
    return coordination::state_from(text, "file");
  } catch (const Error& e) {
    if (!std::string_view(e.what()).starts_with("file")) give_up("a refusal does not begin with the file");
    return std::nullopt;
  }
}

/// A folder for the snapshot and what is restored from it.
class Folder {
 public:
  Folder() {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string file() const { return path_ + "/snapshot.json"; }
  [[nodiscard]] std::string segment() const { return path_ + "/segment"; }
  [[nodiscard]] auto files() const {
    return std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator());
  }

 private:
  std::string path_ = "/dev/shm/shmcoord-fuzz-snapshot-" + std::to_string(::getpid());
};

/// Each hold is there as it was, or said to be left out. `renewed` have other tokens than before.
void require_restored(const SavedState& before, const SavedState& after, const RestoreReport& report) {
  if (after.names.size() != before.names.size()) give_up("another number of names was restored");
  std::size_t back = 0;
  std::size_t all = 0;
  for (std::size_t n = 0; n < after.names.size(); ++n) {
    const SavedName& now = after.names[n];
    const auto was = std::find_if(before.names.begin(), before.names.end(),
                                  [&](const SavedName& one) { return one.name == now.name; });
    if (was == before.names.end() || was->kind != now.kind) give_up("another name was restored");
    if (was->definition != now.definition || was->progress != now.progress) give_up("a definition was changed");
    const auto is_renewed = [&](const SavedHold& h) {
      return std::any_of(report.renewed.begin(), report.renewed.end(),
                         [&](const LeftOut& one) { return one.name == now.name && one.holder == h.holder; });
    };
    for (const SavedHold& h : now.holders) {
      const bool same = std::any_of(was->holders.begin(), was->holders.end(), [&](const SavedHold& one) {
        return one.holder == h.holder && one.weight == h.weight && one.shared == h.shared && one.reason == h.reason &&
               (one.token == h.token || is_renewed(h));
      });
      if (!same) give_up("a hold was changed");
    }
    back += now.holders.size();
    all += was->holders.size();
  }
  if (report.restored.holds != back || back + report.left_out.size() != all) give_up("the holds were miscounted");
}

void require_sound(const std::string& segment, const SavedState& before, const RestoreReport& report) {
  const auto mapping = engine::Mapping::open(segment);
  for (const process::Finding& f : process::check_segment(*mapping, engine::RealPolicy::now_ns(), 1).findings) {
    if (f.kind == process::Finding::Kind::damage) give_up("damaged: " + f.where + ": " + f.what);
  }
  const SavedState after = coordination::state_of(*mapping);
  if (coordination::state_from(coordination::text_of(after), "saved") != after) give_up("it is saved as another one");
  require_restored(before, after, report);
}

/// Why it was refused; nothing: it was not.
std::string restore(const std::string& text, const SavedState& state) {
  static const Folder folder;
  std::ofstream(folder.file(), std::ios::binary) << text;
  try {
    const RestoreReport report = restore_snapshot(folder.file(), folder.segment());
    require_sound(folder.segment(), state, report);
    const auto written = coordination::read_state(folder.file());
    if (!written || written->names != state.names || written->token_reserved < state.token_reserved) {
      give_up("the file says something else now");
    }
    engine::Mapping::remove(folder.segment());
    return {};
  } catch (const Error& e) {
    if (folder.files() != 1) give_up(std::string("it was refused, and something is left: ") + e.what());
    return e.what();
  }
}

}  // namespace
}  // namespace shmcoord

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shmcoord;
  if (size == 0) return 0;
  const bool raw = *data % 2 == 0;
  const std::string text =
      raw ? std::string(reinterpret_cast<const char*>(data) + 1, size - 1) : changed_text(Input(data + 1, size - 1));
  const bool good = !raw && size == 1;
  const auto state = taken(text);
  if (!state && good) give_up("the good snapshot is refused: " + text);
  if (!state) return 0;
  if (taken(coordination::text_of(*state)) != state) give_up("it comes back as another one: " + text);
  const engine::Sizes& s = state->sizes;
  if (s.names > 256 || s.entries > 1024 || s.sessions > 64 || s.journal > 4 * engine::least_journal) return 0;
  const std::string refused = restore(text, *state);
  if (good && !refused.empty()) give_up("the good snapshot is not restored: " + refused);
  return 0;
}
