#include "shmcoord/bench_board.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

namespace shmcoord::tool {

using engine::RealPolicy;

void BenchBoard::fail(const std::exception& why) noexcept {
  if (!RealPolicy::cas(failing, 0, 1)) return;
  const auto* const error = dynamic_cast<const Error*>(&why);
  errc = error == nullptr ? -1 : static_cast<int>(error->errc());
  std::snprintf(text.data(), text.size(), "%s", why.what());
  RealPolicy::store(failed, 1);
}

void BenchBoard::rethrow(const std::string& where) const {
  if (RealPolicy::load(failed) == 0) return;
  if (errc >= 0) throw Error(static_cast<Errc>(errc), where + text.data());
  throw std::runtime_error(where + text.data());
}

pid_t start_child(BenchBoard& board, const std::function<void()>& body) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw Error(Errc::system, std::string("no process can be made: ") + std::strerror(errno));
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  try {
    body();
  } catch (const std::exception& e) {
    board.fail(e);
    ::_exit(1);
  }
  ::_exit(0);
}

}  // namespace shmcoord::tool
