#pragma once

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "process/identity.hpp"
#include "support/common.hpp"

// The books of a storm: what locks protect there, kept so that every fault of a lock shows.
//
// An account belongs to a lock that nobody is robbed of. Whoever holds it adds one, by a load and a later store, and
// writes first what it is about to do; who finds such a line unfinished makes sure that its writer has died, and
// carries it to its end. So the sum over all lives is exact, however many of them were killed in the middle: a lost
// update, two holders at once, or a holder that is taken for dead makes it wrong, and is seen when it happens as well.
//
// A fence is of a lock that is taken away from its holders (by leases, by force): it refuses a token lower than the
// highest it has seen, and sees it if two lives have the same one.
//
// A room is of a semaphore or a shared lock of which nobody is robbed: whoever has permits of it leaves its mark there,
// a word with its life and its weight, after it was let in and until before it gives back. So at any moment the marks
// of the living weigh no more than the permits that are out, and never more than there are; a writer weighs as much as
// there is room for, so nobody is beside it. Weights are added up by everybody who comes in. A sum that is too large
// counts only if the same marks are still there when they are read again, since then they were there at one moment, and
// if their lives have not ended: what the killed had may have gone to others, and their marks are taken away by whoever
// meets them. A kernel that has told of a death shows the process as exiting, so no permit can be given out before.
//
// Tokens are also appended to a file for each account, by programs that have no part in the memory too. They are in
// order there.
//
// A life is a process that takes part, and its number is never used twice. Whether it has ended is asked of /proc (as
// the host sees it: the file system is the same in a PID namespace of its own), not of what is being tested.

namespace shmcoord::test {

class Ledger {
 public:
  static constexpr std::size_t accounts = 4;
  static constexpr std::size_t fences = 2;
  static constexpr std::size_t rooms = 3;
  static constexpr std::uint64_t max_lives = 1U << 18U;

  explicit Ledger(std::string directory) : directory_(std::move(directory)) {}

  /// This process takes part from here on.
  void begin_life() {
    me_ = ++books_->lives;
    places_.fill(no_place);
    if (me_ >= max_lives) std::abort();
    std::array<char, 32> self{};
    (void)!::readlink("/proc/self", self.data(), self.size() - 1);
    life().start = process::own_start_time().value_or(0);
    life().pid = std::atoi(self.data());
  }
  /// From here on it does nothing to the books any more, though its process goes on: exec.
  void end_life() { life().ended = 1; }

  /// By the holder of that account's lock. `in_the_middle` runs while the books are wrong; it may end the process.
  template <class F>
  void add(std::size_t n, std::uint64_t token, F&& in_the_middle) {
    Account& a = books_->account[n];
    if (a.writer != 0) carry_to_its_end(n);
    if (token <= a.token) wrong("a token is not greater than the one before");
    a.token = token;
    a.base = a.value.load();
    a.intent = life().added[n] + 1;
    a.writer = me_;
    const std::uint64_t seen = a.value;
    in_the_middle();
    a.value = seen + 1;
    if (a.writer != me_ || a.token != token || a.base != seen) wrong("somebody else was in the account");
    life().added[n] = a.intent.load();
    a.writer = 0;
    ++books_->additions;
  }
  /// By the holder of the account's lock.
  void note(std::size_t n, std::uint64_t token) const {
    const std::string line = std::to_string(token) + "\n";
    const int fd = ::open(note_path(n).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (::write(fd, line.data(), line.size()) < 0) std::abort();
    ::close(fd);
  }
  [[nodiscard]] std::string note_path(std::size_t n) const { return directory_ + "/account" + std::to_string(n); }

  /// Shows the fence a token, as a holder. False: it has seen a greater one.
  bool pass(std::size_t n, std::uint64_t token) {
    // Tokens are counted from about the first one that came, so that a life's number fits beside them.
    std::uint64_t first = 0;
    books_->fence[n].first.compare_exchange_strong(first, token - std::min<std::uint64_t>(token, 1U << 30U));
    const std::uint64_t mine = token - books_->fence[n].first;
    if (mine >= 1ULL << 44U) wrong("a token is far from the first one of its fence");
    std::uint64_t seen = books_->fence[n].highest;
    do {
      if (seen / max_lives > mine) return false;
      if (seen / max_lives == mine && seen % max_lives != me_) wrong("two lives have one token");
    } while (!books_->fence[n].highest.compare_exchange_weak(seen, mine * max_lives + me_));
    return true;
  }
  /// Has a greater token passed?
  [[nodiscard]] bool overtaken(std::size_t n, std::uint64_t token) const {
    return books_->fence[n].highest / max_lives > token - books_->fence[n].first;
  }

  /// This life has permits of that weight in a room of `size`, instead of what it had.
  void enter(std::size_t n, std::uint32_t weight, std::uint32_t size) {
    auto& marks = books_->room[n];
    if (places_[n] == no_place) places_[n] = free_place(marks);
    marks[places_[n]] = mark_of(weight);
    ++books_->visits;
    if (weight_inside(marks, false) <= size) return;
    for (Number& mark : marks) take_from_the_dead(mark);
    if (weight_inside(marks, true) > size) wrong("more permits are out than there are");
  }
  void leave(std::size_t n) {
    books_->room[n][places_[n]] = 0;
    places_[n] = no_place;
  }

  /// A holder found out that it is one no more.
  void robbed() { ++books_->robbed; }
  void wrong(const char* what) {
    ++books_->faults;
    std::cerr << "life " << me_ << ": " << what << std::endl;
  }
  /// Somebody came one step further.
  void step() { ++books_->steps; }

  // --- when all is over --------------------------------------------------------------------------------------------

  struct Sum {
    std::uint64_t value;
    std::uint64_t added;  // by all lives
  };
  Sum sum(std::size_t n) {
    if (books_->account[n].writer != 0) carry_to_its_end(n);
    Sum s{books_->account[n].value, 0};
    for (std::uint64_t i = 1; i <= books_->lives; ++i) s.added += lives_[i].added[n];
    return s;
  }
  /// The tokens noted for an account, in the order in which they were.
  [[nodiscard]] std::vector<std::uint64_t> noted(std::size_t n) const {
    std::vector<std::uint64_t> tokens;
    std::ifstream in(note_path(n));
    for (std::uint64_t token = 0; in >> token;) tokens.push_back(token);
    return tokens;
  }
  [[nodiscard]] std::uint64_t faults() const { return books_->faults; }
  [[nodiscard]] std::uint64_t steps() const { return books_->steps; }
  [[nodiscard]] std::uint64_t lives() const { return books_->lives; }
  [[nodiscard]] std::uint64_t additions() const { return books_->additions; }
  [[nodiscard]] std::uint64_t visits() const { return books_->visits; }
  [[nodiscard]] std::uint64_t marks_of_the_dead() const { return books_->marks_taken; }
  [[nodiscard]] std::uint64_t robberies() const { return books_->robbed; }
  [[nodiscard]] std::uint64_t carried() const { return books_->carried; }

 private:
  using Number = std::atomic<std::uint64_t>;
  struct Account {
    Number value;
    Number token;
    Number writer;  // a life; 0: the books are right
    Number base;    // what value is to be one more than
    Number intent;  // what added[] of the writer is to be
  };
  struct Fence {
    Number first;
    Number highest;
  };
  using Marks = std::array<Number, 64>;  // more than processes at a time
  struct Books {
    std::array<Account, accounts> account;
    std::array<Fence, fences> fence;
    std::array<Marks, rooms> room;
    Number visits;
    Number marks_taken;
    Number lives;
    Number faults;
    Number steps;
    Number additions;
    Number carried;
    Number robbed;
  };
  struct Life {
    std::atomic<pid_t> pid;  // as the host counts
    Number start;
    Number ended;
    std::array<Number, accounts> added;
  };

  Life& life() { return lives_[me_]; }

  // A mark: the life, how many it made before, so that none comes twice, and the weight.
  static constexpr std::size_t no_place = ~std::size_t{0};
  static constexpr unsigned weight_bits = 20;
  static constexpr unsigned count_bits = 24;
  std::uint64_t mark_of(std::uint32_t weight) {
    const std::uint64_t count = ++marks_made_ & ((1U << count_bits) - 1);
    return (((me_ << count_bits) | count) << weight_bits) | weight;
  }
  [[nodiscard]] const Life& life_of(std::uint64_t mark) const { return lives_[mark >> (weight_bits + count_bits)]; }

  // Empty, or of a life that has ended. True: it is empty now.
  bool take_from_the_dead(Number& mark) {
    std::uint64_t seen = mark;
    if (seen == 0) return true;
    if (!has_ended(life_of(seen)) || !mark.compare_exchange_strong(seen, 0)) return false;
    ++books_->marks_taken;
    return true;
  }
  std::size_t free_place(Marks& marks) {
    for (const bool thorough : {false, true}) {
      for (std::size_t i = 0; i < marks.size(); ++i) {
        if (thorough) take_from_the_dead(marks[i]);
        std::uint64_t empty = 0;
        if (marks[i].compare_exchange_strong(empty, mark_of(0))) return i;
      }
    }
    std::abort();  // more lives at a time than places
  }
  /// Of the marks that are there at one moment: between the two times that they are read. With `living` only of those
  /// whose life had not ended after that.
  std::uint64_t weight_inside(const Marks& marks, bool living) const {
    std::array<std::uint64_t, std::tuple_size_v<Marks>> seen{};
    std::copy(marks.begin(), marks.end(), seen.begin());
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < marks.size(); ++i) {
      const bool there = marks[i] == seen[i] && seen[i] != 0;
      if (there && (!living || !has_ended(life_of(seen[i])))) sum += seen[i] & ((1U << weight_bits) - 1);
    }
    return sum;
  }

  /// By the holder: the one before died in the middle, or is not dead, which is a fault. Dies here: it is done again.
  void carry_to_its_end(std::size_t n) {
    Account& a = books_->account[n];
    Life& writer = lives_[a.writer];
    if (!has_ended(writer)) wrong("another holder is in the account, and lives");
    a.value = a.base + 1;
    writer.added[n] = a.intent.load();
    a.writer = 0;
    ++books_->carried;
  }
  static bool has_ended(const Life& who) {
    constexpr std::uint64_t task_exiting = 4;  // PF_EXITING: past its last system call
    std::ifstream in("/proc/" + std::to_string(who.pid) + "/stat");
    std::string text;
    std::getline(in, text, '\0');
    const auto line = process::parse_stat(text);
    return who.ended != 0 || !line || line->start_time != who.start || line->state == 'Z' || line->state == 'X' ||
           (line->flags & task_exiting) != 0;
  }

  std::string directory_;
  std::array<std::size_t, rooms> places_{};
  std::uint64_t marks_made_ = 0;
  Common<Books> books_;
  Common<Life> lives_{max_lives};
  std::uint64_t me_ = 0;
};

}  // namespace shmcoord::test
