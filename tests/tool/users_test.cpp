#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "support/tool.hpp"

// One segment and several users: whoever owns a segment can fake everything in it, so its owner must be trusted.

namespace shmcoord::test {
namespace {

class Users : public ToolTest {
 protected:
  Users() : ToolTest(SHMCOORD_TOOL_PATH) {}
  void SetUp() override {
    if (::geteuid() != 0 || as_owner("--version") != 0) GTEST_SKIP() << "needs root, and setpriv: several users";
    ASSERT_EQ(as_owner("segment create --mode 0666"), 0);
  }

  int shell(const std::string& script) {
    const Finished f = start_shell(script)->wait();
    said_ = f.out + f.err;
    return f.code();
  }
  int as(const std::string& user, const std::string& arguments) {
    return shell("exec setpriv --reuid " + user + " --regid " + user + " --clear-groups $SHMCOORD " + arguments);
  }
  int as_owner(const std::string& arguments) { return as("65534", arguments); }
  int as_other(const std::string& arguments) { return as("65533", arguments); }
  [[nodiscard]] bool said(const std::string& text) const { return said_.find(text) != std::string::npos; }

  std::string said_;
};

TEST_F(Users, WhoIsNotTrustedIsRefusedAndTheRefusalSaysHowToTrust) {
  for (const char* const command : {"inspect", "reap --once", "run -l x -- true", "lock acquire x --holder me",
                                    "lock status x", "segment info", "segment check", "segment remove"}) {
    EXPECT_EQ(as_other(command), 69) << command << said_;
    EXPECT_TRUE(said("--trust 65534")) << command << said_;
    EXPECT_EQ(as("0", command), 69) << command << said_;
  }
  EXPECT_EQ(as_owner("run -n -l x -- true"), 0) << said_;
}

TEST_F(Users, AUserWhoIsTrustedSharesHisLocks) {
  for (const char* const trusted : {"65534", "nobody"}) {
    const std::string trust = std::string("--trust ") + trusted + " ";
    EXPECT_EQ(as_owner("lock acquire x --holder owner"), 0) << said_;
    EXPECT_EQ(as_other(trust + "run -n -l x -- true"), 1) << said_;
    EXPECT_EQ(as_other(trust + "inspect"), 0) << said_;
    EXPECT_TRUE(said("owner")) << said_;
    EXPECT_EQ(as_owner("lock release x --holder owner"), 0) << said_;
    EXPECT_EQ(as_other(trust + "run -n -l x -- true"), 0) << said_;
    EXPECT_EQ(as_other(trust + "reap --once"), 0) << said_;
    EXPECT_EQ(as_other(trust + "segment check"), 0) << said_;
  }
  EXPECT_EQ(as_other("--trust 65532 inspect"), 69) << "another one is trusted: " << said_;
}

TEST_F(Users, TheEnvironmentNamesTheTrustedUserToo) {
  EXPECT_EQ(shell("SHMCOORD_TRUST=nobody $SHMCOORD inspect"), 0) << said_;
  EXPECT_EQ(shell("SHMCOORD_TRUST= $SHMCOORD inspect"), 69) << "empty is not set: " << said_;
  // And a command within `run`.
  EXPECT_EQ(shell("$SHMCOORD --trust nobody run -l x -- $SHMCOORD lock status x"), 0) << said_;
}

TEST_F(Users, RootListsAndRemovesWhatIsAUsers) {
  EXPECT_EQ(as("0", "segment list"), 0);
  EXPECT_TRUE(said(segment_ + " ")) << said_;
  EXPECT_TRUE(said("not usable: ")) << said_;
  EXPECT_EQ(as_owner("lock acquire x --holder owner"), 0) << said_;
  EXPECT_EQ(as("0", "--trust nobody segment remove"), 1) << said_;
  EXPECT_TRUE(said("'x' is held")) << said_;
  EXPECT_EQ(as_owner("lock release x --holder owner"), 0) << said_;
  EXPECT_EQ(as("0", "--trust nobody segment remove"), 0) << said_;
  EXPECT_EQ(as_owner("inspect"), 2) << said_;
}

// After a reboot those of the group find it as it was.
TEST_F(Users, ARestoredSegmentIsOpenToItsGroup) {
  const auto group = [this] { return shell("stat -c %g /dev/shm/shmcoord.$SHMCOORD_SEGMENT"); };
  const std::string member = "setpriv --reuid 65534 --regid 65534 --groups 65500 ";
  ASSERT_EQ(shell("chmod 0777 \"$SCRATCH\""), 0);
  ASSERT_EQ(as_owner("segment remove"), 0) << said_;
  ASSERT_EQ(shell(member + "$SHMCOORD segment create --mode 0660 --group 65500"), 0) << said_;
  ASSERT_EQ(shell(member + "$SHMCOORD snapshot save \"$SCRATCH/s.json\""), 0) << said_;
  ASSERT_EQ(as_owner("segment remove"), 0) << said_;
  ASSERT_EQ(shell(member + "$SHMCOORD snapshot restore \"$SCRATCH/s.json\""), 0) << said_;
  EXPECT_FALSE(said("group")) << said_;
  EXPECT_EQ(group(), 0);
  EXPECT_TRUE(said("65500")) << said_;
  ASSERT_EQ(as_owner("segment remove"), 0) << said_;
  ASSERT_EQ(as_owner("snapshot restore \"$SCRATCH/s.json\""), 0) << said_;
  EXPECT_TRUE(said("open to group 65500, which you are not in")) << said_;
  EXPECT_EQ(group(), 0);
  EXPECT_TRUE(said("65534")) << said_;
}

// In a directory like /tmp only its owner may replace a file.
TEST_F(Users, WhoRestoresWhatIsAnothersIsToldThatItIsWrittenAnew) {
  ASSERT_EQ(shell("mkdir $SCRATCH/d && chmod 0755 $SCRATCH && chmod 01777 $SCRATCH/d"), 0);
  ASSERT_EQ(as_owner("snapshot save $SCRATCH/d/s.json"), 0) << said_;
  ASSERT_EQ(shell("chmod 0644 $SCRATCH/d/s.json"), 0);
  ASSERT_EQ(as_owner("segment remove"), 0) << said_;
  EXPECT_EQ(as_other("snapshot restore $SCRATCH/d/s.json"), 69);
  EXPECT_TRUE(said("renaming it: Operation not permitted; restoring writes the snapshot anew")) << said_;
  EXPECT_EQ(as_owner("inspect"), 2) << "nothing was made";
  EXPECT_EQ(as_owner("snapshot restore $SCRATCH/d/s.json"), 0) << said_;
}

TEST_F(Users, AWrongUserIsAUsageError) {
  for (const char* const wrong : {"nobody-of-that-name", "-1", "4294967295", "65534x", "''"}) {
    EXPECT_EQ(shell(std::string("$SHMCOORD --trust ") + wrong + " inspect"), 64) << wrong << said_;
  }
  EXPECT_EQ(shell("SHMCOORD_TRUST=nobody-of-that-name $SHMCOORD inspect"), 64) << said_;
  EXPECT_TRUE(said("SHMCOORD_TRUST: no user 'nobody-of-that-name' in /etc/passwd")) << said_;
}

}  // namespace
}  // namespace shmcoord::test
