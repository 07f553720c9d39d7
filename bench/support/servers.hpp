#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// The locks that people build on a server when they have no better one: Redis and etcd, on this host, with all that
// they keep in memory. That is the best case for them: elsewhere there is a network and a disk in each round trip.
//
// A server runs while its object lives. It is the child of this process and ends with it, whatever ends it; its folder
// has a scratch name and goes with the case. Its locks have a lease, since a server cannot know who is dead.

namespace shmcoord::bench {

class ServerLock {
 public:
  virtual ~ServerLock() = default;
  ServerLock(const ServerLock&) = delete;
  ServerLock& operator=(const ServerLock&) = delete;

  /// In each process that uses it, once, before all else: connects. Nothing is renewed: what is held for longer than
  /// the lease is lost.
  virtual void enter(std::chrono::milliseconds lease) = 0;
  virtual void lock() = 0;
  virtual void unlock() = 0;
  /// What the server makes of what enter() asked for.
  [[nodiscard]] virtual std::chrono::milliseconds lease() const = 0;

 protected:
  ServerLock() = default;
};

class Server {
 public:
  virtual ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual std::unique_ptr<ServerLock> lock_of(const std::string& key) const = 0;

 protected:
  Server() = default;
  /// False, and says why, if the program is not there or does not answer in time.
  bool start(const std::vector<std::string>& command, const std::string& package);
  /// Throws while the server does not answer.
  virtual void ask() const = 0;

 private:
  pid_t pid_ = 0;
};

/// Null, when it cannot run here.
std::unique_ptr<Server> redis_server();
std::unique_ptr<Server> etcd_server();

/// Those that can run here.
std::vector<std::unique_ptr<Server>> servers();

}  // namespace shmcoord::bench
