#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "coordination/pipeline_states.hpp"

// The protocol of coordination/pipeline_store.hpp over an abstract name, and all orders in which several take its
// steps.
//
// A name is a row of entries in the order of their tokens; each look and each change of one entry is one step, as the
// engine does it; what has no room beside the others is refused. Those who take part mirror stored_text.cpp,
// pipeline_store.cpp and pipeline_runner.cpp line by line; which state
// counts is asked of the real rule. Anyone may be killed before any of his steps: the hold of his session vanishes,
// what is detached stays. A definition is of one part or of two (stored_text.hpp).
//
// What is remembered beside the name, and compared after every step: which state counted last, of which run it was, and
// which final one counted.

namespace shmcoord::test {

using coordination::CountingState;
using coordination::WrittenState;
using Small = std::uint8_t;  // everything is, so that a state of the world is its bytes

/// What the protocol keeps to. Each is left out once, to see that somebody notices.
struct ProtocolRules {
  bool runs_compared = true;
  bool final_stays = true;
  bool begins_with_a_word = true;      // who takes over writes, also when nothing changes by that
  bool looks_at_what_it_wrote = true;  // a runner, at each; else at the last one, and gives back what it knew
  bool in_order = true;                // gives back in the order of the rule
  bool writes_first = true;            // and then gives back
  bool cancel_looks = true;            // if its state counts
  bool definition_first = true;        // of what is removed
  bool removes_what_it_saw = true;     // else whatever is there
  bool one_text = true;                // only one has room
  bool stands_before_removing = true;  // looks if it has the hold still
  bool tidies_after_the_dead = true;   // takes no part away whose writer may write the others
  bool tidies_beside_no_text = true;   // no state while there is a text or may be one
  bool tidies_what_was_broken = true;  // whoever wrote the last part writes no other any more
};

enum class Role : Small { none, runner, failing_runner, canceller, adder, remover, operating, tidier };

enum class At : Small {
  start,
  find,        // what is there now
  stands,      // before a word is written
  write,       // the word
  look_after,  // at it
  give_back,   // the list, one by one
  decide,      // is it ours still, and over?
  taken_away,  // why?
  add_part,
  look_added,
  acquire,
  remove_check,
  rob,
  leave,
  ended,
};

enum class Told : Small { nothing, busy, missing, done, cancelled, failed, lost, over, added, in_use, removed };

struct ProtocolEntry {
  enum class What : Small { part, state, runner } what = What::part;
  Small tag = 0;
  Small run = 0;
  PipelineStatus status = PipelineStatus::waiting;
  Small phase = 0;
  Small token = 0;
  Small of = 0;  // whose, of a runner's hold and a part
  Small weight = 0;

  static constexpr Small outside = 99;  // one who lives on, and does nothing
  static constexpr Small of_text = 4;   // of the last part
  static constexpr Small of_runner = 2;
  static constexpr Small capacity = 7;
};

struct Participant {
  Role role = Role::none;
  At at = At::start;
  At next = At::start;  // after giving back
  Told told = Told::nothing;
  Small tag = 0;
  Small run = 0;   // token of its hold
  Small mine = 0;  // token of what it wrote
  Small seen = 0;  // run of the state that a canceller saw
  PipelineStatus status = PipelineStatus::waiting;
  Small phase = 0;
  Small counted = 0;
  Small wrote = 0;
  Small stood = 0;  // it had its hold when it had looked at what it removes
  Small other = 0;  // token of the hold to be taken by force
  Small parts = 0;  // of its try, that it wrote
  Small listed = 0;
  std::array<Small, 12> list{};
};

struct Remembered {
  Small token = 0;  // of the state that counted last
  Small run = 0;
  PipelineStatus final = PipelineStatus::waiting;  // that counted once
  Small added = 0;                                 // somebody was told so
  Small began = 0;                                 // the last run that went on to its first step
};

struct ProtocolWorld {
  std::array<ProtocolEntry, 20> entries{};
  Small count = 0;
  Small last_token = 0;
  Small last_tag = 0;
  Small killed = 0;
  std::array<Participant, 5> people{};
  std::array<Remembered, 5> tags{};
};
static_assert(std::is_trivially_copyable_v<ProtocolWorld> && alignof(ProtocolWorld) == 1);
static_assert(sizeof(PipelineStatus) == 1);

class Protocol {
 public:
  static constexpr Small phases = 1;

  explicit Protocol(const ProtocolRules& rules = {}) : rules_(rules) {}

  // --- the beginning -------------------------------------------------------------------------------------------------

  Protocol& with(Role role) {
    world_.people.at(people_++).role = role;
    return *this;
  }
  /// Before it is defined.
  Protocol& in_parts(Small parts) {
    parts_ = parts;
    return *this;
  }
  Protocol& defined() {
    ++world_.last_tag;
    for (Small n = 1; n <= parts_; ++n) put_part(ProtocolEntry::outside, n == parts_);
    world_.tags.at(world_.last_tag).added = 1;
    return *this;
  }
  /// Somebody ran it so far, and is gone.
  Protocol& came_to(PipelineStatus status) {
    const auto run = static_cast<Small>(++world_.last_token);
    put({ProtocolEntry::What::state, world_.last_tag, run, status});
    remember();
    return *this;
  }
  /// One who was stopped between seeing that its hold stands and its word, and lost it since.
  Protocol& with_sleeper() {
    Participant& p = world_.people.at(people_++);
    p.role = Role::runner;
    p.at = At::write;
    p.tag = world_.last_tag;
    p.run = world_.entries[world_.count - 1U].run;
    p.status = PipelineStatus::done;
    p.wrote = 1;
    return *this;
  }
  /// Who adds and looked before there was one.
  Protocol& with_late_adder() {
    Participant& p = world_.people.at(people_++);
    p.role = Role::adder;
    p.at = At::add_part;
    return *this;
  }
  Protocol& with_operator() {
    has_operator_ = true;
    return with(Role::operating);
  }

  // --- all orders ----------------------------------------------------------------------------------------------------

  /// What went wrong, and how it came to that; empty: nothing ever does.
  std::string explore() {
    remember();
    go_on();
    return wrong_.empty() ? "" : wrong_ + "\n" + way();
  }
  [[nodiscard]] std::size_t states() const noexcept { return seen_.size(); }
  [[nodiscard]] std::size_t ends() const noexcept { return ends_; }

 private:
  using What = ProtocolEntry::What;
  struct Step {
    Small who;
    bool dies;
    At at;
    Role role;
  };

  void go_on();
  void at_end();
  void is_tidy_in_the_end();
  [[nodiscard]] std::size_t states_left() const;

  // --- the name ------------------------------------------------------------------------------------------------------

  [[nodiscard]] std::span<const ProtocolEntry> entries() const { return {world_.entries.data(), world_.count}; }
  Small put(ProtocolEntry entry);
  void put_part(Small of, bool last);
  [[nodiscard]] Small used() const;
  void take(Small token);
  [[nodiscard]] const ProtocolEntry* runner() const;
  [[nodiscard]] bool has(Small token) const;
  [[nodiscard]] Small parts_there(Small tag) const;
  /// The tag of the text; nothing: none is whole.
  [[nodiscard]] std::optional<Small> definition() const;
  [[nodiscard]] static std::string_view text_of(Small tag) { return std::string_view("0123456789").substr(tag, 1); }

  /// By the real rule; indices of states_.
  CountingState counting();

  // --- what must always hold -----------------------------------------------------------------------------------------

  void fail(const std::string& why);
  void remember();
  void tell(Participant& p, Told told);

  void removes(Small who, const ProtocolEntry& part);

  // --- steps ---------------------------------------------------------------------------------------------------------

  void end(Participant& p);
  void die(Small who);
  void step(Small who);
  /// False: busy.
  bool take_hold(Small who);
  void note(Participant& p, const CountingState& found);
  void give_back(Participant& p, At next);
  void give_one_back(Small who);

  void run(Small who);
  void begin_run(Participant& p);
  void decide(Participant& p);
  void cancel(Small who);
  void add(Small who);
  void withdraw(Participant& p);
  void remove(Small who);
  void list(Participant& p, const ProtocolEntry& e) const { p.list.at(p.listed++) = e.token; }
  void list_all(Participant& p);
  void list_remains(Participant& p);
  [[nodiscard]] bool may_be_completed(const ProtocolEntry& part) const;
  void take_away(Small who, At next);
  void tidy(Small who);

  // --- for the reader ------------------------------------------------------------------------------------------------

  [[nodiscard]] std::string_view bytes() const { return {reinterpret_cast<const char*>(&world_), sizeof world_}; }
  [[nodiscard]] std::string way() const;

  ProtocolRules rules_;
  ProtocolWorld world_;
  Small people_ = 0;
  Small parts_ = 1;
  bool has_operator_ = false;
  std::unordered_set<std::size_t> seen_;
  std::vector<Step> way_;
  std::vector<ProtocolEntry> states_;
  std::string wrong_;
  std::size_t ends_ = 0;
};

}  // namespace shmcoord::test
