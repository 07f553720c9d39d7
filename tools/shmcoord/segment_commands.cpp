#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <string>

#include <boost/json.hpp>

#include "engine/segment_file.hpp"
#include "process/clock.hpp"
#include "process/recovery.hpp"
#include "process/segment_check.hpp"
#include "process/table_use.hpp"
#include "shmcoord/accounts.hpp"
#include "shmcoord/command_table.hpp"
#include "shmcoord/display_width.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/json_writer.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/numbers.hpp"
#include "shmcoord/render.hpp"
#include "shmcoord/segment.hpp"

// `shmcoord segment …`: the file itself.

namespace shmcoord::tool {
namespace {

namespace json = boost::json;

/// The library knows what is too little and too much, and says so.
void take_count(const Arguments& arguments, std::string_view option, std::uint32_t& to) {
  const auto text = arguments.value(option);
  if (!text) return;
  if (!parse_whole(*text, to)) {
    throw UsageError{std::string(option) + ": '" + *text + "' does not do; give a whole number, like 1000"};
  }
}

unsigned parse_mode(const std::string& text) {
  unsigned mode = 0;
  if (!parse_whole(text, mode, 8) || (mode & ~0777U) != 0 || (mode & 0600U) != 0600U) {
    throw UsageError{"--mode: '" + text +
                     "' does not do; give octal permissions that let the owner read and write, "
                     "e.g. 0600 or 0660"};
  }
  return mode;
}

unsigned parse_group(const std::string& text) {
  if (const auto gid = group_id_of(text)) return *gid;
  throw UsageError{"--group: no group '" + text + "' in /etc/group; give a name from there, or a number"};
}

/// What its file system would still give to this user; null when it does not say.
json::value free_bytes(const engine::Mapping& mapping) {
  struct statvfs fs {};
  if (::fstatvfs(mapping.fd(), &fs) != 0) return nullptr;
  return static_cast<std::uint64_t>(fs.f_bavail) * fs.f_frsize;
}

json::object describe_segment(const engine::Mapping& mapping, const process::SegmentUse& use) {
  struct stat file {};
  ::fstat(mapping.fd(), &file);
  const engine::Header& header = mapping.view().header();
  const std::string created = rfc3339(created_wall_ns(mapping));
  char mode[8];
  const auto mode_end = std::to_chars(mode, mode + sizeof mode, file.st_mode & 07777U, 8).ptr;
  json::object tables;
  for (const process::TableUse* const t : use.tables()) {
    tables[json::string_view(t->name.data(), t->name.size())] =
        json::object{{"used", t->used}, {"left", t->left}, {"of", t->rows}, {"bytes", t->bytes}};
  }
  return {{"name", printable(mapping.name())},
          {"path", printable(mapping.path())},
          {"layout_version", header.version},
          {"created", created.empty() ? json::value(nullptr) : json::value(created)},
          {"mode", "0" + std::string(mode, mode_end)},
          {"uid", file.st_uid},
          {"gid", file.st_gid},
          {"size_bytes", static_cast<std::uint64_t>(file.st_size)},
          {"used_bytes", static_cast<std::uint64_t>(file.st_blocks) * 512U},
          {"free_bytes", free_bytes(mapping)},
          {"names", use.names.used},
          {"names_max", use.names.rows},
          {"entries", use.entries.used},
          {"entries_max", use.entries.rows},
          {"sessions", use.sessions.used},
          {"sessions_max", use.sessions.rows},
          {"tables", std::move(tables)}};
}

std::string as_text(const json::value& value) {
  if (value.is_string()) return std::string(value.get_string().c_str());
  return json_text(value);
}

}  // namespace

int segment_create(const Arguments& arguments) {
  SegmentOptions options;
  take_count(arguments, "--names", options.names);
  take_count(arguments, "--entries", options.entries);
  take_count(arguments, "--sessions", options.sessions);
  if (const auto mode = arguments.value("--mode")) options.mode = parse_mode(*mode);
  if (const auto group = arguments.value("--group")) options.group = parse_group(*group);
  options.journal = arguments.has("--journal");
  const Segment segment = opening([&] { return Segment::create(arguments.global.segment, options); });
  if (arguments.global.json) {
    print_line(json_text(json::object{{"name", segment.name()}, {"path", segment.path()}, {"result", "created"}}));
  }
  return exit_done;
}

int segment_list(const Arguments& arguments) {
  const auto all = Segment::list(arguments.global.trusted_owner);
  if (arguments.global.json) {
    json::array list;
    for (const SegmentListing& s : all) {
      list.push_back(json::object{{"name", printable(s.name)},
                                  {"path", printable(s.path)},
                                  {"usable", s.usable},
                                  {"problem", s.usable ? json::value(nullptr) : json::value(printable(s.problem))}});
    }
    print_line(json_text(json::object{{"segments", std::move(list)}}));
    return exit_done;
  }
  std::size_t width = 0;
  for (const SegmentListing& s : all) width = std::max(width, columns_of(printable(s.name)));
  for (const SegmentListing& s : all) {
    const std::string name = printable(s.name);
    print_line(name + std::string(width - columns_of(name) + 2, ' ') + printable(s.path) +
               (s.usable ? "" : "  not usable: " + printable(s.problem)));
  }
  return exit_done;
}

int segment_info(const Arguments& arguments) {
  const auto mapping = open_read_only(arguments.global);
  const process::SegmentUse use =
      process::use_of(*mapping, process::take_snapshot(*mapping, process::real_clock().now_ns()));
  const json::object info = describe_segment(*mapping, use);
  if (arguments.global.json) {
    print_line(json_text(info));
    return exit_done;
  }
  for (const char* const field :
       {"name", "path", "layout_version", "created", "mode", "uid", "gid", "size_bytes", "used_bytes", "free_bytes"}) {
    print_line(fmt::format("{:<16}{}", field, as_text(info.at(field))));
  }
  for (const process::TableUse* const t : use.tables()) {
    std::string note;
    if (t == &use.entries) note = fmt::format(" ({} blocks of {})", use.blocks_left, engine::entries_per_chunk);
    if (t == &use.names && t->used + t->left > t->rows) note = " (idle names make room)";
    print_line(fmt::format("{:<16}{} of {}, {} left{}, {} bytes", t->name, t->used, t->rows, t->left, note, t->bytes));
  }
  return exit_done;
}

int segment_check(const Arguments& arguments) {
  const auto mapping = open_read_only(arguments.global);
  const process::CheckReport report = process::check_segment(*mapping, process::real_clock().now_ns());
  const auto count = [&](process::Finding::Kind kind) {
    return std::count_if(report.findings.begin(), report.findings.end(), [&](const auto& f) { return f.kind == kind; });
  };
  if (arguments.global.json) {
    json::array findings;
    for (const process::Finding& f : report.findings) {
      findings.push_back(
          json::object{{"kind", to_string(f.kind)}, {"where", printable(f.where)}, {"what", printable(f.what)}});
    }
    print_line(json_text(json::object{{"name", printable(mapping->name())},
                                      {"path", printable(mapping->path())},
                                      {"result", report.damaged() ? "damaged" : "sound"},
                                      {"sessions", report.sessions},
                                      {"names", report.names},
                                      {"entries", report.entries},
                                      {"journal_records", report.journal_records},
                                      {"moving", report.moving},
                                      {"findings", std::move(findings)}}));
  } else {
    for (const process::Finding& f : report.findings) {
      print_line(fmt::format("{:<9}{}: {}", to_string(f.kind), printable(f.where), printable(f.what)));
    }
    std::string line = fmt::format("{} names, {} sessions, {} entries", report.names, report.sessions, report.entries);
    if (report.journal_records != 0) line += fmt::format(", {} records of the journal", report.journal_records);
    line += ": ";
    line += report.damaged() ? fmt::format("{} damaged", count(process::Finding::Kind::damage)) : "sound";
    if (const auto n = count(process::Finding::Kind::pending); n != 0) {
      line += fmt::format(", {} pending (the next caller or `shmcoord reap --once` finishes it)", n);
    }
    if (report.moving != 0) line += fmt::format(", {} too busy to be judged", report.moving);
    print_line(line);
  }
  return report.damaged() ? exit_busy : exit_done;
}

int segment_remove(const Arguments& arguments) {
  opening([&] { Segment::remove(arguments.global.segment, arguments.has("--force"), arguments.global.trusted_owner); });
  if (arguments.global.json) {
    print_line(json_text(json::object{{"name", printable(arguments.global.segment)}, {"result", "removed"}}));
  }
  return exit_done;
}

}  // namespace shmcoord::tool
