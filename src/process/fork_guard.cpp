#include "process/fork_guard.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include "engine/layout.hpp"
#include "engine/random.hpp"
#include "engine/real_policy.hpp"

namespace shmcoord::process {

using engine::RealPolicy;
using engine::Word64;

namespace {

Word64& number_word();

// Where the kernel cannot wipe the page (before 4.14), the C library's fork does it; a raw clone() is then not noticed.
void wipe_in_child() { RealPolicy::store(number_word(), 0); }

Word64* make_word() noexcept {
  void* const page = ::mmap(nullptr, engine::page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  static Word64 fallback;
  const bool wiped = page != MAP_FAILED && ::madvise(page, engine::page_size, MADV_WIPEONFORK) == 0;
  if (!wiped) ::pthread_atfork(nullptr, nullptr, wipe_in_child);
  return page == MAP_FAILED ? &fallback : static_cast<Word64*>(page);
}

Word64& number_word() {
  static Word64* const word = make_word();
  return *word;
}

}  // namespace

std::uint64_t process_number() {
  Word64& word = number_word();
  if (RealPolicy::load(word) == 0) RealPolicy::cas(word, 0, engine::random_word());
  return RealPolicy::load(word);
}

const Word64& process_word() { return number_word(); }

bool same_process(std::uint64_t number) noexcept { return RealPolicy::load(number_word()) == number; }

}  // namespace shmcoord::process
