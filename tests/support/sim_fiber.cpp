#include "support/sim_fiber.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SHMCOORD_SIM_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define SHMCOORD_SIM_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SHMCOORD_SIM_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define SHMCOORD_SIM_TSAN 1
#endif

#if defined(SHMCOORD_SIM_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(SHMCOORD_SIM_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

#if !defined(__x86_64__)
#error "the fiber switch is written for x86-64, as the engine's 16-byte compare-and-swap is"
#endif

extern "C" void shmcoord_sim_switch(void** save, void* load);

// Saves what a called function must preserve, and returns into the other stack.
asm(R"(
.text
.p2align 4
.globl shmcoord_sim_switch
.hidden shmcoord_sim_switch
.type shmcoord_sim_switch,@function
shmcoord_sim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size shmcoord_sim_switch,.-shmcoord_sim_switch
)");

namespace shmcoord::sim {

namespace {

constexpr std::size_t guard_bytes = 4096;
constexpr std::size_t stack_bytes = 256 * 1024;

thread_local Fiber* arriving = nullptr;  // where the switch under way leads
thread_local Fiber* leaving = nullptr;

}  // namespace

Fiber::~Fiber() {
#if defined(SHMCOORD_SIM_TSAN)
  if (stack_ != nullptr && tsan_fiber_ != nullptr) __tsan_destroy_fiber(tsan_fiber_);
#endif
  if (stack_ != nullptr) ::munmap(stack_, guard_bytes + stack_bytes);
}

void Fiber::start(Entry entry) {
  if (stack_ == nullptr) {
    stack_ = ::mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack_ == MAP_FAILED) throw std::bad_alloc();
    ::mprotect(stack_, guard_bytes, PROT_NONE);
    bottom_ = static_cast<std::byte*>(stack_) + guard_bytes;
    bytes_ = stack_bytes;
  }
#if defined(SHMCOORD_SIM_ASAN)
  // The frames of an abandoned run left their red zones behind.
  __asan_unpoison_memory_region(static_cast<std::byte*>(stack_) + guard_bytes, stack_bytes);
  fake_stack_ = nullptr;
#endif
#if defined(SHMCOORD_SIM_TSAN)
  if (tsan_fiber_ != nullptr) __tsan_destroy_fiber(tsan_fiber_);
  tsan_fiber_ = __tsan_create_fiber(0);
#endif
  entry_ = entry;
  // As shmcoord_sim_switch leaves a stack: six registers, then where to return to, with the alignment of a called
  // function.
  auto* top = reinterpret_cast<std::uintptr_t*>(static_cast<std::byte*>(stack_) + guard_bytes + stack_bytes);
  *--top = 0;
  *--top = reinterpret_cast<std::uintptr_t>(&Fiber::enter);
  for (int i = 0; i < 6; ++i) *--top = 0;
  stack_pointer_ = top;
}

void Fiber::enter() {
  arriving->arrived(nullptr);
  arriving->entry_();
  std::abort();  // an entry does not return
}

void Fiber::jump(Fiber& from, Fiber& to, [[maybe_unused]] bool for_good) {
  leaving = &from;
  arriving = &to;
#if defined(SHMCOORD_SIM_TSAN)
  if (from.stack_ == nullptr) from.tsan_fiber_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.tsan_fiber_, 0);
#endif
#if defined(SHMCOORD_SIM_ASAN)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &from.fake_stack_, to.bottom_, to.bytes_);
#endif
  shmcoord_sim_switch(&from.stack_pointer_, to.stack_pointer_);
  from.arrived(from.fake_stack_);
}

void Fiber::arrived([[maybe_unused]] void* fake_stack) {
#if defined(SHMCOORD_SIM_ASAN)
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
  if (leaving->stack_ == nullptr) {
    leaving->bottom_ = bottom;
    leaving->bytes_ = bytes;
  }
#endif
}

}  // namespace shmcoord::sim
