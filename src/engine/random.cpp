#include "engine/random.hpp"

#include <sys/random.h>

#include <cerrno>
#include <exception>
#include <random>
#include <string>

#include "shmcoord/error.hpp"

namespace shmcoord::engine {
namespace {

std::uint64_t without_getrandom() {
  try {
    std::random_device device;
    std::uint64_t word = 0;
    while (word == 0) word = std::uint64_t{device()} << 32U | device();
    return word;
  } catch (const std::exception& e) {
    throw Error(Errc::system, std::string("no random numbers: getrandom is refused, and ") + e.what());
  }
}

}  // namespace

std::uint64_t random_word() {
  for (;;) {
    std::uint64_t word = 0;
    const ssize_t got = ::getrandom(&word, sizeof word, 0);
    if (got < 0 && errno != EINTR) return without_getrandom();
    if (got == static_cast<ssize_t>(sizeof word) && word != 0) return word;
  }
}

}  // namespace shmcoord::engine
