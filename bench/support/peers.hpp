#pragma once

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "engine/real_policy.hpp"

// What the comparisons share: memory between processes, children, medians.

namespace shmcoord::bench {

inline std::int64_t now_ns() { return engine::RealPolicy::now_ns(); }

/// Zeroed memory that forked children share.
template <class T>
T& shared() {
  void* const p = ::mmap(nullptr, std::max<std::size_t>(sizeof(T), 4096), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) std::abort();
  return *static_cast<T*>(p);
}

inline pthread_mutex_t& robust_mutex() {
  pthread_mutex_t& m = shared<pthread_mutex_t>();
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&m, &a);
  return m;
}

inline pid_t child(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(0);
  }
  return pid;
}

inline void join(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid || (WIFEXITED(status) && WEXITSTATUS(status) != 0)) {
    std::fprintf(stderr, "a child of the benchmark failed\n");
    std::exit(1);
  }
}

inline double at(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[static_cast<std::size_t>(q * static_cast<double>(v.size() - 1) + 0.5)];
}

/// A plain figure with its spread. `target`: at most that; 0: for the picture only.
inline void report(const std::string& name, const std::string& unit, const std::vector<double>& values, double target) {
  std::printf("%s: %.3f %s [%.3f – %.3f], median [p10 – p90] of %zu", name.c_str(), at(values, 0.5), unit.c_str(),
              at(values, 0.1), at(values, 0.9), values.size());
  if (target > 0) std::printf("  target %.0f: %s", target, at(values, 0.5) <= target ? "met" : "MISSED");
  std::printf("\n");
  std::fflush(stdout);
}

/// One thing measured beside its peers: round by round in turn, so that whatever else the machine does hits all alike.
class Comparison {
 public:
  using Measure = std::function<double()>;  // one round; any unit, smaller is better

  Comparison(std::string name, std::string unit, int rounds)
      : name_(std::move(name)), unit_(std::move(unit)), rounds_(rounds) {}

  void ours(Measure m) { measures_.insert(measures_.begin(), {"shmcoord", 0, std::move(m)}); }
  /// `target`: ours should take at most that many times as long; 0: for the picture only.
  void peer(std::string name, double target, Measure m) {
    measures_.push_back({std::move(name), target, std::move(m)});
  }

  void run() const {
    std::vector<std::vector<double>> times(measures_.size());
    for (int r = 0; r < rounds_; ++r) {
      for (std::size_t i = 0; i < measures_.size(); ++i) times[i].push_back(measures_[i].run());
    }
    std::printf("%s (%s, median [p10 – p90] of %d rounds)\n", name_.c_str(), unit_.c_str(), rounds_);
    for (std::size_t i = 0; i < measures_.size(); ++i) {
      std::printf("  %-34s %10.1f [%.1f – %.1f]", measures_[i].name.c_str(), at(times[i], 0.5), at(times[i], 0.1),
                  at(times[i], 0.9));
      if (i > 0) {
        std::vector<double> ratios;
        for (int r = 0; r < rounds_; ++r) {
          ratios.push_back(times[0][static_cast<std::size_t>(r)] / times[i][static_cast<std::size_t>(r)]);
        }
        std::printf("   ours / this = %.2f [%.2f – %.2f]", at(ratios, 0.5), at(ratios, 0.1), at(ratios, 0.9));
        if (measures_[i].target > 0) {
          std::printf("  target %.2f: %s", measures_[i].target,
                      at(ratios, 0.5) <= measures_[i].target ? "met" : "MISSED");
        }
      }
      std::printf("\n");
    }
    std::fflush(stdout);
  }

 private:
  struct Entry {
    std::string name;
    double target;
    Measure run;
  };
  std::string name_;
  std::string unit_;
  int rounds_;
  std::vector<Entry> measures_;
};

}  // namespace shmcoord::bench
