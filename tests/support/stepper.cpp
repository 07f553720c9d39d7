#include "support/stepper.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace shmcoord::test {

void operation_begins() noexcept { asm volatile("" ::: "memory"); }
void operation_ends() noexcept { asm volatile("" ::: "memory"); }

#if defined(__x86_64__)

namespace {

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(std::string("stepping: ") + what + ": " + std::strerror(errno));
}

long request(int what, pid_t pid, std::uintptr_t address = 0, std::uintptr_t data = 0) {
  return ::ptrace(static_cast<__ptrace_request>(what), pid, reinterpret_cast<void*>(address),
                  reinterpret_cast<void*>(data));
}

constexpr std::uintptr_t rip = offsetof(user, regs.rip);
constexpr std::uintptr_t call_number = offsetof(user, regs.orig_rax);

bool is_wait(long call) { return call == SYS_futex || call == SYS_futex_waitv; }

// Is the thread asleep in a wait? The kernel shows the call of a thread that does not run.
bool sleeps(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/syscall";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[32] = {};
  const ssize_t n = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  return n > 0 && text[0] >= '0' && text[0] <= '9' && is_wait(std::atol(text));
}

std::uint64_t own_text(std::uintptr_t address) {
  std::uint64_t word = 0;
  std::memcpy(&word, reinterpret_cast<const void*>(address), sizeof word);
  return word;
}

}  // namespace

/// Stops the child, and it alone, at an address.
class Stepper::Breakpoint {
 public:
  Breakpoint(pid_t pid, std::uintptr_t address) : pid_(pid), address_(address), text_(own_text(address)) { set(); }
  ~Breakpoint() { unset(); }
  Breakpoint(const Breakpoint&) = delete;
  Breakpoint& operator=(const Breakpoint&) = delete;
  void set() const {
    if (request(PTRACE_POKETEXT, pid_, address_, (text_ & ~std::uint64_t{0xff}) | 0xcc) != 0) fail("breakpoint");
  }
  void unset() const noexcept { request(PTRACE_POKETEXT, pid_, address_, text_); }
  /// Did it stop here? Then as if the breakpoint had not been.
  [[nodiscard]] bool hit(std::uintptr_t at) const {
    if (at != address_ + 1) return false;
    if (request(PTRACE_POKEUSER, pid_, rip, address_) != 0) fail("set rip");
    return true;
  }

 private:
  pid_t pid_;
  std::uintptr_t address_;
  std::uint64_t text_;
};

std::string Stepper::refused() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0) ::raise(SIGSTOP);
    ::_exit(errno);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (WIFEXITED(status)) return std::string("ptrace is refused here: ") + std::strerror(WEXITSTATUS(status));
  const bool steps = request(PTRACE_SINGLESTEP, pid) == 0 && ::waitpid(pid, &status, 0) == pid && WIFSTOPPED(status);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, &status, 0);
  return steps ? "" : "this machine has no single steps";
}

Stepper::Stepper(pid_t pid, pid_t still) : pid_(pid) {
  if (request(PTRACE_SEIZE, pid, 0, PTRACE_O_EXITKILL) != 0) fail("seize");
  if (request(PTRACE_INTERRUPT, pid) != 0) fail("interrupt");
  if (await(false) != State::stopped) fail("stop");
  if (still != 0) hold(still);
}

// Interrupted in its sleep and not with a mutex in its hands, which would stop the stepped thread for ever.
void Stepper::hold(pid_t thread) {
  if (request(PTRACE_SEIZE, thread, 0, PTRACE_O_EXITKILL) != 0) fail("seize the keeper");
  still_ = thread;
  for (;;) {
    int status = 0;
    if (request(PTRACE_INTERRUPT, thread) != 0) fail("interrupt the keeper");
    if (::waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status)) fail("stop the keeper");
    if (is_wait(request(PTRACE_PEEKUSER, thread, call_number))) return;
    if (request(PTRACE_CONT, thread) != 0) fail("continue the keeper");
    ::usleep(200);
  }
}

Stepper::~Stepper() { kill(); }

bool Stepper::begin(const std::function<void()>& go) {
  const Breakpoint here(pid_, reinterpret_cast<std::uintptr_t>(&operation_begins));
  go();
  for (;;) {
    const State state = resume(PTRACE_CONT);
    if (state != State::stopped) return false;
    if (here.hit(at_)) break;
  }
  at_ -= 1;
  return true;
}

Stepper::State Stepper::resume(int what) {
  const bool may_sleep = what != PTRACE_SINGLESTEP || at_system_call();
  if (request(what, pid_, 0, static_cast<std::uintptr_t>(signal_)) != 0) fail("resume");
  signal_ = 0;
  return await(may_sleep);
}

Stepper::State Stepper::await(bool may_sleep) {
  int status = 0;
  bool told = false;
  for (int looks = 0; may_sleep; ++looks) {
    const pid_t got = ::waitpid(pid_, &status, WNOHANG | __WALL);
    if (got == pid_) return stopped_with(status);
    if (got < 0) fail("wait");
    if (looks < 100) {
      ::sched_yield();
      continue;
    }
    ::usleep(50);
    if (!told && sleeps(pid_)) {
      told = true;
      if (!on_asleep()) return State::asleep;
    }
  }
  while (::waitpid(pid_, &status, __WALL) != pid_) {
    if (errno != EINTR) fail("wait");
  }
  return stopped_with(status);
}

Stepper::State Stepper::stopped_with(int status) {
  if (!WIFSTOPPED(status)) {
    traced_ = false;
    return State::dead;
  }
  if (WSTOPSIG(status) != SIGTRAP) signal_ = WSTOPSIG(status);
  errno = 0;
  at_ = static_cast<std::uintptr_t>(request(PTRACE_PEEKUSER, pid_, rip));
  if (errno != 0) fail("where it is");
  return State::stopped;
}

Stepper::State Stepper::step() {
  const State state = resume(PTRACE_SINGLESTEP);
  if (state == State::stopped && at_ == reinterpret_cast<std::uintptr_t>(&operation_ends)) return State::ended;
  return state;
}

Stepper::State Stepper::run_to(std::uintptr_t address, std::uint64_t time) {
  const Breakpoint end(pid_, reinterpret_cast<std::uintptr_t>(&operation_ends));
  const Breakpoint there(pid_, address);
  for (;;) {
    State state = resume(PTRACE_CONT);
    if (state != State::stopped) return state;
    if (end.hit(at_)) return State::ended;
    if (!there.hit(at_)) continue;
    at_ = address;
    if (--time == 0) return State::stopped;
    there.unset();
    state = resume(PTRACE_SINGLESTEP);
    if (state != State::stopped) return state;
    there.set();
  }
}

bool Stepper::at_system_call() const noexcept {
  std::uint16_t two = 0;
  if (at_ != 0) std::memcpy(&two, reinterpret_cast<const void*>(at_), sizeof two);
  return two == 0x050f;
}

void Stepper::let_go() noexcept {
  if (!traced_) return;
  traced_ = false;
  request(PTRACE_DETACH, pid_, 0, static_cast<std::uintptr_t>(signal_));
  if (still_ != 0) request(PTRACE_DETACH, still_);
}

#else

std::string Stepper::refused() { return "single steps are known only on x86-64"; }
Stepper::Stepper(pid_t pid, pid_t) : pid_(pid) {}
Stepper::~Stepper() = default;
bool Stepper::begin(const std::function<void()>&) { return false; }
Stepper::State Stepper::step() { return State::dead; }
Stepper::State Stepper::run_to(std::uintptr_t, std::uint64_t) { return State::dead; }
bool Stepper::at_system_call() const noexcept { return false; }
void Stepper::let_go() noexcept {}

#endif

void Stepper::kill() noexcept {
  if (!traced_) return;
  traced_ = false;
  ::kill(pid_, SIGKILL);
  // A traced thread is not gone, and so its process is not, before its tracer knows.
  int status = 0;
  while (still_ != 0 && ::waitpid(still_, &status, __WALL) == still_ && WIFSTOPPED(status)) {
  }
}

// --- images ----------------------------------------------------------------------------------------------------------

SegmentImage::SegmentImage(const engine::Mapping& mapping) : mapping_(mapping), bytes_(mapping.view().geo.total) {
  copy_pages();
}

void SegmentImage::look_for_pages() {
  pages_.clear();
  const engine::View& view = mapping_.view();
  for (std::uint64_t p = 0; p < view.geo.total / engine::page_size; ++p) {
    if (view.pages_exist(p * engine::page_size, 1)) pages_.push_back(p);
  }
}

void SegmentImage::copy_pages() {
  look_for_pages();
  for (const std::uint64_t p : pages_) {
    std::memcpy(bytes_.data() + p * engine::page_size, mapping_.view().base + p * engine::page_size, engine::page_size);
  }
}

bool SegmentImage::changed() {
  const auto same = [&] {
    for (const std::uint64_t p : pages_) {  // the bitmap, which knows of new ones, is one of them
      const std::uint64_t at = p * engine::page_size;
      if (std::memcmp(bytes_.data() + at, mapping_.view().base + at, engine::page_size) != 0) return false;
    }
    return true;
  };
  if (same()) return false;
  do copy_pages();
  while (!same());
  return true;
}

std::uint64_t SegmentImage::hash() const noexcept {
  std::uint64_t sum = pages_.size();
  for (const std::uint64_t p : pages_) {
    const std::string_view page(reinterpret_cast<const char*>(bytes_.data()) + p * engine::page_size,
                                engine::page_size);
    sum = (sum ^ std::hash<std::string_view>{}(page)) * 0x9e3779b97f4a7c15U + p;
  }
  return sum;
}

SegmentCopy::SegmentCopy(const SegmentImage& image) {
  static int count = 0;
  name_ = "test-" + std::to_string(::getpid()) + "-copy-" + std::to_string(++count);
  const std::string path = "/dev/shm/shmcoord." + name_;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) throw std::runtime_error(path + ": " + std::strerror(errno));
  bool good = ::ftruncate(fd, static_cast<off_t>(image.bytes().size())) == 0;
  for (const std::uint64_t p : image.pages()) {
    const auto at = static_cast<off_t>(p * engine::page_size);
    good = good && ::pwrite(fd, image.bytes().data() + at, engine::page_size, at) == engine::page_size;
  }
  ::close(fd);  // before the first lock on it
  if (good) mapping_ = engine::Mapping::open(name_);
  if (!mapping_) {
    ::unlink(path.c_str());
    throw std::runtime_error(path + " cannot be written");
  }
}

SegmentCopy::~SegmentCopy() {
  try {
    engine::Mapping::remove(name_);
  } catch (const std::exception&) {
    ::unlink(mapping_->path().c_str());
  }
}

void SegmentCopy::die(pid_t pid) const {
  using engine::RealPolicy;
  for (engine::SlotIndex s = 1; view().has_slot(s); ++s) {
    if (!view().slot_exists(s)) continue;
    engine::SessionSlot& slot = view().slot(s);
    const std::uint32_t life = RealPolicy::load(slot.life);
    const bool holds = (life & engine::life_tid_mask) != 0 && (life & engine::life_died) == 0;
    if (RealPolicy::get(slot.pid) != pid || !holds) continue;
    RealPolicy::store(slot.life, (life & engine::life_waiters) | engine::life_died);
  }
}

}  // namespace shmcoord::test
