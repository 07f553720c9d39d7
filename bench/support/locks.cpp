#include "bench/support/locks.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <optional>

#include <boost/interprocess/sync/interprocess_mutex.hpp>
#include <boost/interprocess/sync/interprocess_semaphore.hpp>
#include <boost/interprocess/sync/named_mutex.hpp>

#include "bench/support/peers.hpp"
#include "bench/support/process_mutex.hpp"

namespace shmcoord::bench {
namespace {

using engine::RealPolicy;
using engine::WaitOn;
using engine::Word32;
namespace ipc = boost::interprocess;

/// A peer that does not lock what it says it locks would be the fastest of all.
void must(bool ok, const char* what) {
  if (!ok) fail(what);
}

/// Loops that call Self directly.
template <class Self>
class Peer : public LockPeer {
 public:
  explicit Peer(std::string name) : name_(std::move(name)) {}
  [[nodiscard]] std::string name() const final { return name_; }
  double pairs(int n) final {
    auto& self = static_cast<Self&>(*this);
    return each_ns(n, [&] {
      self.Self::lock();
      self.Self::unlock();
    });
  }
  double shared_pairs(int n) final {
    auto& self = static_cast<Self&>(*this);
    return each_ns(n, [&] {
      self.Self::lock_shared();
      self.Self::unlock_shared();
    });
  }
  double refused_tries(int n) final {
    auto& self = static_cast<Self&>(*this);
    return each_ns(n, [&] { must(!self.Self::try_lock(), "a lock that is held was got again"); });
  }

 private:
  std::string name_;
};

// --- ours ------------------------------------------------------------------------------------------------------------

template <class Handle>
class Ours final : public Peer<Ours<Handle>> {
 public:
  explicit Ours(std::string name) : Peer<Ours>("shmcoord"), lock_name_(std::move(name)) { (void)segment(); }
  // What the parent may have entered is not the child's to leave.
  void enter() override {
    auto* const s = new Session{segment()};
    handle_ = new Handle{*s, lock_name_};
  }
  void lock() override { handle_->lock(); }
  void unlock() override { handle_->unlock(); }
  bool try_lock() override { return handle_->try_lock(); }
  void lock_shared() override {
    if constexpr (shares) handle_->lock_shared();
  }
  void unlock_shared() override {
    if constexpr (shares) handle_->unlock_shared();
  }
  [[nodiscard]] bool can_be_shared() const override { return shares; }

 private:
  static constexpr bool shares = std::is_same_v<Handle, SharedLock>;
  std::string lock_name_;
  Handle* handle_ = nullptr;
};

class OurPermit final : public Peer<OurPermit> {
 public:
  explicit OurPermit(std::string name) : Peer("shmcoord"), pool_name_(std::move(name)) { (void)segment(); }
  void enter() override {
    auto* const s = new Session{segment()};
    pool_ = new Semaphore{*s, pool_name_, {.capacity = 1}};
  }
  void lock() override { permit_.emplace(*pool_); }
  void unlock() override { permit_.reset(); }
  bool try_lock() override {
    Permit got(*pool_, 1, std::try_to_lock);
    const bool held = static_cast<bool>(got);
    if (held) permit_.emplace(std::move(got));
    return held;
  }

 private:
  std::string pool_name_;
  Semaphore* pool_ = nullptr;
  std::optional<Permit> permit_;
};

// --- POSIX threads ---------------------------------------------------------------------------------------------------

class PthreadMutex final : public Peer<PthreadMutex> {
 public:
  explicit PthreadMutex(bool robust) : Peer(robust ? "robust process-shared mutex" : "process-shared mutex") {
    make_process_mutex(mutex_, robust);
  }
  ~PthreadMutex() override { ::munmap(&mutex_, 4096); }
  void lock() override { got(::pthread_mutex_lock(&mutex_)); }
  void unlock() override { ::pthread_mutex_unlock(&mutex_); }
  bool try_lock() override {
    const int r = ::pthread_mutex_trylock(&mutex_);
    return r != EBUSY && got(r);
  }

 private:
  bool got(int r) {
    if (r == EOWNERDEAD) ::pthread_mutex_consistent(&mutex_);
    return r == 0 || r == EOWNERDEAD;
  }
  pthread_mutex_t& mutex_ = shared<pthread_mutex_t>();
};

class PthreadRwlock final : public Peer<PthreadRwlock> {
 public:
  PthreadRwlock() : Peer("process-shared pthread_rwlock") {
    pthread_rwlockattr_t a;
    ::pthread_rwlockattr_init(&a);
    ::pthread_rwlockattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    must(::pthread_rwlock_init(&lock_, &a) == 0, "no process-shared rwlock can be made");
  }
  ~PthreadRwlock() override { ::munmap(&lock_, 4096); }
  void lock() override { ::pthread_rwlock_wrlock(&lock_); }
  void unlock() override { ::pthread_rwlock_unlock(&lock_); }
  bool try_lock() override { return ::pthread_rwlock_trywrlock(&lock_) == 0; }
  void lock_shared() override { ::pthread_rwlock_rdlock(&lock_); }
  [[nodiscard]] bool can_be_shared() const override { return true; }

 private:
  pthread_rwlock_t& lock_ = shared<pthread_rwlock_t>();
};

// --- semaphores ------------------------------------------------------------------------------------------------------

class PosixSemaphore final : public Peer<PosixSemaphore> {
 public:
  PosixSemaphore() : Peer("sem_t") { must(::sem_init(&semaphore_, 1, 1) == 0, "no sem_t can be made"); }
  ~PosixSemaphore() override { ::munmap(&semaphore_, 4096); }
  void lock() override {
    while (::sem_wait(&semaphore_) != 0) {
    }
  }
  void unlock() override { ::sem_post(&semaphore_); }
  bool try_lock() override { return ::sem_trywait(&semaphore_) == 0; }

 private:
  sem_t& semaphore_ = shared<sem_t>();
};

class SysvSemaphore final : public Peer<SysvSemaphore> {
 public:
  SysvSemaphore() : Peer("SysV semop with SEM_UNDO"), id_(::semget(IPC_PRIVATE, 1, 0600)) {
    remove_at_end(id_);
    must(::semctl(id_, 0, SETVAL, 1) == 0, "no SysV semaphore can be set");
  }
  void lock() override {
    while (!change(-1, SEM_UNDO)) must(errno == EINTR, "semop failed");
  }
  void unlock() override { must(change(1, SEM_UNDO), "semop failed"); }
  bool try_lock() override { return change(-1, SEM_UNDO | IPC_NOWAIT); }

 private:
  bool change(short by, int flags) {
    sembuf operation{0, by, static_cast<short>(flags)};
    return ::semop(id_, &operation, 1) == 0;
  }
  int id_;
};

class EventFd final : public Peer<EventFd> {
 public:
  EventFd() : Peer("eventfd, EFD_SEMAPHORE"), fd_(::eventfd(1, EFD_SEMAPHORE | EFD_CLOEXEC)) {
    must(fd_ >= 0, "no eventfd can be made");
  }
  ~EventFd() override { ::close(fd_); }
  void lock() override {
    std::uint64_t one = 0;
    while (::read(fd_, &one, sizeof one) != sizeof one) must(errno == EINTR, "reading an eventfd failed");
  }
  void unlock() override {
    const std::uint64_t one = 1;
    must(::write(fd_, &one, sizeof one) == sizeof one, "writing an eventfd failed");
  }
  // Its own try would need another description of the file; two who try at once could both go on to lock().
  bool try_lock() override {
    pollfd there{fd_, POLLIN, 0};
    if (::poll(&there, 1, 0) <= 0) return false;
    lock();
    return true;
  }

 private:
  int fd_;
};

// --- files -----------------------------------------------------------------------------------------------------------

/// A descriptor for each process, for locks belong to the open file.
template <class Self>
class FileLock : public Peer<Self> {
 public:
  FileLock(std::string name, const char* file) : Peer<Self>(std::move(name)), path_(scratch_path(file)) {}
  ~FileLock() override {
    if (fd_ >= 0) ::close(fd_);
    ::unlink(path_.c_str());
  }
  void enter() override {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must(fd_ >= 0, "no file can be made in /dev/shm");
  }
  [[nodiscard]] bool can_be_shared() const override { return true; }

 protected:
  [[nodiscard]] int fd() const { return fd_; }

 private:
  std::string path_;
  int fd_ = -1;
};

class Flock final : public FileLock<Flock> {
 public:
  Flock() : FileLock("flock", "flock") {}
  void lock() override { get(LOCK_EX); }
  void unlock() override { ::flock(fd(), LOCK_UN); }
  bool try_lock() override { return ::flock(fd(), LOCK_EX | LOCK_NB) == 0; }
  void lock_shared() override { get(LOCK_SH); }

 private:
  void get(int how) {
    while (::flock(fd(), how) != 0) must(errno == EINTR, "flock failed");
  }
};

class Ofd final : public FileLock<Ofd> {
 public:
  Ofd() : FileLock("OFD lock", "ofd") {}
  void lock() override { get(F_WRLCK); }
  void unlock() override { change(F_OFD_SETLK, F_UNLCK); }
  bool try_lock() override { return change(F_OFD_SETLK, F_WRLCK); }
  void lock_shared() override { get(F_RDLCK); }

 private:
  bool change(int command, int type) {
    struct flock range {};
    range.l_type = static_cast<short>(type);
    range.l_whence = SEEK_SET;
    return ::fcntl(fd(), command, &range) == 0;
  }
  void get(int type) {
    while (!change(F_OFD_SETLKW, type)) must(errno == EINTR, "an OFD lock failed");
  }
};

// --- Boost.Interprocess ----------------------------------------------------------------------------------------------

class BoostMutex final : public Peer<BoostMutex> {
 public:
  BoostMutex() : Peer("Boost interprocess_mutex") {}
  ~BoostMutex() override { ::munmap(mutex_, 4096); }
  void lock() override { mutex_->lock(); }
  void unlock() override { mutex_->unlock(); }
  bool try_lock() override { return mutex_->try_lock(); }

 private:
  ipc::interprocess_mutex* mutex_ = new (shared_bytes(4096)) ipc::interprocess_mutex;
};

class BoostNamedMutex final : public Peer<BoostNamedMutex> {
 public:
  BoostNamedMutex()
      : Peer("Boost named_mutex"), called_(scratch_name("boost")), mutex_(ipc::open_or_create, called_.c_str()) {}
  ~BoostNamedMutex() override { ipc::named_mutex::remove(called_.c_str()); }
  void lock() override { mutex_.lock(); }
  void unlock() override { mutex_.unlock(); }
  bool try_lock() override { return mutex_.try_lock(); }

 private:
  std::string called_;
  ipc::named_mutex mutex_;
};

class BoostSemaphore final : public Peer<BoostSemaphore> {
 public:
  BoostSemaphore() : Peer("Boost interprocess_semaphore") {}
  ~BoostSemaphore() override { ::munmap(semaphore_, 4096); }
  void lock() override { semaphore_->wait(); }
  void unlock() override { semaphore_->post(); }
  bool try_lock() override { return semaphore_->try_wait(); }

 private:
  ipc::interprocess_semaphore* semaphore_ = new (shared_bytes(4096)) ipc::interprocess_semaphore(1);
};

// --- the limits ------------------------------------------------------------------------------------------------------

/// 0: free, 1: held, 2: held, and somebody may sleep. Those who wait sleep on so many words.
class BareFutex final : public Peer<BareFutex> {
 public:
  explicit BareFutex(std::size_t words) : Peer(words == 1 ? "bare futex" : "bare futex_waitv of two"), words_(words) {}
  ~BareFutex() override { ::munmap(&state_, 4096); }
  void lock() override {
    if (RealPolicy::cas(state_.lock, 0, 1)) return;
    while (__atomic_exchange_n(&state_.lock.raw, 2U, __ATOMIC_SEQ_CST) != 0) {
      const WaitOn on[] = {{&state_.lock, 2}, {&state_.other, 0}};
      RealPolicy::wait({on, words_}, now_ns() + 1'000'000'000);
    }
  }
  void unlock() override {
    if (__atomic_exchange_n(&state_.lock.raw, 0U, __ATOMIC_SEQ_CST) == 2) RealPolicy::wake(state_.lock, 1);
  }
  bool try_lock() override { return RealPolicy::cas(state_.lock, 0, 1); }

 private:
  struct State {
    Word32 lock;
    alignas(64) Word32 other;
  };
  State& state_ = shared<State>();
  std::size_t words_;
};

class BareAtomic final : public Peer<BareAtomic> {
 public:
  BareAtomic() : Peer("bare atomic") {}
  ~BareAtomic() override { ::munmap(&word_, 4096); }
  void lock() override {
    while (!RealPolicy::cas(word_, 0, 1)) {
      while (RealPolicy::load(word_) != 0) RealPolicy::pause();
    }
  }
  void unlock() override { RealPolicy::store(word_, 0); }
  bool try_lock() override { return RealPolicy::cas(word_, 0, 1); }
  [[nodiscard]] bool only_spins() const override { return true; }

 private:
  Word32& word_ = shared<Word32>();
};

// What a lock costs that is one word of 16 bytes and knows since when it is held, and does nothing else.
class BareWideWord final : public Peer<BareWideWord> {
 public:
  BareWideWord() : Peer("two bare CAS of 16 bytes, a coarse clock") {}
  ~BareWideWord() override { ::munmap(&state_, 4096); }
  void lock() override {
    while (!try_lock()) RealPolicy::pause();
  }
  void unlock() override {
    const std::uint64_t seq = RealPolicy::load_seq(state_.word);
    RealPolicy::cas(state_.word, core::Packed{seq, 1}, core::Packed{seq + 1, 0});
  }
  bool try_lock() override {
    const std::uint64_t seq = RealPolicy::load_seq(state_.word);
    RealPolicy::store(state_.since_ns, static_cast<std::uint64_t>(RealPolicy::coarse_now_ns()));
    return RealPolicy::cas(state_.word, core::Packed{seq, 0}, core::Packed{seq + 1, 1});
  }
  [[nodiscard]] bool only_spins() const override { return true; }

 private:
  struct State {
    engine::Word128 word;
    alignas(64) engine::Word64 since_ns;
  };
  State& state_ = shared<State>();
};

class TicketLock final : public Peer<TicketLock> {
 public:
  TicketLock() : Peer("FIFO ticket lock, each on its own futex") {}
  ~TicketLock() override { ::munmap(&state_, sizeof state_); }
  void lock() override {
    ticket_ = RealPolicy::add(state_.next, 1);
    Word32& turn = state_.place[ticket_ % places].turn;
    for (int spin = 0; spin < 100 && RealPolicy::load(turn) != ticket_; ++spin) RealPolicy::pause();
    for (std::uint32_t seen = RealPolicy::load(turn); seen != ticket_; seen = RealPolicy::load(turn)) {
      const WaitOn on{&turn, seen};
      RealPolicy::wait({&on, 1}, now_ns() + 1'000'000'000);
    }
  }
  void unlock() override {
    Word32& turn = state_.place[(ticket_ + 1) % places].turn;
    RealPolicy::store(turn, ticket_ + 1);
    RealPolicy::fence();
    if (RealPolicy::load(state_.next) != ticket_ + 1) RealPolicy::wake(turn, 1);
  }
  bool try_lock() override {
    const std::uint32_t next = RealPolicy::load(state_.next);
    if (RealPolicy::load(state_.place[next % places].turn) != next) return false;
    if (!RealPolicy::cas(state_.next, next, next + 1)) return false;
    ticket_ = next;
    return true;
  }

 private:
  static constexpr std::uint32_t places = 64;
  struct alignas(64) Place {
    Word32 turn;  // the ticket that is served here
  };
  struct State {
    alignas(64) Word32 next;
    std::array<Place, places> place;
  };
  State& state_ = shared<State>();
  std::uint32_t ticket_ = 0;  // of this process
};

}  // namespace

std::unique_ptr<LockPeer> our_lock(const std::string& name) { return std::make_unique<Ours<Lock>>(name); }
std::unique_ptr<LockPeer> our_shared_lock(const std::string& name) { return std::make_unique<Ours<SharedLock>>(name); }
std::unique_ptr<LockPeer> our_permit(const std::string& name) { return std::make_unique<OurPermit>(name); }
std::unique_ptr<LockPeer> bare_wide_word() { return std::make_unique<BareWideWord>(); }
std::unique_ptr<LockPeer> ticket_lock() { return std::make_unique<TicketLock>(); }
std::unique_ptr<LockPeer> flock_lock() { return std::make_unique<Flock>(); }
std::unique_ptr<LockPeer> ofd_lock() { return std::make_unique<Ofd>(); }
std::unique_ptr<LockPeer> robust_lock() { return std::make_unique<PthreadMutex>(true); }
std::unique_ptr<LockPeer> sysv_lock() { return std::make_unique<SysvSemaphore>(); }

std::vector<std::unique_ptr<LockPeer>> lock_peers() {
  std::vector<std::unique_ptr<LockPeer>> all;
  all.push_back(robust_lock());
  all.push_back(std::make_unique<PthreadMutex>(false));
  all.push_back(std::make_unique<PthreadRwlock>());
  all.push_back(std::make_unique<PosixSemaphore>());
  all.push_back(sysv_lock());
  all.push_back(flock_lock());
  all.push_back(ofd_lock());
  all.push_back(std::make_unique<BoostMutex>());
  all.push_back(std::make_unique<BoostNamedMutex>());
  all.push_back(std::make_unique<BoostSemaphore>());
  all.push_back(std::make_unique<EventFd>());
  all.push_back(std::make_unique<BareFutex>(1));
  all.push_back(std::make_unique<BareFutex>(2));
  all.push_back(std::make_unique<BareAtomic>());
  return all;
}

int pairs_in(LockPeer& peer, double seconds) {
  peer.pairs(200);  // maps pages
  return std::clamp(static_cast<int>(seconds * 1e9 / peer.pairs(200)), 10, 200'000);
}

}  // namespace shmcoord::bench
