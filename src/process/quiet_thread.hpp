#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace shmcoord::process {

/// A thread of ours that gets none of the program's signals.
template <class Body>
std::jthread quiet_thread(Body&& body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::jthread thread(std::forward<Body>(body));
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace shmcoord::process
