#include "coordination/json_text.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include <boost/json.hpp>
#include <boost/json/basic_parser_impl.hpp>

#include "base/printable.hpp"
#include "base/utf8.hpp"

namespace shmcoord::coordination {
namespace {

namespace json = boost::json;
using Error = json::error_code;
using Text = json::string_view;

/// Listens to the parser for keys only.
class Keys {
 public:
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

  std::string twice;  // the key

  bool on_object_begin(Error&) {
    objects_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t, Error&) {
    objects_.pop_back();
    return true;
  }
  bool on_key_part(Text part, std::size_t, Error&) {
    key_.append(part.data(), part.size());
    return true;
  }
  bool on_key(Text part, std::size_t, Error& error) {
    key_.append(part.data(), part.size());
    if (!objects_.back().insert(key_).second) {
      twice = key_;
      error = json::error::syntax;
      return false;
    }
    key_.clear();
    return true;
  }
  bool on_document_begin(Error&) { return true; }
  bool on_document_end(Error&) { return true; }
  bool on_array_begin(Error&) { return true; }
  bool on_array_end(std::size_t, Error&) { return true; }
  bool on_string_part(Text, std::size_t, Error&) { return true; }
  bool on_string(Text, std::size_t, Error&) { return true; }
  bool on_number_part(Text, Error&) { return true; }
  bool on_int64(std::int64_t, Text, Error&) { return true; }
  bool on_uint64(std::uint64_t, Text, Error&) { return true; }
  bool on_double(double, Text, Error&) { return true; }
  bool on_bool(bool, Error&) { return true; }
  bool on_null(Error&) { return true; }
  bool on_comment_part(Text, Error&) { return true; }
  bool on_comment(Text, Error&) { return true; }

 private:
  std::string key_;
  std::vector<std::set<std::string>> objects_;
};

// Of the string that ends with the quote there: back to one that is not behind a backslash.
std::size_t begin_of_string(std::string_view text, std::size_t end) {
  for (std::size_t at = end; at-- > 0;) {
    if (text[at] == '"' && (at == 0 || text[at - 1] != '\\')) return at;
  }
  return end;
}

}  // namespace

TextPlace place_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte);
  const std::size_t line_end = before.rfind('\n');  // none: one more is 0
  TextPlace place{static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1, 1};
  for (std::size_t at = line_end + 1; at < before.size(); ++place.column) {
    char32_t code = 0;
    at += std::max<std::size_t>(1, base::utf8_sequence(text.substr(at), &code));
  }
  return place;
}

bool parse_json(std::string_view text, std::size_t max_depth, json::value& value, JsonFault& fault) {
  json::parse_options options;
  options.max_depth = max_depth;
  Error error;
  json::basic_parser<Keys> keys(options);
  std::size_t read = keys.write_some(false, text.data(), text.size(), error);
  const std::string twice = keys.handler().twice;
  if (!error) {
    json::stream_parser parser({}, options);
    read = parser.write_some(text.data(), text.size(), error);
    if (!error && read < text.size()) error = json::error::extra_data;
    if (!error) parser.finish(error);
    if (!error) {
      value = parser.release();
      return true;
    }
  }
  if (!twice.empty()) read = begin_of_string(text, read);
  const TextPlace place = place_of(text, read);
  const bool marked = text.starts_with("\xEF\xBB\xBF");
  fault.what = marked          ? "this begins with a byte order mark; save it as UTF-8 without one"
               : twice.empty() ? "this is no JSON: " + error.message()
                               : "\"" + base::shortened(base::printable(twice), 60) + "\" is there twice";
  fault.byte = read;
  fault.line = place.line;
  fault.column = place.column;
  return false;
}

}  // namespace shmcoord::coordination
