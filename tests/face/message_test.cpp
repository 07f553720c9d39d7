#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "support/face_fixture.hpp"

// What exceptions say: one line that names what is wrong and says what to do.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;

class MessageFace : public testing::FaceTest {
 protected:
  /// what() of the Error with that code; anything else fails the test.
  static std::string text_of(Errc code, const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& e) {
      EXPECT_EQ(e.errc(), code) << e.what();
      return e.what();
    }
    ADD_FAILURE() << "no exception";
    return {};
  }
};

TEST_F(MessageFace, ABadNameIsShownEscaped) {
  Session session{segment_};
  Lock lock{session, "x"};
  const auto bad_name = [&](const std::function<void()>& call) { return text_of(Errc::invalid_argument, call); };
  EXPECT_EQ(bad_name([&] { Lock{session, "a\nb"}; }), "the lock name 'a\\nb' contains a control character");
  EXPECT_EQ(bad_name([&] { SharedLock{session, "\x1b[2J"}; }), "the lock name '\\x1b[2J' contains a control character");
  EXPECT_EQ(bad_name([&] {
              Semaphore{session, "a\xff", {.capacity = 1}};
            }),
            "the semaphore name 'a\\xff' is not valid UTF-8");
  const HolderId bad{"a\tb"};
  const std::string of_holder = "the holder id 'a\\tb' contains a control character";
  EXPECT_EQ(bad_name([&] { (void)lock.try_acquire(bad); }), of_holder);
  EXPECT_EQ(bad_name([&] { (void)lock.heartbeat(bad); }), of_holder);
  EXPECT_EQ(bad_name([&] { (void)lock.release(bad); }), of_holder);
  const std::string long_one = bad_name([&] { Lock{session, std::string(63, 'n') + std::string(100, '\xe9') + "\n"}; });
  EXPECT_EQ(long_one, "the lock name '" + std::string(63, 'n') + "\\xe9…' is not valid UTF-8");
  // Segments: by name and by path.
  EXPECT_EQ(bad_name([] { Segment::open("a\nb"); }), "segment name contains a control character");
  EXPECT_EQ(bad_name([] { Segment::open("/tmp/a\nb/"); }),
            "segment path \"/tmp/a\\nb/\" ends with a slash: it names a directory");
  const std::string missing = text_of(Errc::segment_not_found, [] { Segment::open("./no\x1bsuch"); });
  EXPECT_NE(missing.find("no\\x1bsuch"), std::string::npos) << missing;
}

TEST_F(MessageFace, TooMuchSaysWhatToDo) {
  Session session{segment_};
  Semaphore agents{session, "agents", {.capacity = 4}};
  const std::string plain =
      "semaphore 'agents' has a capacity of 4, less than the 5 asked for; ask for less, or give it more (`sem resize`)";
  EXPECT_EQ(text_of(Errc::invalid_argument, [&] { Permit{agents, 5}; }), plain);
  EXPECT_EQ(text_of(Errc::invalid_argument, [&] { (void)agents.wait_fd(HolderId{"a"}, 5); }), plain);
  Semaphore quota{session, "quota", {.per_session = 2}};
  EXPECT_EQ(text_of(Errc::invalid_argument,
                    [&] {
                      Permit{quota, 3};
                    }),
            "semaphore 'quota' has a capacity of 2 (2 for each session that joins), less than the 3 asked for; ask for "
            "less, or again when more sessions have joined");
}

TEST_F(MessageFace, WhatIsNotThereSaysWhatToDo) {
  Session session{segment_};
  EXPECT_EQ(text_of(Errc::not_found,
                    [&] {
                      Semaphore{session, "agents"};
                    }),
            "no semaphore 'agents' in segment " + name_ +
                "; create it first, with its capacity: `shmcoord sem create agents --capacity N`");
  EXPECT_EQ(
      text_of(Errc::not_found, [&] { Lock::remove(session, "x"); }),
      "no lock 'x' in segment " + name_ + "; who acquires it makes it, `shmcoord inspect` lists those that there are");
  Semaphore gone{session, "gone", {.capacity = 1}};
  Semaphore::remove(session, "gone");
  EXPECT_EQ(text_of(Errc::not_found, [&] { (void)gone.capacity(); }),
            "semaphore 'gone' was removed; create it again, or open it with its capacity, and then acquire it");
  std::error_code code;
  EXPECT_FALSE(Semaphore::attach(session, "agents", {}, code));
  EXPECT_NE(code.message().find("create it first"), std::string::npos) << code.message();
}

TEST_F(MessageFace, WhatWasRemovedUnderAWaiterSaysWhatToDo) {
  Session session{segment_};
  Lock lock{session, "x"};
  Semaphore agents{session, "agents", {.capacity = 1}};
  ASSERT_TRUE(lock.try_acquire(HolderId{"a"}));
  ASSERT_TRUE(agents.try_acquire(HolderId{"a"}));
  std::string of_lock;
  std::string of_semaphore;
  std::thread for_lock{[&] { of_lock = text_of(Errc::name_removed, [&] { (void)lock.acquire(HolderId{"b"}); }); }};
  std::thread for_semaphore{
      [&] { of_semaphore = text_of(Errc::name_removed, [&] { (void)agents.acquire(HolderId{"b"}); }); }};
  until_waiting(2);
  Lock::remove(session, "x", true);
  Semaphore::remove(session, "agents", true);
  for_lock.join();
  for_semaphore.join();
  EXPECT_EQ(of_lock, "lock 'x' was removed while it was waited for; acquire it again to make it anew");
  EXPECT_EQ(
      of_semaphore,
      "semaphore 'agents' was removed while it was waited for; create it again, or open it with its capacity, and "
      "then acquire it");
  EXPECT_NE(make_error_code(Errc::name_removed).message().find("acquire it again"), std::string::npos);
}

}  // namespace
}  // namespace shmcoord
