#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

// The values of a document, taken apart; and where it says what is wrong.
//
// A mistake is told of a value, by its address in the document that was read. Only when there is one, the document is
// walked again for what people want to know of it: its path, or its place in the text. So reading keeps no places, and
// what is right costs nothing. The document must not be changed or moved between.

namespace shmcoord::coordination {

/// Thrown by those who read a document, caught by those who have its text.
struct JsonMistake {
  const boost::json::value* value;  // in the document
  std::string what;
  bool of_key = false;        // it is about the key that the value stands under
  std::size_t character = 0;  // of a text: about that one, from 1; 0: about all of it
  bool found = false;         // `what` is what was expected, and the value is told behind it
};

/// "$.phases[1].name". Of the key, too, if it is about that.
[[nodiscard]] std::string path_of(const boost::json::value& root, const JsonMistake& mistake);

/// The byte in the text of the document at which what is meant begins.
[[nodiscard]] std::size_t byte_of(std::string_view text, const boost::json::value& root, const JsonMistake& mistake);

/// For messages. A number as it stands in the text of the document, since people look for it there.
[[nodiscard]] std::string shown(std::string_view text, const boost::json::value& root, const boost::json::value& value);
/// What is wrong, without its place.
[[nodiscard]] std::string what_of(std::string_view text, const boost::json::value& root, const JsonMistake& mistake);

// All throw JsonMistake.

[[noreturn]] void fail_expected(const boost::json::value& value, std::string_view expected);

/// `expected`: "a text", "an array of texts".
[[nodiscard]] std::string text_of(const boost::json::value& value, std::string_view expected = "a text");
[[nodiscard]] const boost::json::array& array_of(const boost::json::value& value, std::string_view expected);
/// From 1.
[[nodiscard]] std::uint32_t number_of(const boost::json::value& value, std::uint32_t most);

/// An object of which each member is taken once.
class Members {
 public:
  explicit Members(const boost::json::value& value, std::string_view expected = "an object");

  /// Null: there is none.
  const boost::json::value* take(std::string_view key);
  const boost::json::value& need(std::string_view key);
  /// All must have been taken.
  void done() const;
  /// There are no others than these: a mistyped key is told before what is missing because of it.
  void only(std::initializer_list<std::string_view> keys);

 private:
  const boost::json::value* value_;
  std::vector<std::string_view> known_;  // what was asked for
  std::size_t taken_ = 0;
};

}  // namespace shmcoord::coordination
