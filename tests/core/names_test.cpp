#include "core/names.hpp"

#include <gtest/gtest.h>

#include <string>

// Code points, well and badly written. The rule is told here once more, from the other side: by what it encodes.

namespace shmcoord::core {
namespace {

std::string encoded(char32_t code, std::size_t bytes) {
  if (bytes == 1) return {static_cast<char>(code)};
  std::string text(bytes, '\0');
  for (std::size_t i = bytes - 1; i > 0; --i, code >>= 6U) text[i] = static_cast<char>(0x80U | (code & 0x3FU));
  constexpr unsigned marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
  text[0] = static_cast<char>(marks[bytes] | code);
  return text;
}

std::size_t shortest(char32_t code) { return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4; }

TEST(Names, CodePointsAreWhatTheyAre) {
  // All that have a boundary near; of the others one in each row.
  for (char32_t code = 0; code < 0x1FFFFF; code += code < 0x10100 || (code > 0x10FF00 && code < 0x110100) ? 1 : 61) {
    const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
    const bool exists = code <= 0x10FFFF && !(code >= 0xD800 && code < 0xE000);
    const std::string_view fault = !exists ? "is not valid UTF-8" : control ? "contains a control character" : "";
    ASSERT_EQ(check_name("a" + encoded(code, shortest(code))), fault) << std::hex << static_cast<unsigned>(code);
    ASSERT_EQ(check_name(encoded(code, shortest(code)) + "a"), fault) << std::hex << static_cast<unsigned>(code);
  }
}

TEST(Names, OverlongCutAndBrokenSequencesAreNone) {
  for (char32_t code = 0; code < 0x10000; ++code) {
    for (std::size_t bytes = shortest(code) + 1; bytes <= 4; ++bytes) {
      ASSERT_EQ(check_name(encoded(code, bytes)), "is not valid UTF-8") << std::hex << static_cast<unsigned>(code);
    }
  }
  for (const char32_t code : {U'\u00e9', U'\u20ac', U'\U0001f512'}) {
    const std::string whole = encoded(code, shortest(code));
    for (std::size_t cut = 1; cut < whole.size(); ++cut) {
      EXPECT_EQ(check_name(whole.substr(0, cut)), "is not valid UTF-8");
      EXPECT_EQ(check_name(whole.substr(cut)), "is not valid UTF-8");
      for (const char other : {'a', '\xc3', '\xff'}) {
        std::string broken = whole;
        broken[cut] = other;
        EXPECT_EQ(check_name(broken), "is not valid UTF-8");
      }
    }
  }
}

TEST(Names, LengthIsInBytes) {
  EXPECT_EQ(check_name(""), "is empty");
  EXPECT_EQ(check_name(std::string(255, 'x')), "");
  EXPECT_EQ(check_name(std::string(256, 'x')), "is longer than 255 bytes");
  EXPECT_EQ(check_name(std::string(253, 'x') + "\xC3\xA9"), "");
  EXPECT_EQ(check_name(std::string(254, 'x') + "\xC3\xA9"), "is longer than 255 bytes");
}

}  // namespace
}  // namespace shmcoord::core
