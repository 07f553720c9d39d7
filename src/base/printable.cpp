#include "base/printable.hpp"

#include <algorithm>

#include "base/utf8.hpp"

namespace shmcoord::base {
namespace {

/// Marks and overrides of direction, separators of lines, tags, and what is only there to be invisible: a line could
/// read as another one, or two names look the same. The joiners stay: Persian, Hindi and emoji are written with them.
bool misleading(char32_t c) noexcept {
  return c == 0x061C || c == 0x180E || c == 0x200B || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFB) || (c >= 0xE0000 && c <= 0xE007F);
}

void append_escape(std::string& to, char letter, unsigned digits, char32_t value) {
  (to += '\\') += letter;
  while (digits-- != 0) to += "0123456789abcdef"[value >> digits * 4U & 0xFU];
}

void append_escape(std::string& to, char32_t code) {
  switch (code) {
    case '\n': to += "\\n"; return;
    case '\r': to += "\\r"; return;
    case '\t': to += "\\t"; return;
    default: break;
  }
  if (code < 0x80) return append_escape(to, 'x', 2, code);
  if (code < 0x10000) return append_escape(to, 'u', 4, code);
  append_escape(to, 'U', 8, code);
}

}  // namespace

std::string printable(std::string_view text) {
  const auto plain = [](char c) { return c >= ' ' && c <= '~'; };
  if (std::all_of(text.begin(), text.end(), plain)) return std::string(text);
  std::string out;
  while (!text.empty()) {
    char32_t code = 0;
    const std::size_t length = utf8_sequence(text, &code);
    if (length == 0) {
      append_escape(out, 'x', 2, static_cast<unsigned char>(text.front()));
    } else if (code < 0x20 || (code >= 0x7F && code <= 0x9F) || misleading(code)) {
      append_escape(out, code);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return printable(text);
  // Of a sequence that lies across the end nothing is kept; of bytes that are none, enough to be recognised.
  std::size_t end = bytes;
  while (end > 0 && bytes - end < 3 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return printable(text.substr(0, end)) + "…";
}

}  // namespace shmcoord::base
