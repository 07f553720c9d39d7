#include <sys/types.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "adapters/scratch.hpp"
#include "shmcoord/adapters.hpp"

namespace shmcoord::test {
namespace {

using namespace std::chrono_literals;

// Real repositories, made by git itself, without the settings of whoever runs the test.
class Git : public ScratchTest {
 protected:
  Git() {
    fs::create_directory(path("home"));
    ::setenv("HOME", path("home").c_str(), 1);
    ::setenv("XDG_CONFIG_HOME", path("home").c_str(), 1);
    ::setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
    for (const char* const who : {"AUTHOR", "COMMITTER"}) {
      ::setenv(("GIT_" + std::string(who) + "_NAME").c_str(), "a", 1);
      ::setenv(("GIT_" + std::string(who) + "_EMAIL").c_str(), "a@b", 1);
    }
    repository_ = at("");
  }

  void sh(const std::string& script) const {
    const std::string line = "cd '" + scratch_.string() + "' && { " + script + "; } >log 2>&1";
    ASSERT_EQ(std::system(line.c_str()), 0) << script << "\n" << read("log");  // NOLINT(cert-env33-c)
  }
  /// main with two commits and `old` at the first; `fix` is one commit ahead of main.
  void make_repository() const {
    sh("git init -q -b main repo && cd repo && echo one >file && echo '*.o' >.gitignore && git add . && "
       "git commit -qm one && git branch old && echo two >file && git commit -qam two && git checkout -qb fix && "
       "echo three >file && git commit -qam three && git checkout -q main");
  }
  [[nodiscard]] std::shared_ptr<GuardRepository> at(const std::string& name) const {
    return adapters::git_repository(path(name.empty() ? "repo" : name));
  }
  bool exists(const std::string& branch) { return repository_->branch_exists(branch, patient()); }
  bool clean(const std::string& branch) { return repository_->is_clean(branch, patient()); }
  bool merged(const std::string& branch, const std::string& into) {
    return repository_->is_merged(branch, into, patient());
  }

  std::shared_ptr<GuardRepository> repository_;
};

TEST_F(Git, BranchesAreLocalRemoteTrackingOrFullNames) {
  make_repository();
  sh("git clone -q repo copy && cd copy && git branch both && git update-ref refs/remotes/origin/gone HEAD && "
     "git update-ref refs/heads/origin/local HEAD && git tag v1");
  repository_ = at("copy");
  for (const char* const branch : {"main", "both", "origin/main", "origin/fix", "origin/local", "origin/HEAD",
                                   "refs/heads/main", "refs/remotes/origin/fix", "refs/tags/v1"}) {
    EXPECT_TRUE(exists(branch)) << branch;
  }
  for (const char* const branch : {"fix", "v1", "HEAD", "origin", "origin/none", "refs/heads/fix", "a..b", " ", "",
                                   "-x", "refs/", "main/x", "ma", "MAIN", "main^", "../config"}) {
    EXPECT_FALSE(exists(branch)) << branch;
  }
  EXPECT_FALSE(exists(std::string("main\0x", 6)));
  sh("cd copy && git branch -q late && git pack-refs --all && test ! -e .git/refs/heads/late");
  EXPECT_TRUE(exists("late"));
  EXPECT_TRUE(exists("origin/fix"));
  sh("cd copy && git branch -qD late");  // seen at once
  EXPECT_FALSE(exists("late"));
}

TEST_F(Git, AnyPathInItWillDo) {
  make_repository();
  sh("mkdir -p repo/a/b && git clone -q --bare repo bare.git && git -C repo worktree add -q ../linked old");
  for (const char* const name : {"repo", "repo/a/b", "repo/.git", "bare.git", "bare.git/refs", "linked"}) {
    EXPECT_TRUE(at(name)->branch_exists("fix", patient())) << name;
    EXPECT_TRUE(at(name)->is_clean("fix", patient())) << name;
    EXPECT_TRUE(at(name)->is_merged("old", "fix", patient())) << name;
  }
}

TEST_F(Git, MergedIsWhoseTipIsInTheOther) {
  make_repository();
  EXPECT_TRUE(merged("old", "main"));
  EXPECT_TRUE(merged("main", "main"));
  EXPECT_TRUE(merged("main", "fix"));
  EXPECT_FALSE(merged("fix", "main"));
  EXPECT_FALSE(merged("main", "old"));
  sh("cd repo && git checkout -q main && git merge -q --no-ff -m merge fix");
  EXPECT_TRUE(merged("fix", "main"));
  sh("cd repo && git checkout -q --orphan alone && git commit -qm alone && git checkout -q main");
  EXPECT_FALSE(merged("alone", "main"));
  EXPECT_EQ(reason([&] { return merged("none", "main"); }), "there is no branch 'none'");
  EXPECT_EQ(reason([&] { return merged("main", "n\none"); }), "there is no branch 'n\\none'");
  sh("cd repo && git update-ref refs/tags/tree 'main^{tree}'");
  EXPECT_EQ(reason([&] { return merged("refs/tags/tree", "main"); }).find("branch 'refs/tags/tree' leads to no commit"),
            0U);
}

TEST_F(Git, AShallowHistoryIsNotKnown) {
  make_repository();
  sh("cd repo && for i in 1 2; do echo $i >file && git commit -qam $i; done");
  sh("git clone -q --depth 1 --no-single-branch file://" + path("repo") + " shallow");
  repository_ = at("shallow");
  EXPECT_TRUE(merged("main", "origin/main"));
  EXPECT_EQ(reason([&] { return merged("origin/old", "main"); }),
            "the history is cut off (a shallow clone), and what there is does not tell");
  // A cut that lies elsewhere does no harm.
  sh("cd shallow && git checkout -q main && for i in 3 4; do echo $i >file && git commit -qam $i; done");
  EXPECT_TRUE(merged("origin/main", "main"));
}

TEST_F(Git, CleanIsWithoutAnythingThatIsNotCommitted) {
  make_repository();
  EXPECT_TRUE(clean("main"));
  EXPECT_TRUE(clean("refs/heads/main"));
  EXPECT_TRUE(clean("fix"));  // checked out nowhere
  const struct {
    const char* what;
    const char* change;
    bool clean;
  } changes[] = {
      {"modified", "echo x >>file", false},
      {"same size", "echo abc >file", false},
      {"staged", "echo x >>file && git add file", false},
      {"staged, and back in the work tree", "echo x >>file && git add file && echo two >file", false},
      {"staged new one", "echo x >new && git add new", false},
      {"removed", "rm file", false},
      {"removed, staged", "git rm -q file", false},
      {"removed from the index", "git rm -q --cached file", false},
      {"untracked", "echo x >new", false},
      {"untracked in a directory", "mkdir -p a/b && echo x >a/b/new", false},
      {"another repository in it", "git init -q inner && echo x >inner/file", false},
      {"made executable", "chmod +x file", false},
      {"became a link", "rm file && ln -s x file", false},
      {"became a directory", "rm file && mkdir file && echo x >file/x", false},
      {"conflict",
       "git checkout -qb side old && echo s >file && git commit -qam s && git checkout -q main && "
       "! git merge side",
       false},
      {"ignored", "echo x >a.o", true},
      {"ignored in a directory", "mkdir -p d && echo x >d/a.o", true},
      {"excluded", "echo new >>.git/info/exclude && echo x >new", true},
      {"empty directory", "mkdir -p e/f", true},
      {"touched", "touch -d '2001-01-01' file", true},
      {"left out of the work tree", "git update-index --skip-worktree file && rm file", true},
  };
  for (const auto& change : changes) {
    sh("rm -rf case && cp -a repo case && cd case && " + std::string(change.change));
    repository_ = at("case");
    EXPECT_EQ(clean("main"), change.clean) << change.what;
    EXPECT_TRUE(clean("fix")) << change.what;
  }
}

TEST_F(Git, LookingChangesNothing) {
  make_repository();
  sh("cd repo && touch -d '2001-01-01' file && find . -type f -exec sha256sum {} + | sort >../before");
  EXPECT_TRUE(clean("main"));
  EXPECT_TRUE(exists("fix") && merged("main", "fix"));
  sh("cd repo && find . -type f -exec sha256sum {} + | sort >../after && cmp ../before ../after");
}

TEST_F(Git, EachWorktreeCountsForItsOwnBranch) {
  make_repository();
  sh("git -C repo worktree add -q ../linked fix && git -C repo worktree add -q --detach ../detached old");
  for (const char* const name : {"repo", "linked", "detached"}) {
    repository_ = at(name);
    EXPECT_TRUE(clean("main") && clean("fix") && clean("old")) << name;
  }
  sh("echo x >>linked/file && echo x >>detached/file");
  for (const char* const name : {"repo", "linked", "detached"}) {
    repository_ = at(name);
    EXPECT_TRUE(clean("main")) << name;
    EXPECT_FALSE(clean("fix")) << name;
    EXPECT_TRUE(clean("old")) << name;  // detached is no branch's
  }
  sh("echo x >repo/new");
  EXPECT_FALSE(at("linked")->is_clean("main", patient()));
  // One that is gone has nothing left; one that is only away, as the lock says, is not known.
  sh("rm -rf linked");
  EXPECT_TRUE(clean("fix"));
  sh("git -C repo worktree add -q --lock ../away -b away && mv away elsewhere");
  EXPECT_EQ(reason([&] { return clean("fix"); }),
            "the worktree '" + path("away") + "' cannot be looked at: it is locked, and not there");
}

TEST_F(Git, ABareOneHasOnlyItsLinkedWorktrees) {
  make_repository();
  sh("git clone -q --bare repo bare.git && git -C bare.git worktree add -q ../linked fix");
  repository_ = at("bare.git");
  EXPECT_TRUE(clean("main") && clean("fix"));
  sh("echo x >>linked/file");
  EXPECT_TRUE(clean("main"));
  EXPECT_FALSE(clean("fix"));
}

TEST_F(Git, ABranchThatIsBeingRebasedIsWhereThatHappens) {
  make_repository();
  sh("cd repo && git checkout -q main && echo other >file && git commit -qam other && git checkout -q fix && "
     "! git rebase main");
  EXPECT_FALSE(clean("fix"));
  EXPECT_TRUE(clean("main"));
  sh("cd repo && git rebase --abort");
  EXPECT_TRUE(clean("fix"));
}

TEST_F(Git, DetachedAndUnbornHeads) {
  make_repository();
  sh("cd repo && git checkout -q --detach main && echo x >>file");
  EXPECT_TRUE(clean("main"));  // checked out nowhere
  sh("git init -q -b main unborn && echo x >unborn/file");
  repository_ = at("unborn");
  EXPECT_FALSE(exists("main"));
  EXPECT_EQ(reason([&] { return clean("main"); }), "there is no branch 'main'");
}

TEST_F(Git, ARepositoryThatIsNoneOrBroken) {
  fs::create_directory(path("plain"));
  EXPECT_EQ(reason([&] { return at("plain")->branch_exists("main", patient()); }),
            "not a git repository: '" + path("plain") + "'");
  EXPECT_EQ(reason([&] { return at("absent")->branch_exists("main", patient()); }),
            "not a git repository: '" + path("absent") + "'");
  EXPECT_EQ(reason([&] { return adapters::git_repository("")->branch_exists("main", patient()); }),
            "not a git repository: ''");
  make_repository();  // one that was made later is found
  EXPECT_TRUE(exists("main"));
  write("repo/.git/refs/heads/broken", "no hash\n");
  EXPECT_EQ(reason([&] { return exists("broken"); }).find("'refs/heads/broken' cannot be read: "), 0U);
  write("repo/.git/refs/heads/circle", "ref: refs/heads/circle\n");
  EXPECT_EQ(reason([&] { return exists("circle"); }).find("'refs/heads/circle' cannot be read: "), 0U);
  write("repo/.git/refs/heads/dangling", "0123456789012345678901234567890123456789\n");
  EXPECT_EQ(reason([&] { return merged("dangling", "main"); }).find("branch 'dangling' leads to no commit: "), 0U);
  write("repo/.git/HEAD", "garbage\n");
  EXPECT_NE(reason([&] { return clean("main"); }), "no exception");
  sh("rm -rf again && git init -q again && echo '[core' >again/.git/config");
  EXPECT_NE(reason([&] { return at("again")->branch_exists("main", patient()); }).find("cannot be opened: "),
            std::string::npos);
}

TEST_F(Git, OneOfAnotherOwnerIsRefusedAsGitDoes) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  make_repository();
  sh("chown -R 12345 repo");
  EXPECT_EQ(reason([&] { return exists("main"); }),
            "the repository '" + path("repo") + "' is of another owner, and git's safe.directory does not name it");
  sh("git config --global --add safe.directory " + path("repo"));
  EXPECT_TRUE(exists("main"));
}

TEST_F(Git, TheDeadlineEndsTheWalkOfAWorkTree) {
  make_repository();
  sh("cd repo && for i in $(seq 2000); do echo $i >f$i; done && git add . && git commit -qm many");
  EXPECT_TRUE(clean("main"));
  EXPECT_EQ(reason([&] { return repository_->is_clean("main", within({})); }), "it did not end in time");
  // A walk that takes longer: all has to be read, since nothing is as old as the index says.
  sh("cd repo && truncate -s 8M big && for i in $(seq 100); do cp --sparse=always big big$i; done && git add . && "
     "git commit -qm big && touch -d '2001-01-01' big*");
  EXPECT_EQ(reason([&] { return repository_->is_clean("main", within(50ms)); }), "it did not end in time");
  // Stopped somewhere on the way: either it had come to its end before, or it says so.
  for (int round = 0; round < 20; ++round) {
    std::stop_source stop;
    std::thread stopper([&] { stop.request_stop(); });
    const std::string said = reason([&] { return repository_->is_clean("main", patient(stop.get_token())); });
    stopper.join();
    EXPECT_TRUE(said == "it was stopped" || said == "no exception") << said;
  }
}

TEST_F(Git, IsAskedFromManyThreads) {
  make_repository();
  sh("git -C repo worktree add -q ../linked fix");
  std::vector<std::thread> threads;
  for (int n = 0; n < 8; ++n) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        EXPECT_TRUE(exists("fix") && clean("main") && clean("fix") && merged("main", "fix") && !merged("fix", "main"));
        EXPECT_FALSE(at("repo")->branch_exists("none", patient()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace shmcoord::test
