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

}  // namespace
}  // namespace shmcoord
