#include "bench/support/servers.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/json.hpp>

#include "bench/support/comparison.hpp"
#include "bench/support/processes.hpp"

namespace shmcoord::bench {
namespace {

using std::chrono::milliseconds;

constexpr int seconds_to_answer = 10;

[[noreturn]] void give_up(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}

class Socket {
 public:
  Socket() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (fd_ < 0) give_up("socket");
  }
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

/// Nobody else had it a moment ago. If somebody has it by the time that the server wants it, there is no server.
std::uint16_t free_port() {
  const Socket s;
  sockaddr_in a = loopback(0);
  socklen_t size = sizeof a;
  if (::bind(s.fd(), reinterpret_cast<const sockaddr*>(&a), size) != 0 ||
      ::getsockname(s.fd(), reinterpret_cast<sockaddr*>(&a), &size) != 0) {
    give_up("a port of the loopback device");
  }
  return ntohs(a.sin_port);
}

/// One question, one answer.
class Connection {
 public:
  explicit Connection(std::uint16_t port) {
    const timeval most{seconds_to_answer, 0};
    const int on = 1;
    ::setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    ::setsockopt(socket_.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const sockaddr_in a = loopback(port);
    if (::connect(socket_.fd(), reinterpret_cast<const sockaddr*>(&a), sizeof a) != 0) give_up("connect");
  }

  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(socket_.fd(), text.data(), text.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) give_up("a server takes no question");
      text.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  /// What is there and not used yet.
  [[nodiscard]] const std::string& received() const { return received_; }
  void use(std::size_t bytes) { received_.erase(0, bytes); }
  /// Waits until there is more.
  void more() {
    char buffer[4096];
    ssize_t n = 0;
    do {
      n = ::recv(socket_.fd(), buffer, sizeof buffer, 0);
    } while (n < 0 && errno == EINTR);
    if (n == 0) errno = ECONNRESET;
    if (n <= 0) give_up("a server gives no answer");
    received_.append(buffer, static_cast<std::size_t>(n));
  }

 private:
  Socket socket_;
  std::string received_;
};

// --- Redis -----------------------------------------------------------------------------------------------------------

class Redis {
 public:
  explicit Redis(std::uint16_t port) : connection_(port) {}

  /// The answer's text; empty for "nil".
  std::string call(const std::vector<std::string_view>& words) {
    std::string question = "*" + std::to_string(words.size()) + "\r\n";
    for (const std::string_view w : words) {
      question += "$" + std::to_string(w.size()) + "\r\n";
      question += w;
      question += "\r\n";
    }
    connection_.send(question);
    const std::string line = take_line();
    std::string rest = line.substr(1);
    if (line[0] == '+' || line[0] == ':') return rest;
    if (line[0] != '$') throw std::runtime_error("Redis: " + rest);
    if (rest == "-1") return {};
    std::string text;
    const auto bytes = static_cast<std::size_t>(std::stoul(rest));
    while (connection_.received().size() < bytes + 2) connection_.more();
    text = connection_.received().substr(0, bytes);
    connection_.use(bytes + 2);
    return text;
  }

 private:
  std::string take_line() {
    for (;;) {
      const auto end = connection_.received().find("\r\n");
      if (end == std::string::npos) {
        connection_.more();
        continue;
      }
      std::string line = connection_.received().substr(0, end);
      connection_.use(end + 2);
      if (line.empty()) throw std::runtime_error("Redis: an empty line");
      return line;
    }
  }

  Connection connection_;
};

class RedisLock final : public ServerLock {
 public:
  // Libraries wait 50 to 200 ms between two tries by default. Whoever cares about latency takes less.
  static constexpr long retry_ms = 10;

  RedisLock(std::uint16_t port, std::string key) : port_(port), key_(std::move(key)) {}

  void enter(milliseconds lease) override {
    redis_ = std::make_unique<Redis>(port_);
    lease_ = lease;
    lease_text_ = std::to_string(lease.count());
    // Only its own: the lease may have run out, and another one may have it by now.
    script_ = redis_->call({"SCRIPT", "LOAD",
                            "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end "
                            "return redis.call('DEL', KEYS[1])"});
    random_.seed(std::random_device{}());
  }
  void lock() override {
    std::ostringstream token;
    token << std::hex << random_() << random_();
    token_ = std::move(token).str();
    while (redis_->call({"SET", key_, token_, "NX", "PX", lease_text_}) != "OK") {
      const timespec pause{0, retry_ms * 1'000'000};
      ::nanosleep(&pause, nullptr);
    }
  }
  void unlock() override {
    if (redis_->call({"EVALSHA", script_, "1", key_, token_}) != "1")
      throw std::runtime_error("Redis: the lock was lost");
  }
  [[nodiscard]] milliseconds lease() const override { return lease_; }

 private:
  std::uint16_t port_;
  std::string key_;
  std::unique_ptr<Redis> redis_;
  milliseconds lease_{};
  std::string lease_text_;
  std::string script_;
  std::string token_;
  std::mt19937_64 random_;
};

class RedisServer final : public Server {
 public:
  RedisServer() : port_(free_port()) {}
  bool start() {
    return Server::start({"redis-server", "--port", std::to_string(port_), "--bind", "127.0.0.1", "--daemonize", "no",
                          "--save", "", "--appendonly", "no", "--dir", "/"},
                         "redis-server");
  }
  [[nodiscard]] std::string name() const override {
    return "Redis, polled every " + std::to_string(RedisLock::retry_ms) + " ms";
  }
  [[nodiscard]] std::unique_ptr<ServerLock> lock_of(const std::string& key) const override {
    return std::make_unique<RedisLock>(port_, key);
  }

 private:
  void ask() const override { Redis(port_).call({"PING"}); }

  std::uint16_t port_;
};

// --- etcd ------------------------------------------------------------------------------------------------------------

/// Its version 3 API, as JSON over HTTP.
class Etcd {
 public:
  explicit Etcd(std::uint16_t port) : connection_(port) {}

  boost::json::object call(const std::string& what, const boost::json::object& question) {
    namespace http = boost::beast::http;
    const std::string body = boost::json::serialize(question);
    connection_.send("POST /v3/" + what +
                     " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " +
                     std::to_string(body.size()) + "\r\n\r\n" + body);
    http::response_parser<http::string_body> answer;
    answer.eager(true);
    while (!answer.is_done()) {
      if (connection_.received().empty()) connection_.more();
      boost::beast::error_code problem;
      const std::size_t used = answer.put(boost::asio::buffer(connection_.received()), problem);
      connection_.use(used);
      if (problem == http::error::need_more) {
        connection_.more();
      } else if (problem) {
        throw std::runtime_error("etcd: " + problem.message());
      }
    }
    const std::string& text = answer.get().body();
    if (answer.get().result() != http::status::ok) throw std::runtime_error("etcd: " + text);
    return boost::json::parse(text).as_object();
  }

 private:
  Connection connection_;
};

/// As JSON carries bytes.
std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t n = 0; n < 3; ++n) {
      three = three << 8U | (i + n < bytes.size() ? static_cast<unsigned char>(bytes[i + n]) : 0U);
    }
    for (std::size_t n = 0; n < 4; ++n) {
      text += i + n > bytes.size() ? '=' : digits[three >> (18U - 6U * n) & 63U];
    }
  }
  return text;
}

/// A session's lease, and the queue of the server's own lock: nothing is polled.
class EtcdLock final : public ServerLock {
 public:
  EtcdLock(std::uint16_t port, const std::string& key) : port_(port), name_(base64(key)) {}

  void enter(milliseconds lease) override {
    etcd_ = std::make_unique<Etcd>(port_);
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(lease).count();
    const boost::json::object granted = etcd_->call("lease/grant", {{"TTL", seconds}});
    lease_id_ = std::string(granted.at("ID").as_string());
    lease_ = std::chrono::seconds(std::stol(std::string(granted.at("TTL").as_string())));
  }
  void lock() override { held_ = etcd_->call("lock/lock", {{"name", name_}, {"lease", lease_id_}}).at("key"); }
  void unlock() override { etcd_->call("lock/unlock", {{"key", held_}}); }
  [[nodiscard]] milliseconds lease() const override { return lease_; }

 private:
  std::uint16_t port_;
  std::string name_;
  std::unique_ptr<Etcd> etcd_;
  std::string lease_id_;
  milliseconds lease_{};
  boost::json::value held_;
};

class EtcdServer final : public Server {
 public:
  EtcdServer() : port_(free_port()), peer_port_(free_port()), folder_(scratch_path("etcd")) {}
  bool start() {
    const auto url = [](std::uint16_t port) { return "http://127.0.0.1:" + std::to_string(port); };
    const std::string peer = url(peer_port_);
    return Server::start({"etcd", "--name", "bench", "--data-dir", folder_, "--listen-client-urls", url(port_),
                          "--advertise-client-urls", url(port_), "--listen-peer-urls", peer,
                          "--initial-advertise-peer-urls", peer, "--initial-cluster", "bench=" + peer},
                         "etcd-server");
  }
  [[nodiscard]] std::string name() const override { return "etcd, its own lock"; }
  [[nodiscard]] std::unique_ptr<ServerLock> lock_of(const std::string& key) const override {
    return std::make_unique<EtcdLock>(port_, key);
  }

 private:
  void ask() const override { Etcd(port_).call("maintenance/status", {}); }

  std::uint16_t port_;
  std::uint16_t peer_port_;
  std::string folder_;
};

std::string program_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string file = std::move(folder);
    file += '/';
    file += name;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

void say(const std::string& what) {
  progress("");
  std::printf("%s\n", what.c_str());
  std::fflush(stdout);
}

template <class T>
std::unique_ptr<Server> started() {
  auto server = std::make_unique<T>();
  if (!server->start()) return nullptr;
  return server;
}

}  // namespace

Server::~Server() {
  if (pid_ > 0) end_child(pid_);
}

bool Server::start(const std::vector<std::string>& command, const std::string& package) {
  const std::string program = program_path(command.front());
  if (program.empty()) {
    say("not measured: " + command.front() + ", which is not installed (Debian package " + package + ")");
    return false;
  }
  pid_ = child([&] {
    const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nowhere < 0) ::_exit(126);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, fd);
    std::vector<char*> words;
    words.reserve(command.size() + 1);
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    ::execv(program.c_str(), words.data());
    ::_exit(127);
  });
  const std::int64_t until = now_ns() + std::int64_t{seconds_to_answer} * 1'000'000'000;
  std::string problem = "does not answer";
  while (now_ns() < until) {
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = 0;
      problem = "ended at once";
      break;
    }
    try {
      ask();
      return true;
    } catch (const std::exception& e) {
      problem = e.what();
    }
    ::poll(nullptr, 0, 20);
  }
  if (pid_ > 0) end_child(pid_);
  pid_ = 0;
  say("not measured: " + command.front() + ", which did not come up in " + std::to_string(seconds_to_answer) +
      " s: " + problem);
  return false;
}

std::unique_ptr<Server> redis_server() { return started<RedisServer>(); }
std::unique_ptr<Server> etcd_server() { return started<EtcdServer>(); }

std::vector<std::unique_ptr<Server>> servers() {
  std::vector<std::unique_ptr<Server>> all;
  for (auto* const make : {redis_server, etcd_server}) {
    if (auto server = make()) all.push_back(std::move(server));
  }
  return all;
}

}  // namespace shmcoord::bench
