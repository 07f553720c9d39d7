#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <boost/lockfree/spsc_queue.hpp>

#include "process/event_stream.hpp"

// From the journal to this process's subscribers.
//
// One thread reads (the dispatcher of a session), and puts each event into the mailbox of every subscription whose
// patterns match; each mailbox has a thread that empties it into the callback. So a slow callback keeps nobody from
// reading, and an event that is meant for several exists once. A mailbox that is full counts what it cannot take, and
// takes no more until its owner, who has emptied it by then, was told how many.

namespace shmcoord::process {

class Mailbox {
 public:
  Mailbox(std::vector<std::string> patterns, std::function<void(const Event&)> callback);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  [[nodiscard]] bool wants(const Event& event) const noexcept;
  /// By the dispatcher only.
  void put(const std::shared_ptr<const Event>& event);
  /// After some of them: wakes its thread.
  void call_owner() noexcept;

 private:
  static constexpr std::size_t room = 4'096;

  void deliver(const std::stop_token& stop);
  bool deliver_one();
  void call(const Event& event) noexcept;

  std::vector<std::string> patterns_;
  std::function<void(const Event&)> callback_;
  boost::lockfree::spsc_queue<std::shared_ptr<const Event>, boost::lockfree::capacity<room>> queue_;
  engine::Word64 lost_;         // counted by the dispatcher, told and set to 0 by the thread
  engine::Word64 lost_number_;  // of the last of them
  engine::Word32 asleep_;       // futex: 1 while its thread sleeps
  std::jthread thread_;
};

class Dispatcher {
 public:
  explicit Dispatcher(const std::shared_ptr<Participant>& participant);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  void add(Mailbox& mailbox);
  void remove(Mailbox& mailbox) noexcept;

 private:
  static constexpr int at_once = 256;  // then the mailboxes' owners are called

  void read(const std::stop_token& stop);
  bool read_one();

  std::shared_ptr<Participant> participant_;
  EventStream stream_;
  std::mutex mutex_;
  std::vector<Mailbox*> mailboxes_;
  std::jthread thread_;
};

}  // namespace shmcoord::process
