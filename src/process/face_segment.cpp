#include <algorithm>

#include "engine/segment_file.hpp"
#include "process/clock.hpp"
#include "process/face.hpp"
#include "process/recovery.hpp"

namespace shmcoord {
namespace {

std::string name_or_default(std::string_view name) {
  return name.empty() ? engine::default_segment_name() : std::string(name);
}

engine::OpenOptions trusting(std::optional<unsigned> owner) {
  engine::OpenOptions o;
  if (owner) o.trusted_owner = static_cast<uid_t>(*owner);
  return o;
}

engine::CreateOptions create_options(const SegmentOptions& options) {
  engine::CreateOptions o;
  // One slot more, for what is detached.
  const std::uint32_t slots = std::max(options.sessions, options.sessions + 1);
  o.sizes = {.names = options.names, .entries = options.entries, .sessions = slots};
  o.flags = options.journal ? engine::journal_always : 0U;
  o.mode = static_cast<mode_t>(options.mode);
  if (options.group) o.group = static_cast<gid_t>(*options.group);
  return o;
}

std::optional<Segment> none() noexcept { return std::nullopt; }

/// Throws in_use.
void require_unused(const std::string& name, const engine::OpenOptions& options) {
  const auto mapping = engine::Mapping::open(name, options);
  process::sweep(*mapping, process::real_clock().now_ns());  // the dead do not keep a segment in use
  for (const process::EntryView& e : process::take_snapshot(*mapping, process::real_clock().now_ns()).entries) {
    if (e.phase == engine::Phase::lost || e.phase == engine::Phase::prepared) continue;
    if (engine::is_registered(e.kind) && e.slot == engine::detached_slot)
      continue;  // like a semaphore that nobody uses
    throw Error(Errc::in_use, "segment " + mapping->path() + " is in use: '" + e.name + "' is held or waited for by '" +
                                  e.holder + "'; end it first, or use force (--force)");
  }
}

/// What is left to do about a segment that cannot be opened, and so cannot be asked whether it is in use.
const char* advice_for(Errc code, const std::string& name, bool force) noexcept {
  const bool damaged = code == Errc::segment_corrupt || code == Errc::segment_version;
  if (damaged && !force) return "; force (--force) deletes it all the same";
  if (code != Errc::segment_foreign) return "";
  if (name.find('/') != std::string::npos) return "; if nobody needs the file, delete it yourself";
  return force ? "" : "; force (--force) deletes it, but only a regular file";
}

}  // namespace

Segment::Segment(std::shared_ptr<engine::Mapping> mapping) noexcept : mapping_(std::move(mapping)) {}

Segment Segment::open(std::string_view name, const SegmentOptions& options) {
  return Segment(engine::Mapping::open(name_or_default(name), trusting(options.trusted_owner)));
}

Segment Segment::create(std::string_view name, const SegmentOptions& options) {
  return Segment(engine::Mapping::create(name_or_default(name), create_options(options)));
}

Segment Segment::open_or_create(std::string_view name, const SegmentOptions& options) {
  return Segment(
      engine::Mapping::open_or_create(name_or_default(name), create_options(options), trusting(options.trusted_owner)));
}

std::optional<Segment> Segment::open(std::string_view name, const SegmentOptions& options,
                                     std::error_code& ec) noexcept {
  return with_code(
      ec, [&] { return std::optional(open(name, options)); }, none);
}

std::optional<Segment> Segment::create(std::string_view name, const SegmentOptions& options,
                                       std::error_code& ec) noexcept {
  return with_code(
      ec, [&] { return std::optional(create(name, options)); }, none);
}

std::optional<Segment> Segment::open_or_create(std::string_view name, const SegmentOptions& options,
                                               std::error_code& ec) noexcept {
  return with_code(
      ec, [&] { return std::optional(open_or_create(name, options)); }, none);
}

void Segment::remove(std::string_view name, bool force, std::optional<unsigned> trusted_owner) {
  const std::string which = name_or_default(name);
  const engine::OpenOptions options = trusting(trusted_owner);
  try {
    if (!force) require_unused(which, options);
    engine::Mapping::remove(which, options,
                            force ? engine::Mapping::Damaged::unlink : engine::Mapping::Damaged::refuse);
  } catch (const Error& e) {
    throw Error(e.errc(), std::string(e.what()) + advice_for(e.errc(), which, force));
  }
}

std::vector<SegmentListing> Segment::list(std::optional<unsigned> trusted_owner) {
  std::vector<SegmentListing> all;
  for (engine::ListedSegment& s : engine::Mapping::list(trusting(trusted_owner))) {
    all.push_back({std::move(s.name), std::move(s.path), s.ok, std::move(s.error)});
  }
  return all;
}

const std::string& Segment::name() const noexcept { return mapping_->name(); }
const std::string& Segment::path() const noexcept { return mapping_->path(); }

}  // namespace shmcoord
