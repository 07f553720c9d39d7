#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <boost/json.hpp>

// Values are built and escaped by Boost.JSON; the walk over them is ours, because the library writes 1.5 as 1.5E0,
// which programs read and people do not.

namespace shmcoord::tool {

/// Writes values into a text, without blanks.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  void write(const boost::json::value& value) {
    switch (value.kind()) {
      case boost::json::kind::object: {
        char before = '{';
        for (const auto& [key, member] : value.get_object()) {
          out_ += std::exchange(before, ',');
          write_text(key);
          out_ += ':';
          write(member);
        }
        out_ += before == '{' ? "{}" : "}";
        return;
      }
      case boost::json::kind::array: {
        char before = '[';
        for (const boost::json::value& element : value.get_array()) {
          out_ += std::exchange(before, ',');
          write(element);
        }
        out_ += before == '[' ? "[]" : "]";
        return;
      }
      case boost::json::kind::string: write_text(value.get_string()); return;
      case boost::json::kind::double_: fmt::format_to(std::back_inserter(out_), "{}", value.get_double()); return;
      case boost::json::kind::int64: fmt::format_to(std::back_inserter(out_), "{}", value.get_int64()); return;
      case boost::json::kind::uint64: fmt::format_to(std::back_inserter(out_), "{}", value.get_uint64()); return;
      case boost::json::kind::bool_: out_ += value.get_bool() ? "true" : "false"; return;
      case boost::json::kind::null: out_ += "null"; return;
    }
  }

 private:
  void write_text(std::string_view text) {
    // Nearly all texts need no escape, and asking costs less than the library's general way.
    if (std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; })) {
      out_ += '"';
      out_ += text;
      out_ += '"';
      return;
    }
    serializer_.reset(boost::json::string_view(text.data(), text.size()));
    while (!serializer_.done()) {
      char buffer[512];
      const auto piece = serializer_.read(buffer);
      out_.append(piece.data(), piece.size());
    }
  }

  std::string& out_;
  boost::json::serializer serializer_;
};

/// One document on one line.
inline std::string json_text(const boost::json::value& value) {
  std::string out;
  JsonWriter(out).write(value);
  return out;
}

}  // namespace shmcoord::tool
