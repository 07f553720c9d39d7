#include "base/printable.hpp"

#include <gtest/gtest.h>

#include <string>

#include "shmcoord/error.hpp"

namespace shmcoord::base {
namespace {

TEST(Printable, WhatCanBeSeenStays) {
  for (const std::string text :
       {"", "deploy 'x'", "stra\u00dfe", "\u65e5\u672c", "\U0001F468\u200D\U0001F469", "a\\b"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, ControlCharactersAreEscaped) {
  EXPECT_EQ(printable("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(printable("\x1b[2J\x7f"), "\\x1b[2J\\x7f");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\u0085\u009b"), "\\u0085\\u009b");
}

TEST(Printable, WhatHidesOrTurnsTheTextAroundItIsEscaped) {
  EXPECT_EQ(printable("a\u202Eb\u200Fc\u2028d"), "a\\u202eb\\u200fc\\u2028d");
  EXPECT_EQ(printable("\U000E0041\uFEFF"), "\\U000e0041\\ufeff");
}

TEST(Printable, BytesThatAreNoTextAreEscaped) {
  EXPECT_EQ(printable("a\xff\x9b"
                      "b"),
            "a\\xff\\x9b"
            "b");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82") << "cut off";
  EXPECT_EQ(printable("\xc0\x80"), "\\xc0\\x80") << "overlong";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a pair";
}

TEST(Printable, WhatWentThroughItStays) {
  const std::string once = printable("a\nb\x1b\xff\u202E");
  EXPECT_EQ(printable(once), once);
}

TEST(Printable, Shortened) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "abc…");
  EXPECT_EQ(shortened("a\n\nd", 3), "a\\n\\n…");
  EXPECT_EQ(shortened("ab\u20acd", 4), "ab…") << "no half of a character";
  EXPECT_EQ(shortened("\x80\x80\x80\x80\x80\x80", 4), "\\x80…") << "no character: not all of it vanishes";
}

TEST(Printable, AnExceptionIsOneLineWhateverItNames) {
  const Error error(Errc::invalid_argument, "the name 'a\nb\x1b' is bad");
  EXPECT_STREQ(error.what(), "the name 'a\\nb\\x1b' is bad");
}

}  // namespace
}  // namespace shmcoord::base
