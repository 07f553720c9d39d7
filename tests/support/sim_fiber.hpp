#pragma once

#include <cstddef>

// A stack that can be switched to, and abandoned.
//
// Problem: the scheduler runs some hundred thousand schedules a second, each with a handful of tasks, and a task must
// be able to *die* between two instructions: simply never run again, without its stack being unwound, as a killed
// process does. Boost.Context's public fiber unwinds by an exception, which a noexcept engine function turns into
// terminate(); swapcontext makes two system calls per switch. So this is the bare switch of callee-saved registers,
// annotated for the sanitizers.
//
// A fiber's entry never returns. start() makes it fresh whatever it was doing before; what its frames owned is
// forgotten (objects that live across a scheduling point should own nothing).

namespace shmcoord::sim {

class Fiber {
 public:
  using Entry = void (*)();

  Fiber() = default;  // the caller's own stack
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  /// The next switch to this fiber calls `entry` on an empty stack.
  void start(Entry entry);

  /// Leaves `from`, the running fiber, and goes on in `to`. `for_good`: `from` is not resumed before it is started
  /// anew.
  static void jump(Fiber& from, Fiber& to, bool for_good);

 private:
  static void enter();
  void arrived(void* from_fake_stack);

  void* stack_pointer_ = nullptr;
  void* stack_ = nullptr;                          // mapping with a guard page below; null: not ours
  [[maybe_unused]] const void* bottom_ = nullptr;  // for AddressSanitizer
  std::size_t bytes_ = 0;
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] void* tsan_fiber_ = nullptr;
  Entry entry_ = nullptr;
};

}  // namespace shmcoord::sim
