#include "shmcoord/reap_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "coordination/save.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/snapshot_text.hpp"

namespace shmcoord::tool {
namespace {

bool is_gone(const engine::Mapping& mapping) {
  return mapping.removed() || mapping.check_identity() != engine::Mapping::Identity::same;
}

/// nullptr: there is none.
std::shared_ptr<engine::Mapping> open_existing(const Global& global) {
  try {
    return engine::Mapping::open(global.segment, {global.trusted_owner, false});
  } catch (const Error& e) {
    if (e.errc() == Errc::segment_not_found || e.errc() == Errc::segment_gone) return nullptr;
    throw;
  }
}

}  // namespace

ReapFile::ReapFile(const Global& global, const std::string& file, std::chrono::nanoseconds interval, Tell tell)
    : global_(global), interval_(interval), tell_(std::move(tell)) {
  if (file.empty()) throw UsageError{"--save '': give the name of a file"};
  std::error_code failed;
  file_ = std::filesystem::absolute(file, failed).string();
  if (failed) throw UsageError{"--save '" + file + "': " + failed.message() + "; give an absolute path"};
}

std::shared_ptr<engine::Mapping> ReapFile::open_segment() const {
  return with_file([&] {
    for (int tries_left = 100;; --tries_left) {
      if (auto mapping = try_to_open()) return mapping;
      if (tries_left == 0) {
        throw Error(Errc::in_use, "segment " + global_.segment + " is made and removed again and again by others");
      }
    }
  });
}

/// nullptr: it came or went meanwhile.
std::shared_ptr<engine::Mapping> ReapFile::try_to_open() const {
  // First the segment, then the file: who restores it writes the file before.
  std::shared_ptr<engine::Mapping> there = open_existing(global_);
  const std::optional<coordination::SavedState> saved = coordination::read_state(file_);
  if (there) {
    try {
      if (saved) coordination::require_same(*there, *saved, file_);
    } catch (const Error&) {
      if (is_gone(*there)) return nullptr;  // and the file is of the one that is there now
      throw;
    }
    return there;
  }
  if (!saved) {
    const process::FileReplacement can_be_made(file_);  // else no segment either
    return engine::Mapping::open_or_create(global_.segment, {}, {global_.trusted_owner, false});
  }
  coordination::require_name(global_.segment, *saved, file_);
  try {
    const RestoreReport report = restore_snapshot(file_, global_.segment);
    ReapEvent event{"restored", nullptr, fmt::format("restored {} from {}", counts_text(report.restored), file_)};
    event.restored = &report;
    tell_(event);
  } catch (const Error& e) {
    if (e.errc() != Errc::segment_exists) throw;
  }
  return open_existing(global_);
}

void ReapFile::save(const engine::Mapping& mapping) {
  const SnapshotCounts counts =
      with_file([&] { return coordination::save(mapping, file_, coordination::Over::its_own); });
  const bool again = std::exchange(fails_, false);
  if (std::exchange(saved_, true) && !again) return;
  ReapEvent event{"saved", nullptr,
                  fmt::format("saved {} to {}{}", counts_text(counts), file_, again ? ", which works again" : "")};
  event.saved = &counts;
  tell_(event);
}

void ReapFile::try_to_save(const engine::Mapping& mapping) {
  const auto failed = [&](std::string_view code, const std::string& why) {
    if (std::exchange(fails_, true)) return;
    ReapEvent event{
        "save_failed", nullptr,
        fmt::format("{}; it could not be saved, which is tried again every {}", why, format_duration(interval_))};
    event.error = code;
    tell_(event);
  };
  try {
    save(mapping);
  } catch (const Refusal& e) {
    failed(e.name, e.text);
  } catch (const Error& e) {
    if (e.errc() != Errc::segment_gone) failed(name_of(e.errc()), e.what());  // our watch sees that
  }
}

}  // namespace shmcoord::tool
