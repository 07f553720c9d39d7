#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "engine/entry_text.hpp"
#include "support/sim_judge.hpp"
#include "support/sim_policy.hpp"
#include "support/sim_scheduler.hpp"
#include "support/sim_segment.hpp"

// The texts of an entry under the deterministic scheduler: one writer after the other, of whom the first may die at any
// word, and a reader at any moment. A reader that says "settled" has texts that somebody wrote as a whole.

namespace {

using shmcoord::engine::AllPagesExist;
using shmcoord::engine::EntryTexts;
using shmcoord::sim::is_dead;
using shmcoord::sim::is_finished;
using shmcoord::sim::judge;
using shmcoord::sim::long_form;
using shmcoord::sim::require;
using shmcoord::sim::Scenario;
using shmcoord::sim::Segment;
using P = shmcoord::sim::SimPolicy;

struct Texts {
  std::string holder;
  std::string reason;
};

class Story {
 public:
  explicit Story(std::vector<Texts> first, Texts heir) : all_(std::move(first)) {
    all_.push_back(std::move(heir));
    segment_.name_words(scenario_);
    scenario_.on_start([this] {
      segment_.reset();
      std::memset(segment_.view().long_text(entry), 0, shmcoord::engine::long_text_bytes);
      write(all_.front());
    });
    scenario_.mortal("owner", [this] {
      for (std::size_t i = 1; i + 1 < all_.size(); ++i) write(all_[i]);
    });
    scenario_.task("heir", [this] {
      shmcoord::sim::await([] { return is_dead(0) || is_finished(0); });
      write(all_.back());
    });
    scenario_.task("reader", [this] {
      shmcoord::engine::read_texts<P>(segment_.view(), entry, seen_);
      if (seen_.settled) require_whole(seen_);
      if (shmcoord::engine::holder_equals<P>(segment_.view(), entry, all_.back().holder)) {
        require(is_dead(0) || is_finished(0), "the heir's id before there was an heir");
      }
    });
    scenario_.at_end([this] {
      const EntryTexts now = shmcoord::engine::read_texts<P>(segment_.view(), entry);
      require(now.settled && now.holder == all_.back().holder && now.reason == all_.back().reason,
              "the last writer's texts are not there");
      require(shmcoord::engine::holder_equals<P>(segment_.view(), entry, all_.back().holder), "the holder is another");
    });
  }
  [[nodiscard]] const Scenario& scenario() const noexcept { return scenario_; }

 private:
  static constexpr shmcoord::engine::EntryIndex entry = Segment::entry_of(0);

  void write(const Texts& t) {
    require(shmcoord::engine::write_texts<P>(segment_.view(), pages_, entry, t.holder, t.reason), "no space");
  }
  void require_whole(const EntryTexts& now) const {
    const auto same = [&](const Texts& t) { return t.holder == now.holder && t.reason == now.reason; };
    require(std::any_of(all_.begin(), all_.end(), same), "texts that nobody wrote");
  }

  std::vector<Texts> all_;
  EntryTexts seen_;  // not on the reader's stack, which may be left for good
  Segment segment_{1};
  AllPagesExist pages_;
  Scenario scenario_;
};

TEST(EntryTextSim, a_settled_text_was_written_as_a_whole) {
  const Story same_place({{"job:1", "why"}, {"job:1", "another reason"}, {"worker:22", "why"}}, {"heir", "a new life"});
  judge("short texts", same_place.scenario(), {.preemptions = long_form() ? 4U : 3U, .deaths = 1}, {.deaths = 1});
}

TEST(EntryTextSim, a_text_may_move_to_the_row_of_long_ones_and_back) {
  const std::string lengthy(140, 'x');
  const Story moving({{"job:1", "why"}, {"job:1", lengthy}, {"job:1", "short"}}, {"heir", lengthy + "y"});
  judge("long texts", moving.scenario(), {.preemptions = 2, .deaths = 1}, {.deaths = 1});
}

TEST(EntryTextSim, an_order_that_is_missing_is_missed) {
  const Story s({{"job:1", "why"}, {"job:2", "because"}}, {"heir", "a new life"});
  shmcoord::sim::expect_missed("texts without acquire", s.scenario(), {}, {.acquire = true});
  shmcoord::sim::expect_missed("texts without release", s.scenario(), {}, {.release = true});
}

}  // namespace
