#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Texts of others in messages, tables and JSON. Whatever bytes such a text has, it neither drives the reader's terminal
// nor breaks the line, and names that differ in what is not to be seen do not look the same.

namespace shmcoord::base {

/// As it is, but with what is not to be seen written as C++ would: control characters, bytes that are not UTF-8, and
/// what hides or turns the text around it ("\n", "\x1b", "\u202e"). A backslash stays one, so that a message may be
/// made of parts that went through here already.
[[nodiscard]] std::string printable(std::string_view text);

/// The same of at most so many bytes of it, "…" behind a text that was cut.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t bytes);

}  // namespace shmcoord::base
