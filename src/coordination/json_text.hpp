#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>

// A document of JSON that somebody wrote by hand, read once and strictly.
//
// A key that stands twice in an object is refused: JSON libraries take the last one, people mean the first one, and a
// condition or an issue of which half is passed over would let through what should be stopped.

namespace shmcoord::coordination {

/// As an editor counts: both from 1, the column in characters.
struct TextPlace {
  std::size_t line = 0;
  std::size_t column = 0;
};
[[nodiscard]] TextPlace place_of(std::string_view text, std::size_t byte);

struct JsonFault {
  std::string what = {};
  std::size_t byte = 0;  // behind how many; of a key that is there twice, where it begins
  std::size_t line = 0;  // as place_of() that byte
  std::size_t column = 0;
};

/// False: it is none, or too deep, or has a key twice; `fault` says where.
[[nodiscard]] bool parse_json(std::string_view text, std::size_t max_depth, boost::json::value& value,
                              JsonFault& fault);

}  // namespace shmcoord::coordination
