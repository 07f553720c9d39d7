#include "process/byte_lock.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <compare>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "engine/real_policy.hpp"
#include "engine/segment_file.hpp"
#include "process/fork_guard.hpp"
#include "shmcoord/error.hpp"

namespace shmcoord::process {

using engine::RealPolicy;
using engine::Safety;

namespace {

struct OwnSlot {
  int fd;  // stands for the inode: one descriptor each, as long as somebody uses the segment
  SlotIndex slot;
  friend auto operator<=>(const OwnSlot&, const OwnSlot&) = default;
};

struct OwnSlots {
  std::mutex mutex;
  std::uint64_t process = process_number();
  std::set<OwnSlot> slots;  // ordered: thousands of sessions of one process are looked up by each that joins

  /// Locks are not inherited by a child that was forked.
  [[nodiscard]] bool has(const OwnSlot& one) const { return process == process_number() && slots.contains(one); }
};

OwnSlots& own_slots() {
  // Never destroyed: threads may still ask while the program ends.
  static OwnSlots* const own = [] {
    auto* const made = new OwnSlots;
    // A child that is forked while another thread holds the mutex must be able to join.
    ::pthread_atfork([] { own_slots().mutex.lock(); }, [] { own_slots().mutex.unlock(); },
                     [] { own_slots().mutex.unlock(); });
    return made;
  }();
  return *own;
}

struct flock range(short type, SlotIndex slot, off_t first, off_t bytes) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = 2 * static_cast<off_t>(slot) + first;
  lock.l_len = bytes;
  return lock;
}

int control(int fd, int command, struct flock& lock) {
  int r = 0;
  do {
    r = ::fcntl(fd, command, &lock);
  } while (r != 0 && errno == EINTR);
  return r;
}

ByteState probe(const Mapping& mapping, SlotIndex slot, off_t first, off_t bytes) {
  struct flock lock = range(F_WRLCK, slot, first, bytes);
  if (control(mapping.fd(), F_GETLK, lock) != 0) return ByteState::unknown;
  return lock.l_type == F_UNLCK ? ByteState::free : ByteState::locked;
}

}  // namespace

bool owns_slot(const Mapping& mapping, SlotIndex slot) {
  OwnSlots& own = own_slots();
  const std::lock_guard guard(own.mutex);
  return own.has({mapping.fd(), slot});
}

bool lock_slot(const Mapping& mapping, SlotIndex slot) {
  OwnSlots& own = own_slots();
  const std::lock_guard guard(own.mutex);
  if (own.process != process_number()) {
    own.process = process_number();
    own.slots.clear();
  }
  const auto [mine, inserted] = own.slots.insert({mapping.fd(), slot});
  if (!inserted && RealPolicy::keeps(Safety::slot_once_per_process)) return false;
  struct flock lock = range(F_WRLCK, slot, 0, 1);
  if (control(mapping.fd(), F_SETLK, lock) != 0) {
    const int error = errno;
    own.slots.erase(mine);
    if (error == EAGAIN || error == EACCES) return false;
    throw Error(Errc::system, "cannot lock a byte of " + mapping.path() + ": " + std::strerror(error));
  }
  if (RealPolicy::keeps(Safety::claim_asks_inherited) &&
      probe(mapping, slot, 1, 1) != ByteState::free) {  // the command of an earlier `run` still lives
    own.slots.erase(mine);
    lock = range(F_UNLCK, slot, 0, 1);
    control(mapping.fd(), F_SETLK, lock);
    return false;
  }
  return true;
}

void unlock_slot(const Mapping& mapping, SlotIndex slot) {
  OwnSlots& own = own_slots();
  const std::lock_guard guard(own.mutex);
  if (!own.has({mapping.fd(), slot})) return;
  own.slots.erase({mapping.fd(), slot});
  struct flock lock = range(F_UNLCK, slot, 0, 1);
  control(mapping.fd(), F_SETLK, lock);
}

ByteState probe_slot(const Mapping& mapping, SlotIndex slot) { return probe(mapping, slot, 0, 2); }
ByteState probe_inherited(const Mapping& mapping, SlotIndex slot) { return probe(mapping, slot, 1, 1); }

int open_inherited_lock(const Mapping& mapping, SlotIndex slot) {
  const auto fail = [](const char* what) {
    throw Error(Errc::system, std::string(what) + ": " + std::strerror(errno));
  };
  const std::string path = "/proc/self/fd/" + std::to_string(mapping.fd());
  int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  // Without /proc by its name; if that leads to another file by now, what was opened stays open: it may be in use too.
  if (fd < 0) fd = ::open(mapping.path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) fail("cannot open the segment's file a second time");
  struct stat ours {};
  struct stat opened {};
  if (::fstat(mapping.fd(), &ours) != 0 || ::fstat(fd, &opened) != 0) fail("cannot look at the segment's file");
  if (ours.st_dev != opened.st_dev || ours.st_ino != opened.st_ino) {
    throw Error(Errc::segment_gone, "segment " + mapping.path() + " was replaced; every hold in it is lost");
  }
  struct flock lock = range(F_WRLCK, slot, 1, 1);
  if (control(fd, F_OFD_SETLK, lock) != 0) fail("cannot lock the inherited byte");  // fd stays open, as it must
  return fd;
}

}  // namespace shmcoord::process
