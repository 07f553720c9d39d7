#include "engine/segment_header.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "engine/journal_words.hpp"
#include "engine/own_namespace.hpp"
#include "engine/real_policy.hpp"
#include "shmcoord/error.hpp"

namespace shmcoord::engine {
namespace {

constexpr std::uint32_t byte_order_mark = 0x01020304;

std::string read_small_file(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char buffer[64];
  const ssize_t n = ::read(fd, buffer, sizeof buffer);
  ::close(fd);
  return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : std::string();
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::array<std::uint8_t, 16> parse_boot_id(const std::string& text) noexcept {
  std::array<std::uint8_t, 16> id{};
  std::size_t digits = 0;
  for (const char c : text) {
    const int digit = hex_digit(c);
    if (digit < 0) continue;
    if (digits == 32) return {};
    id[digits / 2] = static_cast<std::uint8_t>(id[digits / 2] << 4U | digit);
    ++digits;
  }
  return digits == 32 ? id : std::array<std::uint8_t, 16>{};
}

std::string hexadecimal(std::uint64_t value) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), digits[value & 15U]);
    value >>= 4U;
  } while (value != 0);
  return "0x" + text;
}

[[noreturn]] void refuse(Errc code, const std::string& what, const std::string& why) {
  throw Error(code, what + ": " + why);
}

}  // namespace

HostFacts HostFacts::read() {
  HostFacts facts;
  facts.boot_id = parse_boot_id(read_small_file("/proc/sys/kernel/random/boot_id"));
  facts.time_namespace = own_namespace(NamespaceKind::time);
  return facts;
}

std::string check_sizes(const Sizes& sizes) {
  const auto outside = [](const char* what, std::uint32_t have, std::uint32_t least, std::uint32_t most) {
    return have >= least && have <= most ? std::string()
                                         : std::to_string(have) + " " + what + " (allowed: " + std::to_string(least) +
                                               " to " + std::to_string(most) + ")";
  };
  // A whole number of chunks below nil; slots must fit beside an incarnation in an owner word.
  constexpr std::uint32_t most_entries = core::max_entries / entries_per_chunk * entries_per_chunk;
  if (std::string fault = outside("names", sizes.names, 1, core::index_mask - 1); !fault.empty()) return fault;
  if (std::string fault = outside("entries", sizes.entries, 1, most_entries); !fault.empty()) return fault;
  if (std::string fault = outside("sessions", sizes.sessions == 0 ? 0 : sizes.joinable(), 1, 0xfffd); !fault.empty()) {
    return fault;
  }
  if (!std::has_single_bit(sizes.journal)) {
    return std::to_string(sizes.journal) + " words of journal (allowed: powers of two)";
  }
  return outside("words of journal", sizes.journal, least_journal, most_journal);
}

std::uint64_t first_token_floor(std::int64_t created_wall_ns) noexcept {
  constexpr std::int64_t since_ns = 1'577'836'800'000'000'000;  // 2020-01-01
  if (created_wall_ns <= since_ns) return 0;
  return std::min(static_cast<std::uint64_t>(created_wall_ns - since_ns) / 1'000, core::seq_limit / 2);
}

Header make_header(const Sizes& sizes, const HostFacts& facts, std::uint64_t segment_id) {
  Header h{};
  h.magic = segment_magic;
  h.version = layout_version;
  h.byte_order = byte_order_mark;
  h.word_bits = sizeof(void*) * 8;
  h.page_bytes = page_size;
  h.total_bytes = geometry_of(sizes).total;
  h.segment_id = segment_id;
  h.sizes = sizes;
  h.boot_id = facts.boot_id;
  h.time_namespace = facts.time_namespace;
  const std::int64_t now_ns = RealPolicy::wall_ns();
  h.created_wall_s = now_ns / 1'000'000'000;
  h.token_floor.raw = first_token_floor(now_ns);
  h.slot_high.raw = detached_slot + 1;
  return h;
}

HeaderVerdict check_header(const Header& h, std::uint64_t file_bytes, const HostFacts& facts, const std::string& what) {
  const auto both = [](const char* name, std::uint64_t theirs, std::uint64_t ours) {
    return std::string(name) + " " + std::to_string(theirs) + ", this library has " + std::to_string(ours);
  };
  if (h.magic == __builtin_bswap64(segment_magic)) {
    refuse(Errc::segment_version, what, "made on a machine with the other byte order than this one's");
  }
  if (h.magic != segment_magic) {
    refuse(Errc::segment_foreign, what,
           "not a shmcoord segment: it starts with " + hexadecimal(h.magic) + ", a segment with " +
               hexadecimal(segment_magic));
  }
  if (h.version != layout_version)
    refuse(Errc::segment_version, what, both("layout version", h.version, layout_version));
  if (h.byte_order != byte_order_mark) {
    refuse(Errc::segment_version, what, both("byte order", h.byte_order, byte_order_mark));
  }
  if (h.word_bits != sizeof(void*) * 8) {
    refuse(Errc::segment_version, what, both("word size in bits", h.word_bits, sizeof(void*) * 8));
  }
  if (h.page_bytes != page_size) refuse(Errc::segment_version, what, both("page size", h.page_bytes, page_size));
  if (const std::string fault = check_sizes(h.sizes); !fault.empty()) {
    refuse(Errc::segment_corrupt, what, "its header claims " + fault);
  }
  HeaderVerdict verdict;
  verdict.geometry = geometry_of(h.sizes);
  if (h.total_bytes != verdict.geometry.total) {
    refuse(Errc::segment_corrupt, what,
           "its header says " + std::to_string(h.total_bytes) + " bytes, its sizes make " +
               std::to_string(verdict.geometry.total));
  }
  if (file_bytes != h.total_bytes) {
    refuse(Errc::segment_corrupt, what,
           "the file has " + std::to_string(file_bytes) + " bytes, its header says " + std::to_string(h.total_bytes) +
               "; was it truncated or copied?");
  }
  if (h.segment_id == 0) refuse(Errc::segment_corrupt, what, "its header has no segment id");
  constexpr std::array<std::uint8_t, 16> unknown{};
  verdict.from_earlier_boot = h.boot_id != facts.boot_id && h.boot_id != unknown && facts.boot_id != unknown;
  // Clocks of another boot mean nothing any more, whatever namespace they were of.
  if (!verdict.from_earlier_boot && h.time_namespace != facts.time_namespace && h.time_namespace != 0 &&
      facts.time_namespace != 0) {
    refuse(Errc::unsupported, what,
           "made in time namespace " + std::to_string(h.time_namespace) + ", this process is in " +
               std::to_string(facts.time_namespace) +
               "; the monotonic clocks of two may differ, so ages and leases could not be compared: use another "
               "segment here");
  }
  return verdict;
}

}  // namespace shmcoord::engine
