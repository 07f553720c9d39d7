#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include <boost/json.hpp>

#include "base/printable.hpp"
#include "coordination/condition_fields.hpp"
#include "coordination/json_text.hpp"
#include "shmcoord/condition.hpp"

// Conditions as JSON: {"type": …} with the fields of the kind; composites have "conditions", `not` has "condition".
// Whatever is there that does not belong there is a mistake: a field that is passed over in silence would be a guard
// that guards nothing.

namespace shmcoord {
namespace {

namespace json = boost::json;
using coordination::check_word;
using coordination::fields_of;
using coordination::What;

// --- writing --------------------------------------------------------------------------------------------------------

json::array texts(const std::vector<std::string>& list) {
  json::array array;
  array.reserve(list.size());
  for (const std::string& text : list) array.emplace_back(text);
  return array;
}

json::object written(const IssueFilter& filter) {
  json::object object;
  if (!filter.ids.empty()) object["ids"] = texts(filter.ids);
  if (!filter.labels.empty()) object["labels"] = texts(filter.labels);
  if (filter.statuses.empty()) return object;
  json::array statuses;
  for (const IssueStatus status : filter.statuses) statuses.emplace_back(json::string_view(to_string(status)));
  object["statuses"] = std::move(statuses);
  return object;
}

json::object written(const GuardCondition& condition) {
  json::object object;
  object["type"] = json::string_view(condition.type());
  std::visit(
      [&]<class Kind>(const Kind& c) {
        if constexpr (std::is_same_v<Kind, Not>) {
          object["condition"] = c.condition == nullptr ? json::value() : json::value(written(*c.condition));
        } else if constexpr (coordination::is_composite<Kind>) {
          json::array list;
          list.reserve(c.conditions.size());
          for (const GuardCondition& child : c.conditions) list.emplace_back(written(child));
          object["conditions"] = std::move(list);
        } else {
          fields_of(c, [&]<class T>(std::string_view name, const T& value, What) {
            const json::string_view key(name);
            if constexpr (std::is_same_v<T, std::optional<std::string>>) {
              if (value) object[key] = *value;
            } else if constexpr (std::is_same_v<T, IssueStatus>) {
              object[key] = json::string_view(to_string(value));
            } else if constexpr (std::is_same_v<T, IssueFilter>) {
              object[key] = written(value);
            } else {
              object[key] = value;
            }
          });
        }
      },
      condition.kind());
  return object;
}

// --- reading --------------------------------------------------------------------------------------------------------

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw ConditionError(0, path + ": " + what);
}

std::string shown(const json::value& value) { return base::shortened(json::serialize(value), 60); }

// An object of which each member is taken once.
class Members {
 public:
  Members(const json::value& value, std::string path) : path_(std::move(path)) {
    if (!value.is_object()) fail(path_, "expected an object, found " + shown(value));
    object_ = &value.get_object();
    for (const auto& member : *object_) left_.emplace_back(member.key());
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path_of(std::string_view key) const { return path_ + '.' + std::string(key); }

  const json::value* take(std::string_view key) {
    const auto at = std::find(left_.begin(), left_.end(), key);
    if (at != left_.end()) left_.erase(at);
    return object_->if_contains(json::string_view(key));
  }
  const json::value& need(std::string_view key) {
    const json::value* const value = take(key);
    if (value == nullptr) fail(path_, "\"" + std::string(key) + "\" is missing");
    return *value;
  }
  /// All must have been taken.
  void done() const {
    if (!left_.empty()) fail(path_of(base::shortened(left_.front(), 60)), "is not known here");
  }

 private:
  std::string path_;
  const json::object* object_ = nullptr;
  std::vector<std::string> left_;
};

std::string text_of(const json::value& value, const std::string& path, What what) {
  if (!value.is_string()) fail(path, "expected a text, found " + shown(value));
  const json::string& text = value.get_string();
  std::string word(text.data(), text.size());
  if (const std::string_view why = check_word(word, what); !why.empty()) {
    fail(path, "'" + base::shortened(word, 60) + "' " + std::string(why));
  }
  return word;
}

IssueStatus status_of(const json::value& value, const std::string& path) {
  const auto status = value.is_string() ? issue_status_from(std::string_view(value.get_string())) : std::nullopt;
  if (!status) fail(path, "expected " + std::string(coordination::issue_statuses) + ", found " + shown(value));
  return *status;
}

const json::array& array_of(const json::value& value, const std::string& path) {
  if (!value.is_array()) fail(path, "expected an array, found " + shown(value));
  return value.get_array();
}

template <class T, class Read>
std::vector<T> list_of(Members& members, std::string_view key, const Read& read) {
  std::vector<T> list;
  const json::value* const value = members.take(key);
  if (value == nullptr) return list;
  const std::string path = members.path_of(key);
  for (const json::value& element : array_of(*value, path)) {
    list.push_back(read(element, path + '[' + std::to_string(list.size()) + ']'));
  }
  return list;
}

IssueFilter filter_of(const json::value& value, const std::string& path) {
  Members members(value, path);
  const auto word = [](const json::value& v, const std::string& p) { return text_of(v, p, What::word); };
  IssueFilter filter{list_of<std::string>(members, "ids", word), list_of<std::string>(members, "labels", word),
                     list_of<IssueStatus>(members, "statuses", status_of)};
  members.done();
  return filter;
}

std::uint32_t weight_of(const json::value& value, const std::string& path) {
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  const std::int64_t* const number = value.if_int64();
  if (number == nullptr || *number < 1 || *number > most) {
    fail(path, "expected a whole number from 1 to " + std::to_string(most) + ", found " + shown(value));
  }
  return static_cast<std::uint32_t>(*number);
}

class Reader {
 public:
  GuardCondition read(const json::value& value, const std::string& path, std::size_t depth) {
    if (depth > GuardCondition::max_depth) {
      fail(path, "conditions are nested more than " + std::to_string(GuardCondition::max_depth) + " deep");
    }
    if (++count_ > GuardCondition::max_conditions) {
      fail(path, "there are more than " + std::to_string(GuardCondition::max_conditions) + " conditions");
    }
    Members members(value, path);
    const std::string type = text_of(members.need("type"), members.path_of("type"), What::word);
    std::optional<GuardCondition> condition;
    const bool known = coordination::with_type(type, [&]<class Kind>(Kind kind) {
      if constexpr (std::is_same_v<Kind, Not>) {
        const json::value& inner = members.need("condition");
        kind.condition = std::make_shared<const GuardCondition>(read(inner, members.path_of("condition"), depth + 1));
      } else if constexpr (coordination::is_composite<Kind>) {
        (void)members.need("conditions");
        kind.conditions = list_of<GuardCondition>(
            members, "conditions", [&](const json::value& v, const std::string& at) { return read(v, at, depth + 1); });
      } else {
        read_fields(kind, members);
      }
      condition = std::move(kind);
    });
    if (!known) {
      fail(members.path_of("type"),
           "there is no condition '" + base::shortened(type, 60) + "'; there are " + coordination::all_type_names());
    }
    members.done();
    return *std::move(condition);
  }

 private:
  template <class Kind>
  static void read_fields(Kind& kind, Members& members) {
    fields_of(kind, [&]<class T>(std::string_view name, T& value, What what) {
      const std::string path = members.path_of(name);
      if constexpr (std::is_same_v<T, std::string>) {
        value = text_of(members.need(name), path, what);
      } else if constexpr (std::is_same_v<T, IssueStatus>) {
        value = status_of(members.need(name), path);
      } else if (const json::value* const given = members.take(name)) {
        if constexpr (std::is_same_v<T, std::optional<std::string>>) {
          if (!given->is_null()) value = text_of(*given, path, what);
        } else if constexpr (std::is_same_v<T, bool>) {
          if (!given->is_bool()) fail(path, "expected true or false, found " + shown(*given));
          value = given->get_bool();
        } else if constexpr (std::is_same_v<T, std::uint32_t>) {
          value = weight_of(*given, path);
        } else {
          static_assert(std::is_same_v<T, IssueFilter>);
          value = filter_of(*given, path);
        }
      }
    });
  }

  std::size_t count_ = 0;
};

}  // namespace

std::string GuardCondition::json() const { return boost::json::serialize(written(*this)); }

GuardCondition GuardCondition::parse_json(std::string_view text) {
  if (text.size() > max_text) {
    throw ConditionError(0, "the condition is longer than " + std::to_string(max_text) + " bytes");
  }
  // An object and an array for each, and something over for a clearer message.
  json::value value;
  coordination::JsonFault fault;
  if (!coordination::parse_json(text, 4 * max_depth, value, fault)) {
    throw ConditionError(
        0, fault.what + " (line " + std::to_string(fault.line) + ", column " + std::to_string(fault.column) + ")");
  }
  GuardCondition condition = Reader().read(value, "$", 1);
  condition.check();  // as text it may be too long
  return condition;
}

}  // namespace shmcoord
