#include "support/history.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <new>
#include <type_traits>

#include <boost/json.hpp>

#include "engine/real_policy.hpp"

namespace shmcoord::test {
namespace {

namespace json = boost::json;

enum Stage : std::uint32_t { unused = 0, called = 1, done = 2 };

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

// Only what says something: a line is for people too.
void put(json::object& to, const char* key, const Text& text) {
  if (!text.empty()) to[key] = view(text);
}
template <std::integral Number>
void put(json::object& to, const char* key, Number number) {
  if (number != 0) to[key] = number;
}

Text text(const json::object& from, const char* key) {
  const json::value* const v = from.if_contains(key);
  return v == nullptr ? Text() : Text(std::string_view(v->as_string().data(), v->as_string().size()));
}
template <std::integral Number>
Number number(const json::object& from, const char* key) {
  const json::value* const v = from.if_contains(key);
  return v == nullptr ? Number{0} : v->to_number<Number>();
}

constexpr std::array losses{Loss::none, Loss::died, Loss::stale, Loss::expired, Loss::held_too_long, Loss::forced};

template <class Enum, class Range, class Name>
Enum find(const Range& all, const Name& name_of, const Text& wanted, const char* what) {
  for (std::size_t i = 0; i < std::size(all); ++i) {
    if (name_of(all[i]) == std::string_view(wanted)) return static_cast<Enum>(i);
  }
  throw std::runtime_error("unknown " + std::string(what) + " '" + wanted.str() + "'");
}

}  // namespace

struct Recorder::Pen::Row {
  std::atomic<std::uint32_t> stage;
  Operation operation;
};

Recorder::Recorder(std::size_t clients, std::size_t operations_each) : clients_(clients), each_(operations_each) {
  static_assert(std::is_trivially_copyable_v<Operation>);
  const std::size_t bytes = clients * operations_each * sizeof(Pen::Row);
  void* const p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  rows_ = static_cast<Pen::Row*>(p);  // zeroes are unused rows
}

Recorder::~Recorder() { ::munmap(rows_, clients_ * each_ * sizeof(Pen::Row)); }

Recorder::Pen Recorder::pen(std::size_t client) const {
  if (client >= clients_) throw std::out_of_range("more clients than the recorder has room for");
  return {rows_ + client * each_, rows_ + (client + 1) * each_};
}

Operation& Recorder::Pen::call(const Operation& what) {
  if (full()) throw std::out_of_range("more operations than the recorder has room for");
  Operation& o = *new (&next_->operation) Operation(what);
  o.return_ns = no_return;
  o.call_ns = engine::RealPolicy::now_ns();
  next_->stage.store(called, std::memory_order_release);
  return o;
}

void Recorder::Pen::returned() {
  next_->operation.return_ns = engine::RealPolicy::now_ns();
  next_->stage.store(done, std::memory_order_release);
  ++next_;
}

History Recorder::collect() const {
  History history;
  for (std::size_t client = 0; client < clients_; ++client) {
    for (std::size_t i = 0; i < each_; ++i) {
      const Pen::Row& row = rows_[client * each_ + i];
      const std::uint32_t stage = row.stage.load(std::memory_order_acquire);
      if (stage == unused) break;
      Operation o = row.operation;
      if (stage == called) {  // the answer may be half written
        o.answer = {};
        o.who = {};
        o.got = 0;
        o.why = Loss::none;
        o.has = o.available = o.used = 0;
        o.return_ns = no_return;
      }
      history.push_back(o);
    }
  }
  std::sort(history.begin(), history.end(),
            [](const Operation& a, const Operation& b) { return a.call_ns < b.call_ns; });
  return history;
}

std::string to_json(const Operation& o) {
  json::object in;
  put(in, "holder", o.holder);
  put(in, "ttl_ns", o.ttl_ns);
  put(in, "limit_ns", o.limit_ns);
  put(in, "token", o.token);
  put(in, "weight", o.weight);
  if (o.verb != Verb::status) put(in, "capacity", o.capacity);
  json::object line{{"client", view(o.client)},
                    {"object", view(o.object)},
                    {"op", view(to_string(o.verb))},
                    {"in", std::move(in)},
                    {"call_ns", o.call_ns}};
  if (o.returned()) {
    json::object out;
    put(out, "answer", o.answer);
    put(out, "token", o.got);
    put(out, "holder", o.who);
    put(out, "has", o.has);
    put(out, "available", o.available);
    put(out, "used", o.used);
    if (o.verb == Verb::status) put(out, "capacity", o.capacity);
    if (o.why != Loss::none) out["loss"] = view(to_string(o.why));
    line["out"] = std::move(out);
    line["return_ns"] = o.return_ns;
  }
  return json::serialize(line);
}

Operation from_json(std::string_view text_of_line) {
  const json::value parsed = json::parse(view(text_of_line));
  const json::object& line = parsed.as_object();
  Operation o;
  o.client = text(line, "client");
  o.object = text(line, "object");
  o.verb = find<Verb>(
      verbs, [](std::string_view name) { return name; }, text(line, "op"), "op");
  const json::object& in = line.at("in").as_object();
  o.holder = text(in, "holder");
  o.ttl_ns = number<std::int64_t>(in, "ttl_ns");
  o.limit_ns = number<std::int64_t>(in, "limit_ns");
  o.token = number<std::uint64_t>(in, "token");
  o.weight = number<std::uint32_t>(in, "weight");
  o.capacity = number<std::uint32_t>(in, "capacity");
  o.call_ns = line.at("call_ns").to_number<std::int64_t>();
  if (const json::value* const end = line.if_contains("return_ns"); end != nullptr) {
    const json::object& out = line.at("out").as_object();
    o.answer = text(out, "answer");
    o.got = number<std::uint64_t>(out, "token");
    o.who = text(out, "holder");
    o.has = number<std::uint32_t>(out, "has");
    o.available = number<std::uint32_t>(out, "available");
    o.used = number<std::uint32_t>(out, "used");
    if (o.verb == Verb::status) o.capacity = number<std::uint32_t>(out, "capacity");
    if (const Text loss = text(out, "loss"); !loss.empty()) {
      o.why = find<Loss>(
          losses, [](Loss l) { return to_string(l); }, loss, "loss");
    }
    o.return_ns = end->to_number<std::int64_t>();
  }
  return o;
}

void write(const History& history, const std::filesystem::path& path) {
  std::ofstream file(path);
  for (const Operation& o : history) file << to_json(o) << '\n';
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

History read_history(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  History history;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) history.push_back(from_json(line));
  }
  return history;
}

}  // namespace shmcoord::test
