#include "shmcoord/run_plan.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <tuple>

#include "engine/layout.hpp"
#include "engine/random.hpp"
#include "process/acquire_all.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/numbers.hpp"
#include "shmcoord/render.hpp"

namespace shmcoord::tool {
namespace {

std::string default_holder() {
  std::array<char, 65> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  std::array<char, 16> random{};
  std::snprintf(random.data(), random.size(), "%08x", static_cast<unsigned>(engine::random_word() & 0xffffffffU));
  return "run:" + printable(host.data()) + ":" + std::to_string(::getpid()) + ":" + random.data();
}

/// The command line, as much of it as fits into the entry beside the holder id: a longer text would cost a page.
std::string default_reason(const std::vector<std::string>& command, std::size_t holder_bytes) {
  constexpr std::size_t inline_bytes = std::tuple_size_v<decltype(engine::Entry::text)>;
  std::string text;
  for (const std::string& word : command) text += (text.empty() ? "" : " ") + word;
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  const std::size_t room = holder_bytes + 32 < inline_bytes ? inline_bytes - holder_bytes : 32;
  if (text.size() <= room) return text;
  std::size_t cut = room - 3;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) --cut;
  return text.substr(0, cut) + "…";
}

/// Of "agents" or "agents:2".
Wanted semaphore_of(const std::string& text) {
  const auto colon = text.rfind(':');
  Wanted wanted{engine::Kind::semaphore, text.substr(0, colon), 1};
  if (colon != std::string::npos) {
    wanted.weight = parse_permits("--sem '" + printable(text) + "'", text.substr(colon + 1));
  }
  if (wanted.name.find(':') != std::string::npos) {
    throw UsageError{"--sem '" + printable(text) + "': the name '" + printable(wanted.name) +
                     "' has a ':', which stands before the weight; only a name without one can be given here"};
  }
  require_name("semaphore name", wanted.name);
  return wanted;
}

/// `first`: see Plan.
std::vector<Wanted> wanted_of(const Arguments& arguments, std::string& first) {
  std::vector<Wanted> wanted;
  for (const auto& [option, weight] : {std::pair{"--lock", process::whole_lock}, {"--shared", process::shared_lock}}) {
    for (const std::string& name : arguments.values(option)) {
      require_name("lock name", name);
      wanted.push_back({engine::Kind::lock, name, weight});
    }
  }
  for (const std::string& text : arguments.values("--sem")) wanted.push_back(semaphore_of(text));
  if (wanted.empty()) {
    throw UsageError{
        "--lock, --shared and --sem are missing: say what to hold, e.g. `shmcoord run -l deploy -- make deploy`"};
  }
  const bool permits_first = arguments.first_of({"--shared", "--sem"}) == "--sem" && !arguments.has("--lock");
  const auto is_first = [&](const Wanted& w) { return !permits_first || w.kind == engine::Kind::semaphore; };
  first = std::find_if(wanted.begin(), wanted.end(), is_first)->name;
  std::sort(wanted.begin(), wanted.end(),
            [](const Wanted& a, const Wanted& b) { return process::taken_before(a.kind, a.name, b.kind, b.name); });
  std::vector<Wanted> once;
  for (const Wanted& w : wanted) {
    const auto same = std::find_if(once.begin(), once.end(), [&](const Wanted& other) { return other.name == w.name; });
    if (same == once.end()) {
      once.push_back(w);
    } else if (same->kind == engine::Kind::semaphore && w.kind == engine::Kind::semaphore) {
      same->weight = parse_permits("--sem '" + printable(w.name) + "', all together",
                                   std::to_string(std::uint64_t{same->weight} + w.weight));
    } else {
      throw UsageError{"'" + printable(w.name) + "' is given twice; give it once"};
    }
  }
  return once;
}

}  // namespace

Plan plan_of(const Arguments& arguments) {
  Plan plan;
  plan.wanted = wanted_of(arguments, plan.first);
  plan.wait = wait_rule(arguments, arguments.has("--sem") ? "-S NAME:" : "");
  if (const auto ttl = arguments.value("--ttl")) plan.ttl = parse_duration("--ttl", *ttl);
  const auto holder = arguments.value("--holder");
  if (holder) require_name("holder id", *holder);
  plan.holder = holder ? *holder : default_holder();
  const auto reason = reason_of(arguments);
  plan.reason = reason ? *reason : default_reason(arguments.words, plan.holder.size());
  plan.task.commands = {arguments.words};
  plan.task.wait_tree = !arguments.has("--no-wait-tree");
  const auto grace = arguments.value("--grace");
  plan.task.grace_ns = (grace ? parse_duration("--grace", *grace, Zero::allowed) : std::chrono::seconds(5)).count();
  return plan;
}

}  // namespace shmcoord::tool
