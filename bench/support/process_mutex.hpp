#pragma once

#include <pthread.h>

namespace shmcoord::bench {

/// Makes one of what lies in memory that processes share.
inline void make_process_mutex(pthread_mutex_t& mutex, bool robust) {
  pthread_mutexattr_t a;
  ::pthread_mutexattr_init(&a);
  ::pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
  if (robust) ::pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&mutex, &a);
  ::pthread_mutexattr_destroy(&a);
}

}  // namespace shmcoord::bench
