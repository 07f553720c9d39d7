#pragma once

#include <pthread.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>

#include "engine/real_policy.hpp"

// Processes that measure, and what they share.
//
// Whatever a case makes outside of itself is found again by the runner when the case is over, however it ended: its
// processes are the runner's descendants, its files in /dev/shm have names of scratch_name(), its SysV semaphores are
// noted down. A process that fails says so at once, for others may wait for it.

namespace shmcoord::bench {

inline std::int64_t now_ns() { return engine::RealPolicy::now_ns(); }

/// Zeroed memory that forked children share.
inline void* shared_bytes(std::size_t bytes) {
  void* const p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) std::abort();
  return p;
}
template <class T>
T& shared() {
  return *static_cast<T*>(shared_bytes(sizeof(T) < 4096 ? 4096 : sizeof(T)));
}

/// The same for a number of them, unmapped at the end of the scope.
template <class T>
class SharedArray {
 public:
  explicit SharedArray(std::size_t count) : data_(static_cast<T*>(shared_bytes(count * sizeof(T)))), count_(count) {}
  ~SharedArray() { ::munmap(data_, count_ * sizeof(T)); }
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;

  T& operator[](std::size_t i) { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + count_; }
  [[nodiscard]] std::size_t size() const { return count_; }

 private:
  T* data_;
  std::size_t count_;
};

/// Ends the whole case: one line for people, and the runner ends all processes of the case.
[[noreturn]] void fail(const std::string& why);

/// Runs `body` in a process of its own, which ends with its parent.
pid_t child(const std::function<void()>& body);
/// Waits for its end, which must be a good one.
void join(pid_t pid);
/// Of all, in any order: those that are left may wait for ever for one that was killed.
void join_all(std::span<const pid_t> pids);
/// Until `ready()`, which those processes bring about: none of them may end before.
void await(std::span<const pid_t> pids, const std::function<bool()>& ready);
/// Kills it and waits for that.
void end_child(pid_t pid);

/// How many CPUs this process may run on.
std::size_t allowed_cpus();
/// To the nth of those CPUs that the case was given, counted round. Says if there was one.
bool pin_to(std::size_t nth, pthread_t thread = ::pthread_self());

/// The name of a segment, or of a file in /dev/shm, of this run: it is removed when the case is over.
std::string scratch_name(const std::string& what);
std::string scratch_path(const std::string& what);
/// Likewise for a set of SysV semaphores.
void remove_at_end(int semaphores);

/// The runner's side of all that.
struct Surroundings {
  pid_t runner = 0;
  int results = -1;  // a pipe: one line of JSON per result
  int failed = -1;   // an eventfd
};
void prepare_runner();
/// In the process of a case, before it begins.
void enter_case(int results, int failed);
[[nodiscard]] const Surroundings& surroundings();
/// Removes what has a scratch name and what was noted down; no process uses it any more.
void remove_leftovers();

}  // namespace shmcoord::bench
