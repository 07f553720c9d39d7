#include "coordination/condition_json.hpp"

#include <limits>
#include <memory>
#include <optional>

#include <boost/json.hpp>

#include "base/printable.hpp"
#include "coordination/condition_fields.hpp"
#include "coordination/json_members.hpp"
#include "coordination/json_text.hpp"

// Conditions as JSON: {"type": …} with the fields of the kind; composites have "conditions", `not` has "condition".
// Whatever is there that does not belong there is a mistake: a field that is passed over in silence would be a guard
// that guards nothing.

namespace shmcoord {
namespace {

namespace json = boost::json;
using coordination::check_word;
using coordination::fields_of;
using coordination::Members;
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

[[noreturn]] void fail(const json::value& value, const std::string& what) {
  throw coordination::JsonMistake{&value, what};
}

std::string word_of(const json::value& value, What what) {
  std::string word = coordination::text_of(value);
  if (const std::string_view why = check_word(word, what); !why.empty()) {
    fail(value, "'" + base::shortened(word, 60) + "' " + std::string(why));
  }
  return word;
}

IssueStatus status_of(const json::value& value) {
  const auto status = value.is_string() ? issue_status_from(std::string_view(value.get_string())) : std::nullopt;
  if (!status) coordination::fail_expected(value, coordination::issue_statuses);
  return *status;
}

template <class T, class Read>
std::vector<T> list_of(Members& members, std::string_view key, const Read& read) {
  std::vector<T> list;
  const json::value* const value = members.take(key);
  if (value == nullptr) return list;
  for (const json::value& element : coordination::array_of(*value, "an array")) list.push_back(read(element));
  return list;
}

IssueFilter filter_of(const json::value& value) {
  Members members(value);
  const auto word = [](const json::value& v) { return word_of(v, What::word); };
  IssueFilter filter{list_of<std::string>(members, "ids", word), list_of<std::string>(members, "labels", word),
                     list_of<IssueStatus>(members, "statuses", status_of)};
  members.done();
  return filter;
}

class Reader {
 public:
  GuardCondition read(const json::value& value, std::size_t depth) {
    if (depth > GuardCondition::max_depth) {
      fail(value, "conditions are nested more than " + std::to_string(GuardCondition::max_depth) + " deep");
    }
    if (++count_ > GuardCondition::max_conditions) {
      fail(value, "there are more than " + std::to_string(GuardCondition::max_conditions) + " conditions");
    }
    Members members(value);
    const json::value& type_value = members.need("type");
    const std::string type = word_of(type_value, What::word);
    std::optional<GuardCondition> condition;
    const bool known = coordination::with_type(type, [&]<class Kind>(Kind kind) {
      if constexpr (std::is_same_v<Kind, Not>) {
        kind.condition = std::make_shared<const GuardCondition>(read(members.need("condition"), depth + 1));
      } else if constexpr (coordination::is_composite<Kind>) {
        for (const json::value& child : coordination::array_of(members.need("conditions"), "an array")) {
          kind.conditions.push_back(read(child, depth + 1));
        }
      } else {
        read_fields(kind, members);
      }
      condition = std::move(kind);
    });
    if (!known) {
      fail(type_value,
           "there is no condition '" + base::shortened(type, 60) + "'; there are " + coordination::all_type_names());
    }
    members.done();
    return *std::move(condition);
  }

 private:
  template <class Kind>
  static void read_fields(Kind& kind, Members& members) {
    fields_of(kind, [&]<class T>(std::string_view name, T& value, What what) {
      if constexpr (std::is_same_v<T, std::string>) {
        value = word_of(members.need(name), what);
      } else if constexpr (std::is_same_v<T, IssueStatus>) {
        value = status_of(members.need(name));
      } else if (const json::value* const given = members.take(name)) {
        if constexpr (std::is_same_v<T, std::optional<std::string>>) {
          if (!given->is_null()) value = word_of(*given, what);
        } else if constexpr (std::is_same_v<T, bool>) {
          if (!given->is_bool()) coordination::fail_expected(*given, "true or false");
          value = given->get_bool();
        } else if constexpr (std::is_same_v<T, std::uint32_t>) {
          value = coordination::number_of(*given, std::numeric_limits<std::uint32_t>::max());
        } else {
          static_assert(std::is_same_v<T, IssueFilter>);
          value = filter_of(*given);
        }
      }
    });
  }

  std::size_t count_ = 0;
};

}  // namespace

GuardCondition coordination::condition_from(const json::value& value) { return Reader().read(value, 1); }

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
  try {
    GuardCondition condition = coordination::condition_from(value);
    condition.check();  // as text it may be too long
    return condition;
  } catch (const coordination::JsonMistake& mistake) {
    throw ConditionError(0, coordination::path_of(value, mistake) + ": " + coordination::what_of(text, value, mistake));
  }
}

}  // namespace shmcoord
