#include "support/permit_specification.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/history_judge.hpp"

// The judge of the histories of semaphores is judged here: what may happen is believed, and each kind of lie is found.

namespace shmcoord::test {
namespace {

constexpr std::int64_t ms = 1'000'000;
constexpr auto acquire = Verb::acquire;
constexpr auto attempt = Verb::try_acquire;
constexpr auto release = Verb::release;
constexpr auto force = Verb::force_release;
constexpr auto died = Verb::died;

/// One line, with times in milliseconds. Who holds is named as the client is.
Operation line(const char* client, Verb verb, std::int64_t call, std::int64_t end, const char* answer = "") {
  Operation o;
  o.client = client;
  o.object = verb == died ? "*" : "x";
  o.verb = verb;
  o.holder = client;
  o.call_ns = call * ms;
  o.return_ns = end == 0 ? no_return : end * ms;
  o.answer = answer;
  return o;
}
Operation asks(const char* client, Verb verb, std::uint32_t weight, std::int64_t call, std::int64_t end,
               const char* answer = "") {
  Operation o = line(client, verb, call, end, answer);
  o.weight = weight;
  return o;
}
/// Has `weight` now.
Operation gets(const char* client, Verb verb, std::uint32_t weight, std::int64_t call, std::int64_t end,
               const char* answer, std::uint64_t token) {
  Operation o = asks(client, verb, weight, call, end, answer);
  o.has = weight;
  o.got = token;
  return o;
}
Operation told(Operation o, const char* who, Loss why) {
  o.who = who;
  o.why = why;
  return o;
}
Operation refused(const char* client, Verb verb, std::uint32_t weight, std::int64_t call, std::int64_t end,
                  const char* answer, std::uint32_t available) {
  Operation o = asks(client, verb, weight, call, end, answer);
  o.available = available;
  return o;
}
Operation resize(std::uint32_t capacity, std::int64_t call, std::int64_t end) {
  Operation o = line("p9.0", Verb::resize, call, end, "resized");
  o.capacity = capacity;
  return o;
}
Operation status(std::uint32_t used, std::uint32_t capacity, std::int64_t call, std::int64_t end) {
  Operation o = line("p8.0", Verb::status, call, end);
  o.used = used;
  o.capacity = capacity;
  return o;
}
Operation place(const char* holder, std::uint64_t is, std::int64_t call, std::int64_t end) {
  Operation o = line(holder, Verb::place, call, end);
  o.client = std::string(holder).substr(0, 3) + "9";  // another thread of it
  o.got = is;
  return o;
}
Operation forces(const char* holder, std::int64_t call, std::int64_t end, const char* answer) {
  Operation o = line("p9.1", force, call, end, answer);
  o.holder = holder;
  return o;
}

bool believed(History h, std::uint32_t capacity = 4) {
  Operation configure = line("run", Verb::configure, 0, 1);
  configure.capacity = capacity;
  h.insert(h.begin(), configure);
  return !unexplained_object(h).has_value();
}

TEST(PermitSpecification, weights_add_up_to_the_capacity) {
  const auto with = [](std::uint32_t second) {
    return believed(
        {gets("p1.0", acquire, 3, 1, 2, "acquired", 5), gets("p2.0", attempt, second, 3, 4, "acquired", 6)});
  };
  EXPECT_TRUE(with(1));
  EXPECT_FALSE(with(2)) << "more inside than there is";
}

TEST(PermitSpecification, what_overlaps_came_in_any_order) {
  EXPECT_TRUE(believed({gets("p1.0", acquire, 3, 1, 9, "acquired", 5), refused("p2.0", attempt, 2, 2, 8, "full", 4)}))
      << "refused while it was held, and looked after the other one gave back";
  EXPECT_TRUE(believed({gets("p1.0", acquire, 3, 1, 9, "acquired", 5), refused("p2.0", attempt, 2, 2, 3, "full", 1)}));
}

TEST(PermitSpecification, a_refusal_has_a_reason_and_says_what_is_free) {
  const auto with = [](std::uint32_t weight, std::uint32_t available) {
    return believed(
        {gets("p1.0", acquire, 3, 1, 2, "acquired", 5), refused("p2.0", attempt, weight, 3, 4, "full", available)});
  };
  EXPECT_TRUE(with(2, 1));
  EXPECT_FALSE(with(1, 1)) << "it fits";
  EXPECT_FALSE(with(2, 2)) << "no order explains what is free";
  EXPECT_FALSE(with(2, 0));
}

TEST(PermitSpecification, tokens_grow_and_an_increase_keeps_its_own) {
  const auto with = [](std::uint64_t increased, std::uint64_t next) {
    return believed({gets("p1.0", attempt, 1, 1, 2, "acquired", 5),
                     gets("p1.0", attempt, 3, 3, 4, "increased", increased),
                     gets("p2.0", attempt, 1, 5, 6, "acquired", next)});
  };
  EXPECT_TRUE(with(5, 9));
  EXPECT_FALSE(with(6, 9)) << "an increase with a new token";
  EXPECT_FALSE(with(5, 5)) << "repeated";
  EXPECT_FALSE(with(5, 4)) << "going back";
}

TEST(PermitSpecification, a_smaller_request_lowers_nothing) {
  const auto with = [](const char* answer, std::uint32_t has) {
    Operation again = gets("p1.0", attempt, 1, 3, 4, answer, 5);
    again.has = has;
    return believed({gets("p1.0", attempt, 3, 1, 2, "acquired", 5), again, status(3, 4, 5, 6)});
  };
  EXPECT_TRUE(with("already_held", 3));
  EXPECT_FALSE(with("already_held", 1));
  EXPECT_FALSE(with("acquired", 1));
}

TEST(PermitSpecification, who_is_refused_keeps_what_it_has) {
  const auto with = [](std::uint32_t has, std::uint32_t used) {
    Operation more = refused("p1.0", attempt, 5, 3, 4, "full", 2);
    more.has = has;
    more.got = 5;
    return believed({gets("p1.0", attempt, 2, 1, 2, "acquired", 5), more, status(used, 4, 5, 6)});
  };
  EXPECT_TRUE(with(2, 2));
  EXPECT_FALSE(with(2, 0));
  EXPECT_FALSE(with(0, 2));
}

TEST(PermitSpecification, a_release_gives_back_all_once) {
  const auto with = [](const char* second, std::uint32_t used) {
    return believed({gets("p1.0", attempt, 3, 1, 2, "acquired", 5), line("p1.0", release, 3, 4, "released"),
                     line("p1.0", release, 5, 6, second), status(used, 4, 7, 8)});
  };
  EXPECT_TRUE(with("not_holder", 0));
  EXPECT_FALSE(with("released", 0));
  EXPECT_FALSE(with("not_holder", 1)) << "one of them leaked";
}

// The big one was seen in the queue, so a small one that asked later is served later.
TEST(PermitSpecification, a_small_request_does_not_pass_a_big_one_that_waits) {
  const auto with = [](std::uint64_t place_of_big, const char* answer) {
    Operation small = gets("p3.0", attempt, 1, 7, 8, answer, 6);
    if (small.answer == Text("full")) small = refused("p3.0", attempt, 1, 7, 8, answer, 1);
    return believed({gets("p1.0", attempt, 3, 1, 2, "acquired", 5), gets("p2.0", acquire, 4, 3, 20, "acquired", 9),
                     place("p2.0", place_of_big, 5, 6), small, line("p1.0", release, 10, 11, "released"),
                     line("p3.0", release, 12, 13, small.has == 0 ? "not_holder" : "released")});
  };
  EXPECT_TRUE(with(1, "full"));
  EXPECT_FALSE(with(1, "acquired"));
  EXPECT_FALSE(with(2, "full")) << "nobody was before it";
  EXPECT_TRUE(with(0, "acquired")) << "it was not in the queue yet";
  EXPECT_TRUE(with(0, "full")) << "or it was, and nobody saw it";
}

TEST(PermitSpecification, who_waits_is_served_in_the_order_of_the_queue) {
  const auto with = [](std::uint64_t first, std::uint64_t second) {
    return believed({gets("p1.0", attempt, 4, 1, 2, "acquired", 5), gets("p2.0", acquire, 4, 3, 30, "acquired", 9),
                     gets("p3.0", acquire, 4, 3, 40, "acquired", 12), place("p2.0", first, 5, 6),
                     place("p3.0", second, 5, 6), line("p1.0", release, 10, 11, "released"),
                     line("p2.0", release, 31, 32, "released")});
  };
  EXPECT_TRUE(with(1, 2));
  EXPECT_FALSE(with(2, 1));
}

TEST(PermitSpecification, a_wait_ends_late_or_because_it_never_fits) {
  const auto with = [](const char* answer, std::uint32_t capacity, std::int64_t resized) {
    return believed({gets("p1.0", attempt, 4, 1, 2, "acquired", 5), refused("p2.0", acquire, 3, 3, 9, answer, 0),
                     resize(capacity, resized, resized + 1), status(4, capacity, resized + 2, resized + 3)});
  };
  EXPECT_TRUE(with("timed_out", 4, 5));
  EXPECT_FALSE(with("full", 4, 5)) << "who waits is refused only for ever";
  EXPECT_TRUE(with("full", 2, 5));
  EXPECT_FALSE(with("full", 2, 10)) << "not yet";
  EXPECT_FALSE(believed({refused("p2.0", acquire, 3, 3, 9, "timed_out", 4)})) << "all of it was free";
}

TEST(PermitSpecification, below_what_is_in_use_nobody_gets_in) {
  const auto with = [](const char* answer, std::uint32_t has) {
    Operation more = asks("p2.0", attempt, 1, 5, 6, answer);
    more.has = has;
    more.got = has == 0 ? 0 : 7;
    return believed({gets("p1.0", attempt, 3, 1, 2, "acquired", 5), resize(2, 3, 4), more});
  };
  EXPECT_TRUE(with("full", 0));
  EXPECT_FALSE(with("acquired", 1));
}

TEST(PermitSpecification, what_the_dead_had_comes_back_once_and_whole) {
  const auto with = [](std::int64_t at, Operation next) {
    next.call_ns = at * ms;
    next.return_ns = (at + 1) * ms;
    return believed({gets("p1.0", acquire, 3, 1, 2, "acquired", 5), line("p1", died, 10, 11), next});
  };
  const Operation all = gets("p2.0", attempt, 4, 0, 0, "acquired", 6);
  EXPECT_TRUE(with(12, told(all, "p1.0", Loss::died)));
  EXPECT_TRUE(with(12, told(all, "", Loss::died))) << "the name was being overwritten";
  EXPECT_TRUE(with(12, refused("p2.0", attempt, 4, 0, 0, "full", 1))) << "not yet buried";
  EXPECT_FALSE(with(12, refused("p2.0", attempt, 4, 0, 0, "full", 2))) << "a part of it never came back";
  EXPECT_FALSE(with(8, told(all, "p1.0", Loss::died))) << "before the death";
  EXPECT_FALSE(with(12, told(all, "p3.0", Loss::died))) << "told of somebody else";
  EXPECT_FALSE(with(12, all)) << "not told";
}

// A segment that shows more in use after an end of all than before would have leaked them.
TEST(PermitSpecification, permits_that_never_come_back_show) {
  const auto with = [](std::uint32_t used) {
    return believed({gets("p1.0", acquire, 3, 1, 2, "acquired", 5), line("p1", died, 10, 11),
                     told(gets("p2.0", attempt, 2, 12, 13, "acquired", 6), "p1.0", Loss::died),
                     line("p2.0", release, 14, 15, "released"), status(used, 4, 16, 17)});
  };
  EXPECT_TRUE(with(0));
  EXPECT_FALSE(with(3));
  EXPECT_FALSE(with(2));
}

TEST(PermitSpecification, a_killed_increase_may_come_back_in_two_parts) {
  const auto with = [](std::uint32_t used) {
    return believed({gets("p1.0", attempt, 1, 1, 2, "acquired", 5), asks("p1.0", acquire, 3, 3, 0),
                     line("p1", died, 4, 5), status(3, 4, 6, 7), status(used, 4, 8, 9), status(0, 4, 10, 11)});
  };
  for (const std::uint32_t used : {0U, 1U, 2U, 3U}) EXPECT_TRUE(with(used)) << used;
  EXPECT_FALSE(with(4));
}

TEST(PermitSpecification, the_place_of_a_dead_increase_may_be_granted_after_its_hold_came_back) {
  const auto with = [](std::uint32_t used) {
    return believed({gets("p1.0", attempt, 2, 1, 2, "acquired", 5), gets("p2.0", attempt, 2, 1, 2, "acquired", 6),
                     asks("p1.0", acquire, 3, 3, 0), line("p1", died, 4, 5), status(used, 4, 6, 7),
                     told(gets("p3.0", attempt, 1, 8, 9, "acquired", 9), "p1.0", Loss::died), status(3, 4, 10, 11),
                     told(gets("p3.0", attempt, 2, 12, 13, "increased", 9), "p1.0", Loss::died)});
  };
  EXPECT_TRUE(with(4));
  EXPECT_FALSE(with(1));
}

TEST(PermitSpecification, a_lease_may_run_out_but_not_early) {
  const auto with = [](std::int64_t at, Loss why) {
    Operation leased = gets("p1.0", acquire, 3, 1, 2, "acquired", 5);
    leased.ttl_ns = 50 * ms;
    return believed({leased, line("p1.0", Verb::heartbeat, 30, 31, "refreshed"),
                     told(gets("p2.0", attempt, 2, at, at + 1, "acquired", 6), "p1.0", why)});
  };
  EXPECT_TRUE(with(90, Loss::expired));
  EXPECT_FALSE(with(90, Loss::stale));
  EXPECT_FALSE(with(60, Loss::expired)) << "the heartbeat kept it";
}

TEST(PermitSpecification, who_was_robbed_is_told_and_so_is_one_who_follows) {
  const auto with = [](Operation last, Operation next) {
    return believed({gets("p1.0", attempt, 3, 1, 2, "acquired", 5), forces("p1.0", 3, 4, "reclaimed"), last, next});
  };
  const Operation robbed = told(line("p1.0", release, 5, 6, "not_holder"), "", Loss::forced);
  const Operation follows = told(gets("p2.0", attempt, 2, 7, 8, "acquired", 6), "p1.0", Loss::forced);
  EXPECT_TRUE(with(robbed, follows));
  EXPECT_FALSE(with(line("p1.0", release, 5, 6, "not_holder"), follows)) << "does not learn why";
  EXPECT_FALSE(with(line("p1.0", release, 5, 6, "released"), follows));
  EXPECT_FALSE(with(robbed, gets("p2.0", attempt, 2, 7, 8, "acquired", 6))) << "does not learn whom it follows";
  EXPECT_FALSE(with(robbed, told(follows, "p1.0", Loss::died)));
}

TEST(PermitSpecification, an_increase_whose_hold_is_lost_meanwhile_is_acquired_anew) {
  const auto with = [](std::uint64_t token) {
    Operation anew = told(gets("p1.0", acquire, 3, 3, 20, "acquired", token), "p1.0", Loss::forced);
    return believed({gets("p1.0", attempt, 1, 1, 2, "acquired", 5), anew, gets("p2.0", attempt, 3, 4, 5, "acquired", 6),
                     forces("p1.0", 7, 8, "reclaimed"), line("p2.0", release, 9, 10, "released"), status(2, 4, 11, 12),
                     status(3, 4, 21, 22)});
  };
  EXPECT_TRUE(with(9)) << "the part was there by itself for a moment";
  EXPECT_FALSE(with(5));
}

TEST(PermitSpecification, locks_and_semaphores_may_be_in_one_history) {
  const auto with = [](const char* answer) {
    Operation lock = line("p1.0", attempt, 1, 2, "acquired");
    lock.object = "lock";
    lock.got = 5;
    Operation other = line("p2.0", attempt, 3, 4, answer);
    other.object = "lock";
    other.got = other.answer == Text("busy") ? 0 : 6;
    return believed({lock, other, gets("p1.0", attempt, 3, 5, 6, "acquired", 5)});
  };
  EXPECT_TRUE(with("busy"));
  EXPECT_FALSE(with("acquired"));
}

}  // namespace
}  // namespace shmcoord::test
