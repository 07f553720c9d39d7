#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <boost/json.hpp>

// Values are built and escaped by Boost.JSON; the walk over them is ours, because the library writes 1.5 as 1.5E0,
// which programs read and people do not. Of objects that come by the hundred thousand no value is built: their members
// are written as they come (ObjectWriter).

namespace shmcoord::tool {

/// Writes values into a text, without blanks.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

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

  /// One array of what write_one(element) writes for each.
  template <class Range, class WriteOne>
  void write_array(const Range& range, WriteOne&& write_one) {
    char before = '[';
    for (const auto& element : range) {
      out_ += std::exchange(before, ',');
      write_one(element);
    }
    out_ += before == '[' ? "[]" : "]";
  }

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
      case boost::json::kind::array:
        return write_array(value.get_array(), [this](const boost::json::value& element) { write(element); });
      case boost::json::kind::string: write_text(value.get_string()); return;
      case boost::json::kind::double_: fmt::format_to(std::back_inserter(out_), "{}", value.get_double()); return;
      case boost::json::kind::int64: fmt::format_to(std::back_inserter(out_), "{}", value.get_int64()); return;
      case boost::json::kind::uint64: fmt::format_to(std::back_inserter(out_), "{}", value.get_uint64()); return;
      case boost::json::kind::bool_: out_ += value.get_bool() ? "true" : "false"; return;
      case boost::json::kind::null: out_ += "null"; return;
    }
  }

 private:
  friend class ObjectWriter;

  std::string& out_;
  boost::json::serializer serializer_;
};

/// Writes one object, member by member; it is closed by the destructor.
class ObjectWriter {
 public:
  explicit ObjectWriter(JsonWriter& writer) : writer_(writer) {}
  ObjectWriter(const ObjectWriter&) = delete;
  ObjectWriter& operator=(const ObjectWriter&) = delete;
  ~ObjectWriter() { writer_.out_ += before_ == '{' ? "{}" : "}"; }

  /// The key; the value is to be written next.
  JsonWriter& key(std::string_view key) {
    writer_.out_ += std::exchange(before_, ',');
    writer_.write_text(key);
    writer_.out_ += ':';
    return writer_;
  }
  void add(std::string_view name, const boost::json::value& value) { key(name).write(value); }
  void add_text(std::string_view name, std::string_view text) { key(name).write_text(text); }

 private:
  JsonWriter& writer_;
  char before_ = '{';
};

/// One document on one line.
inline std::string json_text(const boost::json::value& value) {
  std::string out;
  JsonWriter(out).write(value);
  return out;
}

}  // namespace shmcoord::tool
