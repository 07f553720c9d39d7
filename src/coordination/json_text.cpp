#include "coordination/json_text.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include <boost/json.hpp>
#include <boost/json/basic_parser_impl.hpp>

#include "base/printable.hpp"

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

}  // namespace

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
  const std::string_view before = text.substr(0, read);
  const std::size_t line = before.rfind('\n');
  fault.what = twice.empty() ? "this is no JSON: " + error.message()
                             : "\"" + base::shortened(base::printable(twice), 60) + "\" is there twice";
  fault.byte = read;
  fault.line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
  fault.column = (line == std::string_view::npos ? read : read - line - 1) + 1;
  return false;
}

}  // namespace shmcoord::coordination
