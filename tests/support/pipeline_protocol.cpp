#include "support/pipeline_protocol.hpp"

#include <algorithm>
#include <utility>

namespace shmcoord::test {

void Protocol::go_on() {
  // Two different states of the same hash would hide one of them: one in a million million pairs of a million states.
  if (!seen_.insert(std::hash<std::string_view>{}(bytes())).second) return;
  bool anybody = false;
  for (Small who = 0; who < people_ && wrong_.empty(); ++who) {
    if (world_.people[who].at == At::ended) continue;
    anybody = true;
    for (const bool dies : {false, true}) {
      const ProtocolWorld before = world_;
      way_.push_back({who, dies, before.people[who].at, before.people[who].role});
      if (dies) {
        die(who);
      } else {
        step(who);
      }
      remember();
      if (wrong_.empty()) go_on();
      if (!wrong_.empty()) return;
      way_.pop_back();
      world_ = before;
    }
  }
  if (!anybody) at_end();
}

void Protocol::at_end() {
  ++ends_;
  const ProtocolWorld before = world_;
  if (world_.killed == 0 && states_left() > 1) fail("more than one state is left");
  is_tidy_in_the_end();
  // Whoever comes now can go on.
  constexpr Small last = std::tuple_size_v<decltype(world_.people)> - 1;
  if (!definition()) {
    if (world_.last_tag + 1U == world_.tags.size()) return;
    world_.people[last] = {};
    world_.people[last].role = Role::adder;
    while (world_.people[last].at != At::ended && wrong_.empty()) step(last);
    if (!definition()) fail("who comes in the end cannot add it");
    world_ = before;
    return;
  }
  world_.people[last] = {};
  world_.people[last].role = Role::runner;
  const CountingState found = counting();
  const bool over = found.counts && coordination::is_final(states_[*found.counts].status);
  Told told = Told::nothing;
  while (world_.people[last].at != At::ended && wrong_.empty()) {
    step(last);
    remember();
    if (world_.people[last].told != Told::nothing) told = world_.people[last].told;
  }
  const bool ran = told == Told::done || (over && told == Told::cancelled);
  if (!ran) fail("who comes in the end cannot run it");
  if (!over && states_left() != 1) fail("who ran it in the end left other states");
  world_ = before;
}

// Who tidies up then leaves nothing that nobody needs.
void Protocol::is_tidy_in_the_end() {
  const ProtocolWorld before = world_;
  constexpr Small last = std::tuple_size_v<decltype(world_.people)> - 1;
  world_.people[last] = {};
  world_.people[last].role = Role::tidier;
  while (world_.people[last].at != At::ended && wrong_.empty()) {
    step(last);
    remember();
  }
  for (const ProtocolEntry& e : entries()) {
    if (e.what == What::part && parts_there(e.tag) < parts_) fail("a part is left of what was never whole");
  }
  if (!definition() && world_.count != 0) fail("something is left of nothing");
  world_ = before;
}

std::size_t Protocol::states_left() const {
  const auto all = entries();
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](const ProtocolEntry& e) { return e.what == What::state; }));
}

Small Protocol::put(ProtocolEntry entry) {
  entry.token = ++world_.last_token;
  world_.entries.at(world_.count++) = entry;
  return entry.token;
}

void Protocol::put_part(Small of, bool last) {
  const Small weight = last ? ProtocolEntry::of_text : Small{0};
  put({What::part, world_.last_tag, 0, PipelineStatus::waiting, 0, 0, of, weight});
}

Small Protocol::used() const {
  Small sum = 0;
  for (const ProtocolEntry& e : entries()) sum = static_cast<Small>(sum + e.weight);
  return sum;
}

void Protocol::take(Small token) {
  auto* const end = world_.entries.data() + world_.count;
  auto* const at = std::find_if(world_.entries.data(), end, [&](const auto& e) { return e.token == token; });
  if (at == end) return;
  std::copy(at + 1, end, at);
  world_.entries[--world_.count] = {};
}

const ProtocolEntry* Protocol::runner() const {
  for (const ProtocolEntry& e : entries()) {
    if (e.what == What::runner) return &e;
  }
  return nullptr;
}

bool Protocol::has(Small token) const {
  const auto all = entries();
  return token != 0 && std::any_of(all.begin(), all.end(), [&](const auto& e) { return e.token == token; });
}

Small Protocol::parts_there(Small tag) const {
  const auto all = entries();
  return static_cast<Small>(
      std::count_if(all.begin(), all.end(), [&](const auto& e) { return e.what == What::part && e.tag == tag; }));
}

// There is one at most, which remember() looks after.
std::optional<Small> Protocol::definition() const {
  std::array<Small, std::tuple_size_v<decltype(world_.tags)>> there{};
  for (const ProtocolEntry& e : entries()) {
    if (e.what == What::part && ++there.at(e.tag) == parts_) return e.tag;
  }
  return std::nullopt;
}

CountingState Protocol::counting() {
  states_.clear();
  std::vector<WrittenState> written;
  for (const ProtocolEntry& e : entries()) {
    if (e.what != What::state) continue;
    states_.push_back(e);
    written.push_back({text_of(e.tag), rules_.runs_compared ? e.run : 0U,
                       rules_.final_stays ? e.status : PipelineStatus::running, e.token});
  }
  return coordination::which_counts(written, text_of(definition().value_or(0)));
}

void Protocol::fail(const std::string& why) {
  if (wrong_.empty()) wrong_ = why;
}

void Protocol::remember() {
  const auto tag = definition();
  if (!tag) return;
  const auto all = entries();
  for (const ProtocolEntry& e : all) {
    if (e.what == What::part && e.tag != *tag && parts_there(e.tag) == parts_) fail("two are whole");
  }
  const auto runs = [](const ProtocolEntry& e) { return e.what == What::runner; };
  if (std::count_if(all.begin(), all.end(), runs) > 1) fail("two run one");
  Remembered& r = world_.tags.at(*tag);
  const CountingState now = counting();
  if (!now.counts) {
    if (r.token != 0) fail("none counts any more");
    return;
  }
  const ProtocolEntry& state = states_[*now.counts];
  if (state.token < r.token) fail("an earlier state counts again");
  if (state.run < r.run || (state.token != r.token && state.run < r.began)) fail("one who was replaced counts");
  if (r.final != PipelineStatus::waiting && r.final != state.status) fail("it was over, and is not any more");
  r.token = state.token;
  r.run = state.run;
  if (coordination::is_final(state.status)) r.final = state.status;
}

// It must be so for ever: what was final is compared after each step.
void Protocol::tell(Participant& p, Told told) {
  p.told = told;
  const PipelineStatus final = world_.tags.at(p.tag).final;
  if (told == Told::done && final != PipelineStatus::done) fail("was told done, and it is not");
  if (told == Told::cancelled && final != PipelineStatus::cancelled) fail("was told cancelled, and it is not");
}

void Protocol::removes(Small who, const ProtocolEntry& part) {
  const Participant& p = world_.people[who];
  if (p.tag != part.tag && world_.tags.at(part.tag).added != 0) fail("removes what it did not see");
  const ProtocolEntry* const r = runner();
  if (r == nullptr || r->of == who) return;
  // Who is robbed when he had looked cannot know.
  if (has_operator_ && p.stood != 0) return;
  const Participant& other = world_.people[r->of];
  if (other.wrote != 0 && other.tag == part.tag) fail("removes what another one runs");
}

void Protocol::end(Participant& p) {
  const Told told = p.told;
  p = {};
  p.told = told;
  p.at = At::ended;
}

void Protocol::die(Small who) {
  Participant& p = world_.people[who];
  take(p.run);
  end(p);
  p.told = Told::nothing;
  world_.killed = 1;
}

void Protocol::step(Small who) {
  switch (world_.people[who].role) {
    case Role::runner:
    case Role::failing_runner: return run(who);
    case Role::canceller: return cancel(who);
    case Role::adder: return add(who);
    case Role::remover: return remove(who);
    case Role::operating:
      if (const ProtocolEntry* const r = runner()) take(r->token);
      return end(world_.people[who]);
    case Role::tidier: return tidy(who);
    case Role::none: return;
  }
}

bool Protocol::take_hold(Small who) {
  if (used() + ProtocolEntry::of_runner > ProtocolEntry::capacity) return false;
  world_.people[who].run = put({What::runner, 0, 0, PipelineStatus::waiting, 0, 0, who, ProtocolEntry::of_runner});
  return true;
}

void Protocol::note(Participant& p, const CountingState& found) {
  p.listed = 0;
  for (const std::size_t n : found.idle) p.list.at(p.listed++) = states_[n].token;
  if (!rules_.in_order) std::reverse(p.list.begin(), p.list.begin() + p.listed);
}

void Protocol::give_back(Participant& p, At next) {
  p.at = p.listed == 0 ? next : At::give_back;
  p.next = next;
}

void Protocol::give_one_back(Small who) {
  Participant& p = world_.people[who];
  for (const ProtocolEntry& e : entries()) {
    if (e.token == p.list[0] && e.what == What::part && definition() == e.tag) removes(who, e);
  }
  take(p.list[0]);
  std::copy(p.list.begin() + 1, p.list.end(), p.list.begin());
  p.list.back() = 0;
  --p.listed;
  give_back(p, p.next);
}

// RunnerHold and Run.
void Protocol::run(Small who) {
  Participant& p = world_.people[who];
  switch (p.at) {
    case At::start:
      if (take_hold(who)) {
        p.at = At::find;
      } else {
        p.told = Told::busy;
        end(p);
      }
      return;
    case At::find: return begin_run(p);
    case At::stands:
      p.at = has(p.run) ? At::write : At::taken_away;
      if (p.at == At::write && !rules_.writes_first) {
        const CountingState found = counting();
        note(p, found);
        if (found.counts && states_[*found.counts].tag == p.tag) p.list.at(p.listed++) = states_[*found.counts].token;
        give_back(p, At::write);
      }
      return;
    case At::write: {
      const Small before = p.mine;
      p.mine = put({What::state, p.tag, p.run, p.status, p.phase});
      p.wrote = 1;
      p.at = At::look_after;
      if (rules_.looks_at_what_it_wrote) return;
      if (before != 0) p.list.at(p.listed++) = before;
      p.counted = 1;
      give_back(p, At::decide);
      return;
    }
    case At::look_after: {
      const CountingState now = counting();
      note(p, now);
      p.counted = now.counts && states_[*now.counts].token == p.mine ? 1 : 0;
      if (!definition()) {
        p.list = {p.mine};
        p.listed = 1;
      }
      give_back(p, At::decide);
      return;
    }
    case At::give_back: return give_one_back(who);
    case At::decide: return decide(p);
    case At::taken_away: {
      const CountingState now = counting();
      const bool same = definition() == p.tag && now.counts;
      const PipelineStatus status = same ? states_[*now.counts].status : PipelineStatus::waiting;
      tell(p, status == PipelineStatus::done        ? Told::done
              : status == PipelineStatus::cancelled ? Told::cancelled
                                                    : Told::lost);
      p.at = At::leave;
      return;
    }
    default: take(p.run); return end(p);
  }
}

void Protocol::begin_run(Participant& p) {
  p.at = At::leave;
  const auto tag = definition();
  if (!tag) {
    p.told = Told::missing;
    return;
  }
  p.tag = *tag;
  const CountingState found = counting();
  const PipelineStatus status = found.counts ? states_[*found.counts].status : PipelineStatus::waiting;
  p.phase = found.counts ? states_[*found.counts].phase : Small{0};
  if (coordination::is_final(status)) {
    tell(p, status == PipelineStatus::done ? Told::done : Told::cancelled);
    return;
  }
  if (!rules_.looks_at_what_it_wrote) {
    note(p, found);
    if (found.counts) p.list.at(p.listed++) = states_[*found.counts].token;
  }
  p.status = PipelineStatus::running;
  p.at = At::stands;
  if (!rules_.begins_with_a_word && status == PipelineStatus::running) {
    p.wrote = 1;
    p.counted = 1;
    p.at = At::decide;
  }
}

void Protocol::decide(Participant& p) {
  const bool over = is_over(p.status);
  if (p.counted == 0 || (!over && !has(p.run))) {
    p.at = At::taken_away;
    return;
  }
  if (over && !rules_.looks_at_what_it_wrote) {
    const CountingState now = counting();
    p.at = At::taken_away;
    if (!now.counts || states_[*now.counts].status != p.status) return;
  }
  if (over) {
    tell(p, p.status == PipelineStatus::done ? Told::done : Told::failed);
    p.at = At::leave;
    return;
  }
  Small& began = world_.tags.at(p.tag).began;
  began = std::max(began, p.run);
  const bool last = ++p.phase == phases;
  if (last) p.phase = 0;
  if (last) p.status = p.role == Role::failing_runner ? PipelineStatus::failed : PipelineStatus::done;
  p.at = At::stands;
}

// cancel_pipeline.
void Protocol::cancel(Small who) {
  Participant& p = world_.people[who];
  const auto tag = definition();
  switch (p.at) {
    case At::start: {
      if (!tag) return end(p);
      p.tag = *tag;
      const CountingState seen = counting();
      p.seen = seen.counts ? states_[*seen.counts].run : Small{0};
      p.phase = seen.counts ? states_[*seen.counts].phase : Small{0};
      p.at = At::write;
      if (!seen.counts || !is_over(states_[*seen.counts].status)) return;
      p.told = Told::over;
      return end(p);
    }
    case At::write:
      p.mine = put({What::state, p.tag, p.seen, PipelineStatus::cancelled, p.phase});
      p.at = rules_.cancel_looks ? At::look_after : At::rob;
      return;
    case At::look_after: {
      const CountingState now = counting();
      note(p, now);
      p.counted = now.counts && states_[*now.counts].token == p.mine ? 1 : 0;
      p.other = runner() == nullptr ? Small{0} : runner()->token;
      if (p.counted == 0) {
        p.list = {p.mine};
        p.listed = 1;
      }
      give_back(p, p.counted != 0 ? At::rob : At::start);
      return;
    }
    case At::give_back: return give_one_back(who);
    default:
      take(p.other);
      tell(p, Told::cancelled);
      return end(p);
  }
}

// add_text and add_pipeline.
void Protocol::add(Small who) {
  Participant& p = world_.people[who];
  const auto tag = definition();
  switch (p.at) {
    case At::start:
      if (tag) {
        p.at = At::acquire;
        return;
      }
      list_remains(p);
      return give_back(p, At::add_part);
    case At::add_part: {
      if (p.parts == 0) {
        if (world_.last_tag + 1U == world_.tags.size()) {  // by others all the time: it gives up, later than here
          p.told = Told::in_use;
          p.at = At::leave;
          return;
        }
        p.mine = ++world_.last_tag;
      }
      const bool last = p.parts + 1 == parts_;
      if (last && rules_.one_text && used() + ProtocolEntry::of_text > ProtocolEntry::capacity) {
        withdraw(p);
        return;
      }
      put({What::part, p.mine, 0, PipelineStatus::waiting, 0, 0, who, last ? ProtocolEntry::of_text : Small{0}});
      ++p.parts;
      if (last) p.at = At::look_added;
      return;
    }
    case At::look_added:
      if (tag != p.mine) return withdraw(p);  // somebody took a part away
      p.told = Told::added;
      world_.tags.at(p.mine).added = 1;
      p.at = At::leave;
      return;
    case At::acquire:
      if (take_hold(who)) {
        p.at = At::find;
      } else {
        p.told = Told::in_use;
        p.at = At::leave;
      }
      return;
    case At::find: {
      const CountingState found = counting();
      const PipelineStatus status = found.counts ? states_[*found.counts].status : PipelineStatus::waiting;
      if (!tag) {
        take(p.run);
        p.run = 0;
        p.at = At::start;
        return;
      }
      p.at = At::leave;
      if (is_over(status)) list_all(p);
      return;
    }
    case At::leave: take(p.run); return end(p);
    default: return take_away(who, At::start);
  }
}

void Protocol::withdraw(Participant& p) {
  p.parts = 0;
  p.listed = 0;
  for (const ProtocolEntry& e : entries()) {
    if (e.what == What::part && e.tag == p.mine) list(p, e);
  }
  give_back(p, At::start);
}

// remove_pipeline.
void Protocol::remove(Small who) {
  Participant& p = world_.people[who];
  switch (p.at) {
    case At::start:
      if (take_hold(who)) {
        p.at = At::find;
      } else {
        p.told = Told::in_use;
        end(p);
      }
      return;
    case At::leave: return end(p);
    default: return take_away(who, At::leave);
  }
}

// RunnerHold::take_away. What it saw when it had acquired: the definition, then the states, and what the dead left.
void Protocol::list_all(Participant& p) {
  const auto tag = definition();
  p.tag = tag.value_or(0);
  p.listed = 0;
  for (const What what : {What::part, What::state}) {
    for (const ProtocolEntry& e : entries()) {
      if (tag && e.what == what && (what == What::state || e.tag == tag)) list(p, e);
    }
  }
  if (!rules_.definition_first) std::reverse(p.list.begin(), p.list.begin() + p.listed);
  list_remains(p);
  p.at = At::remove_check;
}

void Protocol::take_away(Small who, At next) {
  Participant& p = world_.people[who];
  switch (p.at) {
    case At::find: return list_all(p);
    case At::remove_check:
      p.stood = has(p.run) ? 1 : 0;
      if (!rules_.stands_before_removing || has(p.run)) {
        give_back(p, At::rob);
        if (!rules_.removes_what_it_saw) p.at = At::rob;
        return;
      }
      p.list = {};
      p.listed = 0;
      p.at = At::rob;
      return;
    case At::give_back: return give_one_back(who);
    default:
      if (!rules_.removes_what_it_saw) {
        for (const ProtocolEntry& e : entries()) {
          if (e.what == What::part && definition() == e.tag) removes(who, e);
        }
        world_.entries = {};
        world_.count = 0;
      }
      take(p.run);
      p.run = 0;
      p.at = next;
      return;
  }
}

bool Protocol::may_be_completed(const ProtocolEntry& part) const {
  const auto all = entries();
  const bool broken = std::any_of(all.begin(), all.end(), [&](const ProtocolEntry& e) {
    return e.what == What::part && e.tag == part.tag && e.weight == ProtocolEntry::of_text;
  });
  if (broken && rules_.tidies_what_was_broken) return false;
  return part.of == ProtocolEntry::outside || world_.people[part.of].at != At::ended;
}

// remains_of of stored_text.cpp.
void Protocol::list_remains(Participant& p) {
  const auto tag = definition();
  bool may_be = tag.has_value();  // a text, now or later
  for (const ProtocolEntry& e : entries()) {
    if (e.what != What::part || e.tag == tag) continue;
    const bool open = may_be_completed(e);
    may_be = may_be || open;
    if (!open || !rules_.tidies_after_the_dead) list(p, e);
  }
  for (const ProtocolEntry& e : entries()) {
    if (e.what == What::state && (!may_be || !rules_.tidies_beside_no_text)) list(p, e);
  }
}

void Protocol::tidy(Small who) {
  Participant& p = world_.people[who];
  if (p.at == At::give_back) return give_one_back(who);
  if (p.at == At::leave) return end(p);
  list_remains(p);
  give_back(p, At::leave);
}

std::string Protocol::way() const {
  constexpr std::array<const char*, 8> roles{"-",     "runner",  "failing runner", "canceller",
                                             "adder", "remover", "operator",       "tidier"};
  constexpr std::array<const char*, 15> steps{"start",     "find",    "stands?",    "write", "look",
                                              "give back", "decide",  "taken away", "add",   "look",
                                              "acquire",   "stands?", "force",      "leave", "ended"};
  std::string text;
  for (const Step& s : way_) {
    text += std::string(roles[static_cast<std::size_t>(s.role)]) + " " + std::to_string(s.who) + ": " +
            (s.dies ? "killed before " : "") + steps[static_cast<std::size_t>(s.at)] + "\n";
  }
  return text;
}

}  // namespace shmcoord::test
