#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "coordination/guard_store.hpp"
#include "coordination/pipeline_store.hpp"
#include "coordination/save.hpp"
#include "engine/segment_file.hpp"
#include "process/event_stream.hpp"
#include "process/face.hpp"
#include "process/keeping_alive.hpp"
#include "process/participant.hpp"
#include "process/primitive_client.hpp"
#include "process/recovery.hpp"
#include "process/segment_check.hpp"
#include "process/snapshot.hpp"
#include "shmcoord/error.hpp"
#include "shmcoord/notices.hpp"
#include "shmcoord/render.hpp"
#include "shmcoord/segment_pipeline.hpp"

// Any bytes in a segment: opening, inspecting, checking, reaping and locking end, with an answer or an Error.
//
// The input is a list of changes to a segment that holds one of everything: {table:1, row:2, offset:2, bytes:1, value}.
// It starts from a good segment, because random bytes as a whole never get past the header. What only looks must not
// allocate a page, unless the change is to the bitmap that says which pages there are. What is printed is valid JSON.

namespace shmcoord {
namespace {

using engine::RealPolicy;
using process::Participant;
using process::PrimitiveClient;
using process::Request;

const process::NameOptions pool_options{.kind = engine::Kind::semaphore, .capacity = 5};
const process::NameOptions quota_options{.kind = engine::Kind::semaphore, .per_session = 2};

constexpr engine::Sizes sizes{.names = 32, .entries = 160, .sessions = 8, .journal = engine::least_journal};

Request request_of(std::string_view holder) {
  Request request;
  request.holder = holder;
  return request;
}

Pipeline a_pipeline(const std::string& id) {
  return Pipeline(id, {{.name = "build", .command = {"make"}, .locks = {"deploy"}, .permits = {{"pool", 2}}},
                       {.name = "test", .guards = PhaseGuards().with_pre(GuardCondition::lock_free("deploy"))}});
}

/// One that its runner left in the middle, with a state that was overtaken, and one that is done.
void furnish_pipelines(const std::shared_ptr<Participant>& me) {
  const Pipeline::Step inside = a_pipeline("release").start().pipeline.holds_acquired();
  coordination::add_pipeline(me, a_pipeline("release"));
  auto& runner = *new coordination::RunnerHold(me, "release");
  if (!runner.acquire() || !runner.write(inside.pipeline)) ::abort();
  const std::string overtaken = "state of " + runner.found().text.tag + " in 1 by another";
  const std::string progress = inside.pipeline.fail(std::string(1000, 'f')).pipeline.progress();
  Request request = request_of(overtaken);
  request.weight = 1;
  request.reason = progress;
  request.no_lease = true;
  request.detached = true;
  if (!PrimitiveClient::find(me, "release", engine::Kind::pipeline)->acquire(request, process::try_once)) ::abort();
  const Pipeline done("over", {{.name = "only"}});
  coordination::add_pipeline(me, done);
  coordination::RunnerHold over(me, "over");
  if (!over.acquire() || !over.write(done.start().pipeline.finish_phase().pipeline)) ::abort();
}

/// Everything that a segment can contain, left behind by processes that were killed.
void furnish(const std::shared_ptr<engine::Mapping>& mapping) {
  const auto in_child = [&](auto&& body) {
    int ready[2];
    if (::pipe(ready) != 0) ::abort();
    const pid_t pid = ::fork();
    if (pid == 0) {
      body();
      if (::write(ready[1], "r", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char c = 0;
    ::close(ready[1]);
    if (::read(ready[0], &c, 1) != 1) ::abort();
    ::close(ready[0]);
    return pid;
  };
  std::vector<pid_t> children;
  for (int n = 0; n < 3; ++n) {
    children.push_back(in_child([&] {
      const std::shared_ptr<Participant> me = Participant::join(mapping);
      auto& deploy = *new PrimitiveClient(me, "deploy", {});
      if (n == 0) {
        const std::string holder(200, 'h');
        const std::string reason(3000, 'r');
        Request request = request_of(holder);
        request.reason = reason;
        if (!deploy.acquire(request, process::try_once)) ::abort();
        auto& other = *new PrimitiveClient(me, std::string(200, 'n'), {});
        if (!other.acquire(request_of("holder"), process::try_once)) ::abort();
        auto& leased = *new PrimitiveClient(me, "leased", {});
        Request detached = request_of("script");
        detached.detached = true;
        detached.ttl = std::chrono::seconds(1);
        if (!leased.acquire(detached, process::try_once)) ::abort();
        Request three = request_of("permits");
        auto& pool = *new PrimitiveClient(me, "pool", pool_options);
        for (three.weight = 1; three.weight <= 3; ++three.weight) {
          if (!pool.acquire(three, process::try_once)) ::abort();
        }
        new PrimitiveClient(me, "quota", quota_options);
        const Guard guard{"guard", GuardCondition::parse("file_exists(" + std::string(3000, 'f') + ") && file_exists(" +
                                                         std::string(3000, 'g') + ")")};
        (void)coordination::add_guard(me, guard);
        const auto stored = coordination::find_guard(*mapping, guard.name);
        if (!coordination::set_verdict(*me, guard.name, *stored, GuardFailed{"guard", Block{}, std::string(200, 'w')}))
          ::abort();
        PrimitiveClient gone(me, "gone", {});
        PrimitiveClient::remove(*me, "gone", false);
        furnish_pipelines(me);
      } else {
        (void)deploy.wait_fd(request_of("waiter" + std::to_string(n)));
        const std::string waiter = "permits" + std::to_string(n);
        Request more = request_of(waiter);
        more.weight = 4;
        auto& pool = *new PrimitiveClient(me, "pool", pool_options);
        (void)pool.wait_fd(more);
      }
      new std::shared_ptr<Participant>(me);
    }));
  }
  // None may bury another one that was killed before it.
  for (const pid_t pid : children) {
    if (::kill(pid, SIGSTOP) != 0 || ::waitpid(pid, nullptr, WUNTRACED) != pid) ::abort();
  }
  for (const pid_t pid : children) ::kill(pid, SIGKILL);
  for (const pid_t pid : children) ::waitpid(pid, nullptr, 0);
}

/// What is changed is really there.
void require_furnished(const engine::Mapping& mapping) {
  const auto left = coordination::find_pipeline(mapping, "release");
  const auto over = coordination::find_pipeline(mapping, "over");
  if (!left || left->pipeline.step() != PhaseStep::inside || left->idle.size() != 1 || !left->runner) ::abort();
  if (!over || over->pipeline.status() != PipelineStatus::done || over->runner) ::abort();
}

struct Template {
  std::string path = "/dev/shm/shmcoord-fuzz-" + std::to_string(::getpid());
  engine::Geometry geo = engine::geometry_of(sizes);
  std::vector<std::pair<std::uint64_t, std::string>> pages;

  Template() {
    {
      const auto mapping =
          engine::Mapping::create(path, {.sizes = sizes, .mode = 0600, .group = {}, .flags = engine::journal_always});
      furnish(mapping);
      require_furnished(*mapping);
      const engine::View& view = mapping->view();
      for (std::uint64_t at = 0; at < geo.total; at += engine::page_size) {
        if (!view.pages_exist(at, engine::page_size)) continue;
        pages.emplace_back(at, std::string(reinterpret_cast<const char*>(view.base) + at, engine::page_size));
      }
    }
    ::unlink(path.c_str());
  }
};

/// The table's place and the size of its rows.
std::pair<std::uint64_t, std::uint64_t> table(const engine::Geometry& g, unsigned which) {
  switch (which % 11) {
    case 0: return {0, sizeof(engine::Header)};
    case 1: return {g.bitmap, 8};
    case 2: return {g.buckets, 8};
    case 3: return {g.directory, 8};
    case 4: return {g.slots, sizeof(engine::SessionSlot)};
    case 5: return {g.chunks, 8};
    case 6: return {g.records, sizeof(engine::Record)};
    case 7: return {g.entries, sizeof(engine::Entry)};
    case 8:
      if (which / 11 % 2 != 0) return {g.journal, sizeof(engine::Word128)};
      return {g.long_names, engine::long_name_bytes};
    case 9:
      if (which / 11 % 2 != 0) return {g.notice_rests, sizeof(engine::NoticeRest)};
      return {g.notices, sizeof(engine::Notice)};
    default: return {g.long_texts, engine::long_text_bytes};
  }
}

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  [[nodiscard]] bool empty() const { return left_ == 0; }
  std::uint64_t take(unsigned bytes) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < bytes && left_ != 0; ++i, --left_) value |= std::uint64_t{*data_++} << (8 * i);
    return value;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

/// True: the bitmap was changed.
bool write_changed(const Template& from, Input input) {
  const int fd = ::open(from.path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(from.geo.total)) != 0) ::abort();
  for (const auto& [at, page] : from.pages) {
    if (::pwrite(fd, page.data(), page.size(), static_cast<off_t>(at)) < 0) ::abort();
  }
  bool bitmap = false;
  for (int n = 0; n < 64 && !input.empty(); ++n) {
    const auto [base, row_bytes] = table(from.geo, static_cast<unsigned>(input.take(1)));
    const unsigned rows = base == from.geo.entries ? 256 : 64;  // each detached hold has eight entries to itself
    const std::uint64_t at = base + input.take(2) % rows * row_bytes + input.take(2) % row_bytes;
    const auto bytes = static_cast<unsigned>(input.take(1) % 8 + 1);
    const std::uint64_t value = input.take(bytes);
    const bool there = std::any_of(from.pages.begin(), from.pages.end(), [&](const auto& p) {
      return p.first == at / engine::page_size * engine::page_size &&
             at % engine::page_size + bytes <= engine::page_size;
    });
    if (!there) continue;
    bitmap = bitmap || (at < from.geo.buckets && at + bytes > from.geo.bitmap) || at < sizeof(engine::Header);
    if (::pwrite(fd, &value, bytes, static_cast<off_t>(at)) < 0) ::abort();
  }
  ::close(fd);
  return bitmap;
}

long blocks_of(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 ? st.st_blocks : 0;
}

template <class Body>
void answer_or_error(Body&& body) {
  try {
    body();
  } catch (const Error&) {
  }
}

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  ::abort();
}

bool is_json(const std::string& text) {
  boost::system::error_code error;
  (void)boost::json::parse(text, error);
  return !error;
}

void look_at_names(const std::shared_ptr<engine::Mapping>& mapping, const process::Picture& picture) {
  for (const PipelineListing& one : coordination::list_pipelines(picture)) {
    if (!is_json(one.pipeline.progress())) give_up("how far a pipeline came is no JSON");
  }
  answer_or_error([&] { (void)SegmentPipeline::list(detail::Access::segment(mapping)); });
  answer_or_error([&] { (void)coordination::text_of(coordination::state_of(*mapping)); });
  for (const char* const name : {"release", "over", "deploy", "pool", "guard", "gone", "absent"}) {
    answer_or_error([&] {
      const auto seen = process::look_at(*mapping, name);
      if (seen && seen->name != name) give_up("another name was looked at");
    });
    answer_or_error([&] {
      const auto found = coordination::find_pipeline(*mapping, name);
      if (found && !is_json(found->pipeline.json())) give_up("a pipeline is no JSON");
    });
  }
}

void look(const Template& from, bool bitmap_changed) {
  const long before = blocks_of(from.path);
  answer_or_error([&] {
    const auto mapping = engine::Mapping::open(from.path, {.trusted_owner = {}, .read_only = true});
    const std::int64_t now = RealPolicy::now_ns();
    answer_or_error([&] {
      const process::Picture picture = process::take_picture(*mapping, now);
      tool::Scene scene{*mapping, picture, 0, false, true, process::keeping_alive(*mapping, picture)};
      scene.notices = tool::notices_of(scene);
      std::string document;
      tool::inspect_json(scene, [&](std::string_view piece) { document += piece; });
      if (!is_json(document)) give_up("what is printed is no JSON");
      if (tool::inspect_text(scene, true, 80).empty()) give_up("nothing is printed");
      (void)process::plan(picture.snapshot, {});
      (void)process::take_picture(*mapping, now, {"deploy", std::string(200, 'n'), "absent"});
      look_at_names(mapping, picture);
    });
    (void)process::check_segment(*mapping, now, 1);
  });
  if (!bitmap_changed && blocks_of(from.path) != before) {
    give_up("looking allocated pages");
  }
}

/// What is told cannot be more than what is there.
void read_all(process::EventStream& events) {
  constexpr std::uint32_t most = 4 * sizes.journal;
  for (std::uint32_t n = 0; events.next(); ++n) {
    if (n == most) give_up("more events than the journal has words");
  }
}

void use_guard(const std::shared_ptr<Participant>& me) {
  const Guard guard{"guard", GuardCondition::parse("lock_free(deploy)")};
  answer_or_error([&] { (void)coordination::add_guard(me, guard); });
  if (const auto stored = coordination::find_guard(me->mapping(), guard.name)) {
    answer_or_error([&] { (void)coordination::guard_from(guard.name, stored->text); });
    (void)coordination::verdict_of(me->mapping(), stored->record);
    (void)coordination::set_verdict(*me, guard.name, *stored, GuardFailed{"guard", Block{}, "fuzz"});
  }
  PrimitiveClient::remove(*me, guard.name, true, engine::Kind::guard);
}

/// As a runner that comes after another one, while somebody cancels it; and anew when it was removed.
void use_pipeline(const std::shared_ptr<Participant>& me, const std::string& id) {
  answer_or_error([&] {
    coordination::RunnerHold runner(me, id);
    if (!runner.acquire()) return;
    const Pipeline& found = runner.found().pipeline;
    answer_or_error([&] { (void)runner.write(found.resume().pipeline); });
    answer_or_error([&] { (void)runner.write(found.start().pipeline); });
    answer_or_error([&] { (void)coordination::cancel_pipeline(me, id); });
    answer_or_error([&] { (void)runner.write(found); });
  });
  answer_or_error([&] { (void)coordination::cancel_pipeline(me, id); });
  answer_or_error([&] { coordination::add_pipeline(me, a_pipeline(id)); });
  answer_or_error([&] { coordination::remove_pipeline(me, id); });
}

/// What was saved can be read.
void save(const engine::Mapping& mapping) {
  const std::string file = mapping.path() + ".snapshot";
  answer_or_error([&] { (void)coordination::save(mapping, file, coordination::Over::anything); });
  try {
    (void)coordination::read_state(file);
  } catch (const Error& e) {
    give_up(e.what());
  }
  ::unlink(file.c_str());
}

void use(const Template& from) {
  answer_or_error([&] {
    const auto mapping = engine::Mapping::open(from.path);
    answer_or_error([&] { process::sweep(*mapping, RealPolicy::now_ns()); });
    answer_or_error([&] {
      const std::shared_ptr<Participant> me = Participant::join(mapping);
      process::EventStream news(me);
      for (const char* const name : {"deploy", "leased", "new"}) {
        answer_or_error([&] {
          PrimitiveClient lock(me, name, {});
          if (lock.acquire(request_of("fuzz"), process::try_once)) lock.release("fuzz");
          lock.force_release({});
        });
        answer_or_error([&] { PrimitiveClient::remove(*me, name, true); });
      }
      for (const bool is_quota : {false, true}) {
        const char* const name = is_quota ? "quota" : "pool";
        answer_or_error([&] {
          PrimitiveClient semaphore(me, name, is_quota ? quota_options : pool_options);
          Request some = request_of("fuzz");
          for (some.weight = 1; some.weight <= 2; ++some.weight) (void)semaphore.acquire(some, process::try_once);
          answer_or_error([&] { semaphore.resize(9); });
          answer_or_error([&] { semaphore.resize(1); });
          (void)semaphore.holders();
          (void)semaphore.take_lost();
          semaphore.release("fuzz");
          semaphore.force_release({});
        });
        answer_or_error([&] { PrimitiveClient::remove(*me, name, true, engine::Kind::semaphore); });
      }
      for (const char* const id : {"release", "over", "begun"}) use_pipeline(me, id);
      answer_or_error([&] { save(*mapping); });
      // More names than there are records for.
      for (std::uint32_t n = 0; n < sizes.names + 4; ++n) {
        answer_or_error([&] { PrimitiveClient(me, "recycled-" + std::to_string(n), {}); });
      }
      answer_or_error([&] { use_guard(me); });
      answer_or_error([&] { read_all(news); });
      answer_or_error([&] {
        process::EventStream all(me, 0);
        read_all(all);
      });
    });
  });
}

}  // namespace
}  // namespace shmcoord

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shmcoord;
  static const Template from;
  const bool bitmap_changed = write_changed(from, Input(data, size));
  look(from, bitmap_changed);
  use(from);
  answer_or_error([] { engine::Mapping::remove(from.path, {}, engine::Mapping::Damaged::unlink); });
  ::unlink(from.path.c_str());
  return 0;
}
