#include <git2.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/time_left.hpp"
#include "base/printable.hpp"
#include "shmcoord/adapters.hpp"

// A git repository, through libgit2.
//
// Problem: the answers must be those of the moment, and several threads ask at once, but an object of libgit2 is of one
// thread and remembers what it read. So each call opens the repository anew, which costs a few reads of small files,
// and nothing is shared: no mutex, no cache.
//
// A work tree is compared as `git status` does, but without ever writing its index, and with an end: the comparison
// stops at the first change that it finds, and at the deadline. If we die here, nothing was changed.

namespace shmcoord::adapters {
namespace {

namespace fs = std::filesystem;

template <class T, void (*release)(T*)>
struct Owned {
  Owned() = default;
  ~Owned() { release(value); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T* value = nullptr;
};
using Repository = Owned<::git_repository, git_repository_free>;
using Reference = Owned<git_reference, git_reference_free>;
using Object = Owned<git_object, git_object_free>;
using Commit = Owned<git_commit, git_commit_free>;
using Index = Owned<git_index, git_index_free>;
using Diff = Owned<git_diff, git_diff_free>;
using Worktree = Owned<git_worktree, git_worktree_free>;

struct Buffer {
  Buffer() = default;
  ~Buffer() { ::git_buf_dispose(&value); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  git_buf value{};
};

std::string in_quotes(std::string_view text) { return "'" + base::printable(text) + "'"; }

// What libgit2 said of the last call of this thread.
std::string said() {
  const git_error* const error = ::git_error_last();
  if (error == nullptr || error->message == nullptr) return "git gives no reason";
  return base::shortened(error->message, 300);
}

void check(int result, const std::string& what) {
  if (result < 0) throw std::runtime_error(what + ": " + said());
}

void open(Repository& repository, const std::string& path) {
  const int result = ::git_repository_open_ext(&repository.value, path.c_str(), 0, nullptr);
  // libgit2 1.5 says "not found" of one that it refuses, where the user has no settings that could name it.
  Buffer found;
  const bool is_there =
      result == GIT_ENOTFOUND && ::git_repository_discover(&found.value, path.c_str(), 0, nullptr) == 0;
  if (result == GIT_ENOTFOUND && !is_there) throw std::runtime_error("not a git repository: " + in_quotes(path));
  if (result == GIT_EOWNER || is_there) {
    throw std::runtime_error("the repository " + in_quotes(path) +
                             " is of another owner, and git's safe.directory does not name it");
  }
  check(result, "the repository " + in_quotes(path) + " cannot be opened");
}

// A reference by its full name, followed to what it means; false: there is none, or it leads to none.
bool look_up(::git_repository* repository, const std::string& name, Reference& found) {
  Reference first;
  int result = ::git_reference_lookup(&first.value, repository, name.c_str());
  if (result == 0) result = ::git_reference_resolve(&found.value, first.value);
  if (result == GIT_ENOTFOUND || result == GIT_EINVALIDSPEC) return false;
  check(result, in_quotes(name) + " cannot be read");
  return true;
}

// A local branch before a remote-tracking one.
bool find_branch(::git_repository* repository, const std::string& branch, Reference& found) {
  if (branch.empty() || branch.find('\0') != std::string::npos) return false;
  if (branch.starts_with("refs/")) return look_up(repository, branch, found);
  return look_up(repository, "refs/heads/" + branch, found) || look_up(repository, "refs/remotes/" + branch, found);
}

void need_branch(::git_repository* repository, const std::string& branch, Reference& found) {
  if (!find_branch(repository, branch, found)) throw std::runtime_error("there is no branch " + in_quotes(branch));
}

git_oid commit_of(const std::string& branch, const Reference& reference) {
  Object commit;
  check(::git_reference_peel(&commit.value, reference.value, GIT_OBJECT_COMMIT),
        "branch " + in_quotes(branch) + " leads to no commit");
  return *::git_object_id(commit.value);
}

// Is it among the ancestors, in a history that is cut off? libgit2's own search gives up at the cut, or takes it for
// the beginning; this one goes on, and tells "no" from "what there is does not tell". A shallow history is short.
bool reaches(::git_repository* repository, const git_oid& from, const git_oid& ancestor,
             const GuardDeadline& deadline) {
  const auto less = [](const git_oid& a, const git_oid& b) { return ::git_oid_cmp(&a, &b) < 0; };
  std::set<git_oid, decltype(less)> seen(less);
  std::vector<git_oid> next{from};
  bool is_cut = false;
  while (!next.empty()) {
    check_time(deadline);
    const git_oid id = next.back();
    next.pop_back();
    Commit commit;
    const int result = ::git_commit_lookup(&commit.value, repository, &id);
    if (result == GIT_ENOTFOUND) {
      is_cut = true;
      continue;
    }
    check(result, "the history cannot be read");
    for (unsigned n = 0; n < ::git_commit_parentcount(commit.value); ++n) {
      const git_oid& parent = *::git_commit_parent_id(commit.value, n);
      if (::git_oid_equal(&parent, &ancestor) != 0) return true;
      if (seen.insert(parent).second) next.push_back(parent);
    }
  }
  if (!is_cut) return false;
  throw std::runtime_error("the history is cut off (a shallow clone), and what there is does not tell");
}

// --- where a branch is checked out ----------------------------------------------------------------------------------

// While a rebase is under way, HEAD is detached and this file tells whose it is.
bool rebases(::git_repository* repository, std::string_view reference) {
  for (const char* const state : {"rebase-merge", "rebase-apply"}) {
    std::ifstream file(fs::path(::git_repository_path(repository)) / state / "head-name");
    std::string name;
    if (std::getline(file, name) && name == reference) return true;
  }
  return false;
}

bool is_checked_out(::git_repository* repository, const std::string& reference) {
  Reference head;
  check(::git_reference_lookup(&head.value, repository, "HEAD"), "HEAD cannot be read");
  const char* const target = ::git_reference_symbolic_target(head.value);
  return target != nullptr ? reference == target : rebases(repository, reference);
}

// --- what is not committed ------------------------------------------------------------------------------------------

// One comparison, with what its callbacks share. They are called from C and do not throw.
struct Comparison {
  const GuardDeadline& deadline;
  git_index* index;
  bool changed = false;
  bool out_of_time = false;

  // A file that is left out of a sparse work tree on purpose is not one that was removed.
  [[nodiscard]] bool is_left_out(const git_diff_delta& delta) const {
    if (delta.status != GIT_DELTA_DELETED) return false;
    const git_index_entry* const entry = ::git_index_get_bypath(index, delta.old_file.path, 0);
    return entry != nullptr && (entry->flags_extended & GIT_INDEX_ENTRY_SKIP_WORKTREE) != 0;
  }

  static int on_delta(const git_diff* /*diff*/, const git_diff_delta* delta, const char* /*pathspec*/, void* self) {
    auto& comparison = *static_cast<Comparison*>(self);
    if (comparison.is_left_out(*delta)) return 1;  // go on without it
    comparison.changed = true;
    return GIT_EUSER;
  }
  static int on_progress(const git_diff* /*diff*/, const char* /*from*/, const char* /*to*/, void* self) {
    auto& comparison = *static_cast<Comparison*>(self);
    if (!is_over(comparison.deadline)) return 0;
    comparison.out_of_time = true;
    return GIT_EUSER;
  }

  /// True: something differs.
  template <class Compare>
  bool differs(const std::string& where, const Compare& compare) {
    git_diff_options options{};
    check(::git_diff_options_init(&options, GIT_DIFF_OPTIONS_VERSION), "libgit2 cannot be used");
    // File by file: a directory is told of before it is known whether there is anything in it that counts.
    options.flags = GIT_DIFF_INCLUDE_UNTRACKED | GIT_DIFF_RECURSE_UNTRACKED_DIRS | GIT_DIFF_INCLUDE_TYPECHANGE;
    options.notify_cb = on_delta;
    options.progress_cb = on_progress;
    options.payload = this;
    Diff diff;
    const int result = compare(&diff.value, &options);
    if (changed) return true;
    if (out_of_time) throw_over(deadline);
    check(result, "the work tree " + in_quotes(where) + " cannot be compared");
    return false;
  }
};

bool has_changes(::git_repository* repository, const GuardDeadline& deadline) {
  const std::string where = ::git_repository_workdir(repository);
  Reference head;
  check(::git_repository_head(&head.value, repository), "HEAD cannot be read");
  Object tree;
  check(::git_reference_peel(&tree.value, head.value, GIT_OBJECT_TREE), "HEAD has no tree");
  Index index;
  check(::git_repository_index(&index.value, repository), "the index cannot be read");
  if (::git_index_has_conflicts(index.value) != 0) return true;
  // A cast that libgit2 documents: the object was asked for as a tree.
  auto* const head_tree = reinterpret_cast<git_tree*>(tree.value);
  Comparison comparison{deadline, index.value};
  return comparison.differs(where, [&](git_diff** diff, const git_diff_options* options) {
    return ::git_diff_tree_to_index(diff, repository, head_tree, index.value, options);
  }) || comparison.differs(where, [&](git_diff** diff, const git_diff_options* options) {
    return ::git_diff_index_to_workdir(diff, repository, index.value, options);
  });
}

struct Names {
  Names() = default;
  ~Names() { ::git_strarray_dispose(&list); }
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;
  git_strarray list{};
};

// A linked worktree; false: its directory is gone for good, so nothing in it is uncommitted.
bool open_worktree(::git_repository* repository, const char* name, Repository& opened) {
  Worktree worktree;
  check(::git_worktree_lookup(&worktree.value, repository, name), "worktree " + in_quotes(name) + " cannot be read");
  const char* const path = ::git_worktree_path(worktree.value);
  if (::git_worktree_validate(worktree.value) < 0) {
    std::error_code error;
    const bool gone = !fs::exists(path, error) && !error;
    if (gone && ::git_worktree_is_locked(nullptr, worktree.value) == 0) return false;
    throw std::runtime_error("the worktree " + in_quotes(path) + " cannot be looked at" +
                             (gone ? ": it is locked, and not there" : ": " + said()));
  }
  // By its path, and not by git_repository_open_from_worktree: that one does not look at the owner.
  open(opened, path);
  return true;
}

class GitRepository final : public GuardRepository {
 public:
  explicit GitRepository(std::string path) : path_(std::move(path)) {
    check(::git_libgit2_init(), "libgit2 cannot be used");
  }
  ~GitRepository() override { ::git_libgit2_shutdown(); }
  GitRepository(const GitRepository&) = delete;
  GitRepository& operator=(const GitRepository&) = delete;

  bool branch_exists(const std::string& branch, const GuardDeadline& deadline) override {
    Repository repository;
    begin(repository, deadline);
    Reference found;
    return find_branch(repository.value, branch, found);
  }

  bool is_clean(const std::string& branch, const GuardDeadline& deadline) override {
    Repository repository;
    begin(repository, deadline);
    Reference found;
    need_branch(repository.value, branch, found);
    const std::string reference = ::git_reference_name(found.value);
    Repository main;
    open_main(repository.value, main);
    if (::git_repository_is_bare(main.value) == 0 && is_checked_out(main.value, reference) &&
        has_changes(main.value, deadline)) {
      return false;
    }
    Names names;
    check(::git_worktree_list(&names.list, repository.value), "the worktrees cannot be listed");
    for (std::size_t i = 0; i < names.list.count; ++i) {
      check_time(deadline);
      Repository linked;
      if (open_worktree(repository.value, names.list.strings[i], linked) && is_checked_out(linked.value, reference) &&
          has_changes(linked.value, deadline)) {
        return false;
      }
    }
    return true;
  }

  bool is_merged(const std::string& branch, const std::string& into, const GuardDeadline& deadline) override {
    Repository repository;
    begin(repository, deadline);
    Reference from;
    Reference to;
    need_branch(repository.value, branch, from);
    need_branch(repository.value, into, to);
    const git_oid tip = commit_of(branch, from);
    const git_oid into_tip = commit_of(into, to);
    if (::git_oid_equal(&tip, &into_tip) != 0) return true;
    if (::git_repository_is_shallow(repository.value) == 1) {
      return reaches(repository.value, into_tip, tip, deadline);
    }
    const int result = ::git_graph_descendant_of(repository.value, &into_tip, &tip);
    check(result, "the history cannot be read");
    return result == 1;
  }

 private:
  void begin(Repository& repository, const GuardDeadline& deadline) const {
    check_time(deadline);
    if (path_.empty() || path_.find('\0') != std::string::npos) {
      throw std::runtime_error("not a git repository: " + in_quotes(path_));
    }
    open(repository, path_);
  }

  // The repository that all its worktrees share.
  static void open_main(::git_repository* repository, Repository& main) {
    const char* const path = ::git_repository_commondir(repository);
    check(::git_repository_open(&main.value, path), "the repository " + in_quotes(path) + " cannot be opened");
  }

  std::string path_;
};

}  // namespace

std::shared_ptr<GuardRepository> git_repository(std::string path) {
  return std::make_shared<GitRepository>(std::move(path));
}

}  // namespace shmcoord::adapters
