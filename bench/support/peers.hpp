#pragma once

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/support/cases.hpp"
#include "bench/support/comparison.hpp"
#include "bench/support/options.hpp"
#include "bench/support/process_mutex.hpp"
#include "bench/support/processes.hpp"
#include "process/face.hpp"

// What nearly every case uses.

namespace shmcoord::bench {

/// Of this case.
inline std::string segment_name() { return scratch_name("main"); }
inline Segment& segment() {
  static Segment s = Segment::open_or_create(segment_name());
  return s;
}

/// How long one takes of n.
template <class Body>
double each_ns(int n, Body&& body) {
  const std::int64_t start = now_ns();
  for (int i = 0; i < n; ++i) body();
  return static_cast<double>(now_ns() - start) / n;
}

inline pthread_mutex_t& robust_mutex() {
  pthread_mutex_t& m = shared<pthread_mutex_t>();
  make_process_mutex(m, true);
  return m;
}

}  // namespace shmcoord::bench
