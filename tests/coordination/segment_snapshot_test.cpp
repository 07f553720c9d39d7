#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "coordination/save.hpp"
#include "coordination/stored_text.hpp"
#include "process/atomic_file.hpp"
#include "process/clock.hpp"
#include "process/primitive_client.hpp"
#include "process/snapshot.hpp"
#include "shmcoord/segment_pipeline.hpp"
#include "shmcoord/snapshot.hpp"
#include "support/face_fixture.hpp"

// A segment saved and made anew, with real processes, kills at each system call, and files that were damaged.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using coordination::SavedState;
using engine::RealPolicy;
using process::PrimitiveClient;
using testing::Child;

class SegmentSnapshot : public testing::FaceTest {
 protected:
  SegmentSnapshot()
      : directory_(std::filesystem::temp_directory_path() / name_), file_((directory_ / "snapshot.json").string()) {
    std::filesystem::create_directories(directory_);
  }
  ~SegmentSnapshot() override {
    std::filesystem::remove_all(directory_);
    for (const std::string& name : restored_) {
      if (const auto segment = try_open(name)) test::expect_sound(*detail::Access::mapping(*segment));
      std::error_code none;
      try {
        Segment::remove(name, true);
      } catch (const Error&) {  // it never came to be
      }
    }
  }

  static std::optional<Segment> try_open(const std::string& name) {
    std::error_code none;
    return Segment::open(name, {}, none);
  }
  /// A name for one that is to be restored.
  std::string other() {
    restored_.push_back(name_ + "-restored-" + std::to_string(restored_.size()));
    return restored_.back();
  }
  static std::string read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
  [[nodiscard]] SavedState saved() const { return coordination::state_from(read(file_), file_); }
  static engine::Header& header(const Segment& segment) { return detail::Access::mapping(segment)->view().header(); }

  /// Holds that outlive whoever made them, of every kind.
  void furnish(const Session& session) {
    const auto me = detail::Access::state(session)->participant;
    const auto take = [&](PrimitiveClient& client, const std::string& holder, std::uint32_t weight,
                          const std::string& reason, std::optional<std::chrono::nanoseconds> ttl, std::int32_t pid) {
      process::Request r;
      r.holder = holder;
      r.weight = weight;
      r.reason = reason;
      r.ttl = ttl;
      r.no_lease = !ttl;
      r.detached = true;
      r.bound_pid = pid;
      ASSERT_TRUE(client.acquire(r, process::try_once)) << holder;
    };
    PrimitiveClient deploy(me, "deploy", {.lease = {.stale_threshold = 90s, .max_hold_duration = 3600s, .ttl = 77s}});
    take(deploy, "script", process::whole_lock, "release \"42\"\n\xff", 300s, 0);
    PrimitiveClient tree(me, "tree", {});
    take(tree, "reader 1", process::shared_lock, "", {}, 0);
    take(tree, "reader 2", process::shared_lock, std::string(4096, 'r'), {}, 0);
    PrimitiveClient bound(me, "bound", {});
    take(bound, "bound", process::whole_lock, "with its process", {}, ::getpid());
    PrimitiveClient free(me, std::string(255, 'n'), {});
    PrimitiveClient agents(me, "agents", {.kind = engine::Kind::semaphore, .capacity = 8});
    take(agents, "a", 3, "three", 60s, 0);
    take(agents, "b", 4, "four", 60s, 0);
    agents.resize(5);  // below what is in use
    PrimitiveClient quota(me, "quota", {.kind = engine::Kind::semaphore, .per_session = 2});
  }
  static Guard a_guard() {
    return {"gate",
            GuardCondition::parse("lock_free(deploy) && !file_exists(" + std::string(3000, 'f') + ") && file_exists(" +
                                  std::string(3000, 'g') + ")"),
            Retry{5s},
            {"lock:*"}};
  }

  /// What two saves of the same have in common.
  static SavedState comparable(SavedState state) {
    state.saved_wall_ns = 0;
    state.segment = state.instance = state.boot = "";
    state.token_reserved = 0;
    std::erase_if(state.names, [](const auto& n) { return n.kind == engine::Kind::lock && n.name == "of a session"; });
    for (auto& name : state.names) {
      for (auto& hold : name.holders) hold.held_ns = hold.silent_ns = 0;
    }
    return state;
  }

  std::filesystem::path directory_;
  std::string file_;
  std::vector<std::string> restored_;
};

template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  return {Errc{}, "nothing was thrown"};
}

TEST_F(SegmentSnapshot, EverythingThatCanComesBackAsItWas) {
  Session session{segment_, {.label = "maker"}};
  furnish(session);
  (void)GuardFlag::add(session, a_guard());
  Lock mine{session, "of a session"};
  ASSERT_TRUE(mine.try_acquire(HolderId{"me"}));
  const SnapshotCounts counts = save_snapshot(segment_, file_);
  EXPECT_EQ(counts, (SnapshotCounts{5, 2, 1, 0, 7}));
  const SavedState before = saved();

  const std::string name = other();
  const RestoreReport report = restore_snapshot(file_, name);
  EXPECT_EQ(report.restored, (SnapshotCounts{5, 2, 1, 0, 6}));
  ASSERT_EQ(report.left_out.size(), 1U);
  EXPECT_EQ(report.left_out[0].name, "of a session");
  EXPECT_EQ(report.left_out[0].holder, "me");
  EXPECT_EQ(report.left_out[0].pid, ::getpid());
  for (const LeftOut& one : report.renewed) ADD_FAILURE() << one.name << ", " << one.holder << ": " << one.why;

  const Segment restored = Segment::open(name);
  Session there{restored};
  const auto holders = Lock{there, "deploy"}.holder();
  ASSERT_TRUE(holders);
  EXPECT_EQ(holders->holder, "script");
  EXPECT_EQ(holders->reason, "release \"42\"\n\xff");
  EXPECT_EQ(GuardFlag(there, "gate").guard().condition, a_guard().condition);
  EXPECT_FALSE(Lock(there, "bound").try_acquire(HolderId{"x"}));
  EXPECT_TRUE(Lock(there, "of a session").try_acquire(HolderId{"x"}));

  // Saved again, it is equal but for ages and reservations; and the ages went on from where they were.
  save_snapshot(restored, file_);
  const SavedState after = saved();
  EXPECT_EQ(comparable(after), comparable(before));
  EXPECT_GT(after.token_reserved, before.token_reserved);
  for (std::size_t n = 0, m = 0; n < before.names.size(); ++n) {
    if (before.names[n].name == "of a session") continue;
    while (after.names[m].name != before.names[n].name) ++m;
    for (std::size_t h = 0; h < before.names[n].holders.size(); ++h) {
      EXPECT_GE(after.names[m].holders[h].held_ns, before.names[n].holders[h].held_ns);
      EXPECT_GE(after.names[m].holders[h].silent_ns, before.names[n].holders[h].silent_ns);
    }
  }
}

TEST_F(SegmentSnapshot, TokensNeverGoBack) {
  Session session{segment_};
  Lock lock{session, "l"};
  const HolderId me{"me"};
  std::map<std::string, std::uint64_t> last;  // by name: each has its own
  const auto take = [&](Lock& of, int times) {
    for (int n = 0; n < times; ++n) {
      const AcquireOutcome got = of.try_acquire(me);
      ASSERT_TRUE(got);
      ASSERT_GT(got.token, last[of.name()]);
      last[of.name()] = got.token;
      ASSERT_TRUE(of.release(me).result == ReleaseResult::released);
    }
  };
  take(lock, 10);
  save_snapshot(segment_, file_);
  take(lock, 1000);  // the snapshot is older than the last token
  for (int n = 0; n < 3; ++n) {
    const std::string name = other();
    (void)restore_snapshot(file_, name);  // each time from the same file
    const Segment restored = Segment::open(name);
    Session there{restored};
    Lock again{there, "l"};
    take(again, 3);
    Lock fresh{there, "new"};
    take(fresh, 3);
  }
}

TEST_F(SegmentSnapshot, NobodyIsLetInBeyondTheReservation) {
  Session session{segment_};
  Lock lock{session, "l"};
  lock.lock();
  lock.unlock();
  save_snapshot(segment_, file_);
  // As if so many had been given out since.
  RealPolicy::store(header(segment_).token_reserved, RealPolicy::load(header(segment_).token_floor));
  const Error refused = error_of([&] { lock.lock(); });
  EXPECT_EQ(refused.errc(), Errc::table_full);
  EXPECT_NE(std::string(refused.what()).find("save the segment again"), std::string::npos) << refused.what();
  EXPECT_EQ(error_of([&] { (void)lock.try_acquire(HolderId{"x"}); }).errc(), Errc::table_full);
  save_snapshot(segment_, file_);
  lock.lock();
  lock.unlock();
}

TEST_F(SegmentSnapshot, AStaleHolderStaysStale) {
  Session session{segment_};
  furnish(session);
  save_snapshot(segment_, file_);
  SavedState state = saved();
  constexpr std::int64_t ten_years = 315'360'000'000'000'000;  // before this host was started
  for (auto& name : state.names) {
    if (name.name != "deploy") continue;
    name.holders[0].held_ns = ten_years;
    name.holders[0].silent_ns = ten_years - 1;
    name.max_hold_ns = 0;
  }
  write(file_, coordination::text_of(state));
  const std::string name = other();
  (void)restore_snapshot(file_, name);
  const Segment restored = Segment::open(name);
  Session there{restored};
  Lock deploy{there, "deploy"};
  const auto holder = deploy.holder();
  ASSERT_TRUE(holder);
  EXPECT_GE(holder->held_for.count(), ten_years);
  const AcquireOutcome got = deploy.try_acquire(HolderId{"next"});
  EXPECT_EQ(got.result, AcquireResult::reclaimed);
  ASSERT_TRUE(got.previous);
  EXPECT_EQ(got.previous->holder, "script");
  EXPECT_EQ(got.previous->why, Loss::expired);
  EXPECT_FALSE(Lock(there, "tree").try_acquire(HolderId{"next"})) << "the others are not";
}

TEST_F(SegmentSnapshot, OfAnotherBootOnlyWhatBelongsToNoProcess) {
  Session session{segment_};
  furnish(session);
  save_snapshot(segment_, file_);
  SavedState state = saved();
  state.boot = "00000000000000000000000000000000";
  write(file_, coordination::text_of(state));
  const std::string name = other();
  const RestoreReport report = restore_snapshot(file_, name);
  EXPECT_EQ(report.restored.holds, 5U);
  ASSERT_EQ(report.left_out.size(), 1U);
  EXPECT_EQ(report.left_out[0].name, "bound");
}

// --- files that are not what they were -------------------------------------------------------------------------------

TEST_F(SegmentSnapshot, ADamageHasAPlaceAndNothingIsRestored) {
  Session session{segment_};
  furnish(session);
  (void)GuardFlag::add(session, a_guard());
  save_snapshot(segment_, file_);
  const std::string good = read(file_);
  const auto lines = std::count(good.begin(), good.end(), '\n');
  std::minstd_rand random(20'261'129);
  const auto refused = [&](const std::string& text, const std::string& part) {
    write(file_, text);
    const std::string name = name_ + "-never";
    const Error e = error_of([&] { (void)restore_snapshot(file_, name); });
    ASSERT_EQ(e.errc(), Errc::snapshot_damaged) << e.what();
    ASSERT_NE(std::string(e.what()).find(part), std::string::npos) << part << "\n" << e.what();
    ASSERT_FALSE(std::filesystem::exists("/dev/shm/shmcoord." + name));
    ASSERT_EQ(read(file_), text) << "and the file is as it was";
  };
  std::size_t begin = 0;
  for (int line = 1; line <= lines; ++line) {
    const std::size_t end = good.find('\n', begin);
    for (int n = 0; n < 20; ++n) {
      std::string bad = good;
      const std::size_t at = begin + random() % (end - begin);
      bad[at] = static_cast<char>(bad[at] ^ (1 << (random() % 7)));
      if (bad[at] == '\n') continue;
      if (line > 1 || at > 40) refused(bad, file_ + ":" + (line < lines ? std::to_string(line) + ":" : ""));
    }
    begin = end + 1;
  }
  for (std::size_t n = 0; n < good.size(); n += 1 + good.size() / 300) refused(good.substr(0, n), file_);
  refused(good.substr(0, good.size() - 1), file_);
  refused("", "no snapshot");
  refused("{\"a\":1}\n", "no snapshot");

  const auto is_version = [](int version) { return ":" + std::to_string(version) + ","; };
  for (const int version : {coordination::snapshot_version - 1, coordination::snapshot_version + 1}) {
    std::string other = good;
    const std::string own = is_version(coordination::snapshot_version);
    other.replace(other.find(own), own.size(), is_version(version));
    write(file_, other);
    EXPECT_EQ(error_of([&] { (void)restore_snapshot(file_, name_ + "-never"); }).errc(), Errc::segment_version);
  }
  EXPECT_EQ(error_of([&] { (void)restore_snapshot(file_ + "-not-there", name_); }).errc(), Errc::not_found);
  EXPECT_EQ(error_of([&] { (void)restore_snapshot(directory_, name_); }).errc(), Errc::invalid_argument);
}

// With checksums that are right.
TEST_F(SegmentSnapshot, WhatCouldNotHaveBeenSavedIsRefused) {
  Session session{segment_};
  furnish(session);
  (void)GuardFlag::add(session, a_guard());
  (void)SegmentPipeline::add(session, Pipeline("release", {{.name = "build"}}));
  save_snapshot(segment_, file_);
  const SavedState good = saved();
  const auto refused = [&](const std::string& what, auto&& change) {
    SavedState bad = good;
    change(bad);
    const Error e = error_of([&] { (void)coordination::state_from(coordination::text_of(bad), "FILE"); });
    EXPECT_EQ(e.errc(), Errc::snapshot_damaged) << what << ": " << e.what();
    EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
  };
  const auto in = [](SavedState& state, const std::string& name) -> coordination::SavedName& {
    return *std::find_if(state.names.begin(), state.names.end(), [&](const auto& n) { return n.name == name; });
  };
  refused("there twice", [&](SavedState& s) { s.names.push_back(in(s, "deploy")); });
  refused("the name", [&](SavedState& s) { in(s, "deploy").name = "a\nb"; });
  refused("same token", [&](SavedState& s) { in(s, "agents").holders[1].token = in(s, "agents").holders[0].token; });
  refused("holds the lock alone", [&](SavedState& s) { in(s, "tree").holders[0].shared = false; });
  refused("a holder id", [&](SavedState& s) { in(s, "deploy").holders[0].holder = ""; });
  refused("'token' is out of", [&](SavedState& s) { in(s, "deploy").holders[0].token = core::seq_limit; });
  refused("'weight' is out of", [&](SavedState& s) { in(s, "agents").holders[0].weight = 0; });
  refused("'held_ns' is out of", [&](SavedState& s) { in(s, "agents").holders[0].held_ns = -1; });
  refused("a reason is too long", [&](SavedState& s) { in(s, "deploy").holders[0].reason.assign(4097, 'x'); });
  refused("does not say which", [&](SavedState& s) { in(s, "bound").holders[0].pid = 0; });
  refused("'capacity' is out of", [&](SavedState& s) { in(s, "agents").capacity = 0; });
  refused("a segment cannot have", [&](SavedState& s) { s.sizes.names = 0; });
  refused("'mode' is out of", [&](SavedState& s) { s.mode = 01777; });
  refused("'gate' cannot be restored", [&](SavedState& s) { in(s, "gate").definition = "{}"; });
  refused("the delay of a retry", [&](SavedState& s) {
    in(s, "gate").definition = R"({"condition":"file_exists(a) ","action":"retry","delay_ns":0,"wake_on":[]})";
  });
  refused("'release' cannot be restored", [&](SavedState& s) {
    in(s, "release").definition = R"({"id":"release","phases":[{"name":"build","lost":1e-7}]})";
  });
  refused("another one's", [&](SavedState& s) { in(s, "release").name = "another"; });
  refused("no phase 'test'",
          [&](SavedState& s) { in(s, "release").progress = R"({"status":"running","phase":"test","step":"inside"})"; });
}

TEST_F(SegmentSnapshot, WhatNobodyCouldReadIsNotSaved) {
  const Session session{segment_};
  furnish(session);
  save_snapshot(segment_, file_);
  const std::string before = read(file_);
  const engine::Mapping& mapping = *detail::Access::mapping(segment_);
  const auto seen = *process::look_at(mapping, "deploy");
  engine::Word64& silence = mapping.view().record(seen.record).stale_threshold_ns;
  const std::uint64_t good = RealPolicy::load(silence);
  RealPolicy::store(silence, ~std::uint64_t{0});
  const Error refused = error_of([&] { save_snapshot(segment_, file_); });
  EXPECT_EQ(refused.errc(), Errc::segment_corrupt);
  EXPECT_NE(std::string(refused.what()).find("'stale_threshold_ns'"), std::string::npos) << refused.what();
  EXPECT_EQ(read(file_), before);
  RealPolicy::store(silence, good);
}

// Two scripts at once can have become two holders.
TEST_F(SegmentSnapshot, OfTwoHoldsOfOneIdOneComesBack) {
  const Session session{segment_};
  furnish(session);
  save_snapshot(segment_, file_);
  SavedState state = saved();
  for (auto& name : state.names) {
    if (name.name == "agents") name.holders[1].holder = name.holders[0].holder;
  }
  write(file_, coordination::text_of(state));
  const RestoreReport report = restore_snapshot(file_, other());
  ASSERT_EQ(report.left_out.size(), 1U);
  EXPECT_EQ(report.left_out[0].holder, "a");
  EXPECT_EQ(report.left_out[0].why, "its holder holds it already");
  EXPECT_EQ(report.restored.holds, 5U);
}

// Else it would be found when there is nothing else any more.
TEST_F(SegmentSnapshot, ADefinitionThatCannotBeReadIsToldByWhoSaves) {
  Session session{segment_};
  save_snapshot(segment_, file_);
  const std::string before = read(file_);
  PrimitiveClient gate(detail::Access::state(session)->participant, "gate", {.kind = engine::Kind::guard});
  process::Request part;
  part.holder = "part 1/1 of a try by 1.1";
  part.weight = coordination::text_weight;
  part.reason = "{\"condition\": \"\xff";
  part.no_lease = true;
  part.detached = true;
  ASSERT_TRUE(gate.acquire(part, process::try_once));
  const Error refused = error_of([&] { save_snapshot(segment_, file_); });
  EXPECT_EQ(refused.errc(), Errc::segment_corrupt);
  EXPECT_NE(std::string(refused.what()).find("'gate'"), std::string::npos) << refused.what();
  EXPECT_EQ(read(file_), before);
}

TEST_F(SegmentSnapshot, AnExistingSegmentIsLeftAlone) {
  Session session{segment_};
  furnish(session);
  save_snapshot(segment_, file_);
  const std::string before = read(file_);
  EXPECT_EQ(error_of([&] { (void)restore_snapshot(file_, name_); }).errc(), Errc::segment_exists);
  EXPECT_EQ(read(file_), before);
}

TEST_F(SegmentSnapshot, TheFileKeepsItsModeAndItsLink) {
  std::filesystem::create_directories(directory_ / "far");
  const std::string target = (directory_ / "far" / "target").string();
  write(target, "old");
  ::chmod(target.c_str(), 0640);
  std::filesystem::create_symlink(target, file_);
  save_snapshot(segment_, file_);
  EXPECT_TRUE(std::filesystem::is_symlink(file_));
  struct stat st {};
  ASSERT_EQ(::stat(target.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777U, 0640U);
  EXPECT_NO_THROW((void)saved());

  const std::string fresh = (directory_ / "fresh").string();
  save_snapshot(segment_, fresh);
  ASSERT_EQ(::stat(fresh.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777U, 0600U);
  EXPECT_EQ(error_of([&] { save_snapshot(segment_, directory_.string()); }).errc(), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { save_snapshot(segment_, (directory_ / "no" / "such").string()); }).errc(), Errc::not_found);
  EXPECT_EQ(error_of([&] { save_snapshot(segment_, ""); }).errc(), Errc::invalid_argument);
}

// --- whoever is killed ----------------------------------------------------------------------------------------------

/// Runs `body` in a child that is killed before its nth system call. False: it came to its end before.
bool killed_before(int nth, const std::function<void()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  ::ptrace(PTRACE_SETOPTIONS, pid, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  for (int calls = 0; calls < nth;) {
    if (::ptrace(PTRACE_SYSCALL, pid, nullptr, nullptr) != 0 || ::waitpid(pid, &status, 0) != pid) return false;
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
      return false;
    }
    // Each call stops it twice; killed at the first, the call is not made.
    if (WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80)) ++calls;
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, &status, 0);
  return true;
}

TEST_F(SegmentSnapshot, KilledAtAnyStepTheFileIsTheOldOneOrTheNewOne) {
  Session session{segment_};
  furnish(session);
  save_snapshot(segment_, file_);
  const std::string old = read(file_);
  Lock more{session, "more"};
  more.lock();
  more.unlock();
  int news = 0;
  int steps = 1;
  for (;; ++steps) {
    write(file_, old);
    // As it was when that was written; much has happened since, so that the next one reserves more.
    RealPolicy::store(header(segment_).token_reserved, coordination::state_from(old, file_).token_reserved);
    RealPolicy::store(header(segment_).token_floor, RealPolicy::load(header(segment_).token_floor) + 1'000'000);
    const bool killed = killed_before(steps, [&] { save_snapshot(segment_, file_); });
    const std::string now = read(file_);
    ASSERT_NO_THROW((void)coordination::state_from(now, file_)) << "step " << steps;
    news += now != old ? 1 : 0;
    ASSERT_GE(coordination::state_from(now, file_).token_reserved, RealPolicy::load(header(segment_).token_reserved))
        << "step " << steps;
    if (!killed) break;
  }
  EXPECT_GT(steps, 20);
  EXPECT_GT(news, 0);
  EXPECT_LT(news, steps);
  // What they left goes with the next one.
  save_snapshot(segment_, file_);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

TEST_F(SegmentSnapshot, KilledAtAnyStepOfRestoringThereIsAWholeSegmentOrNone) {
  Session session{segment_};
  furnish(session);
  (void)GuardFlag::add(session, a_guard());
  save_snapshot(segment_, file_);
  const std::string good = read(file_);
  const SavedState before = saved();
  std::minstd_rand random(7);
  int whole = 0;
  int none = 0;
  bool at_the_end = false;
  for (int step = 1; !at_the_end; step += 1 + static_cast<int>(random() % 8)) {
    write(file_, good);
    const std::string name = other();
    at_the_end = !killed_before(step, [&] { (void)restore_snapshot(file_, name); });
    const auto restored = try_open(name);
    ++(restored ? whole : none);
    if (restored) {
      // From the same file no token is given out a second time.
      ASSERT_NE(RealPolicy::load(header(*restored).token_reserved), 0U) << "step " << step;
      ASSERT_GE(saved().token_reserved, RealPolicy::load(header(*restored).token_reserved)) << "step " << step;
      ASSERT_EQ(comparable(coordination::state_of(*detail::Access::mapping(*restored))).names,
                comparable(before).names);
    }
    ASSERT_NO_THROW((void)saved());
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(none, 3);
  // Whoever lists takes away what they left. What others make meanwhile has a moment to be locked.
  const auto left = [] {
    int unlocked = 0;
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
      if (!file.path().filename().string().starts_with(".shmcoord-new.")) continue;
      const int fd = ::open(file.path().c_str(), O_RDWR | O_CLOEXEC);
      if (fd < 0) continue;
      unlocked += ::flock(fd, LOCK_EX | LOCK_NB) == 0 ? 1 : 0;
      ::close(fd);
    }
    return unlocked;
  };
  do {
    (void)Segment::list();
  } while (left() != 0);
}

TEST_F(SegmentSnapshot, SavedWhileItIsUsedEachNameIsAsItWasAtOneMoment) {
  std::vector<std::unique_ptr<Child>> children;
  for (int n = 0; n < 3; ++n) {
    children.push_back(std::make_unique<Child>([this, n](int ready) {
      Session session{segment_};
      Semaphore pool{session, "pool", {.capacity = 4}};
      Lock lock{session, "busy"};
      const HolderId me{"worker " + std::to_string(n)};
      for (int round = 0;; ++round) {
        if (pool.try_acquire(me, 2)) (void)pool.release(me);
        if (lock.try_acquire(me)) (void)lock.release(me);
        if (round == 100) testing::say(ready, 'r');
      }
    }));
  }
  for (const auto& child : children) ASSERT_EQ(child->next(), 'r');
  for (int n = 0; n < 50; ++n) {
    save_snapshot(segment_, file_);
    const SavedState state = saved();  // which refuses what cannot be
    for (const auto& name : state.names) {
      std::uint64_t used = 0;
      for (const auto& hold : name.holders) used += hold.weight;
      ASSERT_LE(used, name.kind == engine::Kind::semaphore ? 4U : 1U) << name.name;
    }
  }
}

TEST_F(SegmentSnapshot, OfSeveralWhoSaveTheFileSaysNoLessThanTheSegment) {
  std::vector<std::unique_ptr<Child>> children;
  for (int n = 0; n < 3; ++n) {
    children.push_back(std::make_unique<Child>([this](int ready) {
      Session session{segment_};
      Lock lock{session, "l"};
      for (int round = 0; round < 40; ++round) {
        lock.lock();
        // As if much had happened in between, so that what they reserve differs.
        engine::Word64& floor = header(segment_).token_floor;
        RealPolicy::store(floor, RealPolicy::load(floor) + 1'000'000);
        lock.unlock();
        save_snapshot(segment_, file_);
      }
      testing::say(ready, 'd');
    }));
  }
  for (const auto& child : children) ASSERT_EQ(child->next(), 'd');
  EXPECT_GE(saved().token_reserved, RealPolicy::load(header(segment_).token_reserved));
}

}  // namespace
}  // namespace shmcoord
