#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shmcoord/global.hpp"

// What was typed, after it was matched with the command table and before anybody looked at the values.

namespace shmcoord::tool {

class Arguments {
 public:
  struct Given {
    std::string_view option;  // its long name, as in the table
    std::vector<std::string> values;
  };

  Global global;
  std::vector<std::string> words;  // what stands for NAME, NAME…, or the command of `run`

  void add(std::string_view option, std::vector<std::string> values) { given_.push_back({option, std::move(values)}); }

  [[nodiscard]] bool has(std::string_view option) const { return find(option) != nullptr; }
  [[nodiscard]] std::optional<std::string> value(std::string_view option) const {
    const Given* const found = find(option);
    return found == nullptr || found->values.empty() ? std::nullopt : std::optional(found->values.back());
  }
  [[nodiscard]] std::vector<std::string> values(std::string_view option) const {
    const Given* const found = find(option);
    return found == nullptr ? std::vector<std::string>() : found->values;
  }
  /// The one of these that was typed first; empty: none was.
  [[nodiscard]] std::string_view first_of(std::initializer_list<std::string_view> options) const {
    for (const Given& g : given_) {
      if (std::find(options.begin(), options.end(), g.option) != options.end()) return g.option;
    }
    return {};
  }

 private:
  [[nodiscard]] const Given* find(std::string_view option) const {
    for (const Given& g : given_) {
      if (g.option == option) return &g;
    }
    return nullptr;
  }

  std::vector<Given> given_;  // in the order in which each was typed first
};

}  // namespace shmcoord::tool
