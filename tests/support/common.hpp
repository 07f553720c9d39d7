#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>

// Memory that forked children share with their parent.

namespace shmcoord::test {

/// A value, or `count` of them. Pages that nobody touches take no memory if T is zero when it is made.
template <class T>
class Common {
 public:
  explicit Common(std::size_t count = 1) : count_(count) {
    const int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const pages = ::mmap(nullptr, count_ * sizeof(T), PROT_READ | PROT_WRITE, flags, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    // New pages are zero, and for many values nothing else is done to them.
    first_ = count == 1 ? new (pages) T{} : static_cast<T*>(pages);
  }
  ~Common() { ::munmap(static_cast<void*>(first_), count_ * sizeof(T)); }
  Common(const Common&) = delete;
  Common& operator=(const Common&) = delete;

  T* operator->() const { return first_; }
  T& operator*() const { return *first_; }
  T& operator[](std::size_t i) const { return first_[i]; }

 private:
  std::size_t count_;
  T* first_;
};

}  // namespace shmcoord::test
