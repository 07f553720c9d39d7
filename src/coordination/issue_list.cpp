#include "shmcoord/issue_list.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include <boost/json.hpp>

#include "base/printable.hpp"
#include "coordination/json_members.hpp"
#include "coordination/json_text.hpp"

// The export of a tracker, read.
//
// Problem: every tracker has words of its own, and exports more than conditions ask for; but an issue that is left out,
// or is there twice, would open a guard that should be closed. So what is not known about an issue is passed over, what
// is needed must be there, and a status of no known meaning is InProgress, which no condition takes for done, and is
// reported. It stands here and not beside the adapters because of Boost.JSON: the library has one copy of it, hidden,
// and a component that is linked into programs must not bring another.

namespace shmcoord {
namespace {

namespace json = boost::json;

constexpr std::size_t most_warnings = 20;

[[noreturn]] void fail(const std::string& what) { throw Error(Errc::invalid_argument, what); }
[[noreturn]] void fail(const std::string& path, const std::string& what) { fail(path + ": " + what); }

// Small letters only, without what trackers write differently between the parts of a word. Longer than any: empty.
struct PlainWord {
  std::array<char, 16> letters{};
  std::size_t size = 0;

  explicit PlainWord(std::string_view text) noexcept {
    for (const char c : text) {
      if (c == ' ' || c == '-' || c == '_' || c == '\'') continue;
      if (size == letters.size()) {
        size = 0;
        return;
      }
      letters[size++] = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  [[nodiscard]] std::string_view view() const noexcept { return {letters.data(), size}; }
};

struct Synonym {
  std::string_view word;
  IssueStatus status;
};

constexpr std::array synonyms{
    Synonym{"open", IssueStatus::to_do},          Synonym{"opened", IssueStatus::to_do},
    Synonym{"reopened", IssueStatus::to_do},      Synonym{"backlog", IssueStatus::to_do},
    Synonym{"new", IssueStatus::to_do},           Synonym{"ready", IssueStatus::to_do},
    Synonym{"unstarted", IssueStatus::to_do},     Synonym{"planned", IssueStatus::to_do},
    Synonym{"doing", IssueStatus::in_progress},   Synonym{"started", IssueStatus::in_progress},
    Synonym{"active", IssueStatus::in_progress},  Synonym{"wip", IssueStatus::in_progress},
    Synonym{"review", IssueStatus::in_progress},  Synonym{"inreview", IssueStatus::in_progress},
    Synonym{"onhold", IssueStatus::blocked},      Synonym{"waiting", IssueStatus::blocked},
    Synonym{"closed", IssueStatus::done},         Synonym{"resolved", IssueStatus::done},
    Synonym{"completed", IssueStatus::done},      Synonym{"complete", IssueStatus::done},
    Synonym{"fixed", IssueStatus::done},          Synonym{"finished", IssueStatus::done},
    Synonym{"canceled", IssueStatus::cancelled},  Synonym{"wontfix", IssueStatus::cancelled},
    Synonym{"wontdo", IssueStatus::cancelled},    Synonym{"notplanned", IssueStatus::cancelled},
    Synonym{"duplicate", IssueStatus::cancelled}, Synonym{"invalid", IssueStatus::cancelled},
    Synonym{"rejected", IssueStatus::cancelled},  Synonym{"abandoned", IssueStatus::cancelled},
};

json::value parsed(std::string_view text) {
  json::value value;
  coordination::JsonFault fault;
  if (!coordination::parse_json(text, 64, value, fault)) {
    fail(fault.what + " at line " + std::to_string(fault.line) + ", column " + std::to_string(fault.column));
  }
  return value;
}

class Reader {
 public:
  Reader(std::string_view text, const json::value& root) : text_(text), root_(root) {}

  IssueList read() {
    std::string path = "$";
    const json::value* list = &root_;
    if (const json::object* const object = root_.if_object()) {
      path = "$.issues";
      list = object->if_contains("issues");
      if (list == nullptr) fail("$", "expected an array of issues, or an object with \"issues\"");
    }
    if (!list->is_array()) fail(path, "expected an array of issues, found " + shown(*list));
    std::size_t index = 0;
    for (const json::value& issue : list->get_array()) add(issue, path + '[' + std::to_string(index++) + ']');
    report();
    return std::move(list_);
  }

 private:
  [[nodiscard]] std::string shown(const json::value& value) const {
    if (value.is_object()) return "an object";
    return value.is_array() ? "an array" : coordination::shown(text_, root_, value);
  }

  struct Unknown {
    std::string first;  // id of the first issue with it
    std::size_t count = 0;
  };

  void add(const json::value& value, const std::string& path) {
    const json::object* const object = value.if_object();
    if (object == nullptr) fail(path, "expected an object, found " + shown(value));
    Issue issue;
    const auto [id, id_key] = need(*object, {"id", "number"}, path);
    issue.id = id_of(*id, path + id_key);
    if (!ids_.insert(issue.id).second) fail(path + id_key, "'" + base::shortened(issue.id, 60) + "' is there twice");
    const auto [status, status_key] = need(*object, {"status", "state"}, path);
    issue.status = status_of(*status, path + status_key, issue.id);
    if (const json::value* const labels = object->if_contains("labels"); labels != nullptr && !labels->is_null()) {
      issue.labels = labels_of(*labels, path + ".labels");
    }
    list_.issues.push_back(std::move(issue));
  }

  /// By our word or, if that is missing, by that of others; and which it was.
  static std::pair<const json::value*, std::string> need(const json::object& object, std::array<const char*, 2> keys,
                                                         const std::string& path) {
    for (const char* const key : keys) {
      if (const json::value* const value = object.if_contains(key)) return {value, std::string(".") + key};
    }
    fail(path, "\"" + std::string(keys[0]) + "\" is missing");
  }
  [[nodiscard]] std::string text_of(const json::value& value, const std::string& path) const {
    if (!value.is_string()) fail(path, "expected a text, found " + shown(value));
    const json::string& text = value.get_string();
    if (text.empty()) fail(path, "is empty");
    return {text.data(), text.size()};
  }
  [[nodiscard]] std::string id_of(const json::value& value, const std::string& path) const {
    if (const std::int64_t* const number = value.if_int64()) return std::to_string(*number);
    if (const std::uint64_t* const number = value.if_uint64()) return std::to_string(*number);
    if (!value.is_string()) fail(path, "expected a text or a whole number, found " + shown(value));
    return text_of(value, path);
  }
  [[nodiscard]] std::vector<std::string> labels_of(const json::value& value, const std::string& path) const {
    if (!value.is_array()) fail(path, "expected an array of texts, found " + shown(value));
    std::vector<std::string> labels;
    for (const json::value& label : value.get_array()) {
      const std::string at = path + '[' + std::to_string(labels.size()) + ']';
      const json::object* const object = label.if_object();
      const json::value* const name = object == nullptr ? nullptr : object->if_contains("name");
      labels.push_back(name == nullptr ? text_of(label, at) : text_of(*name, at + ".name"));
    }
    return labels;
  }

  IssueStatus status_of(const json::value& value, const std::string& path, const std::string& id) {
    const std::string text = text_of(value, path);
    if (const std::optional<IssueStatus> status = issue_status_like(text)) return *status;
    Unknown& unknown = unknown_[text];
    if (unknown.count++ == 0) unknown.first = id;
    return IssueStatus::in_progress;
  }

  void report() {
    for (const auto& [text, unknown] : unknown_) {
      if (list_.warnings.size() == most_warnings) {
        list_.warnings.push_back("and more statuses that are not known: " + std::to_string(unknown_.size()) +
                                 " in all");
        return;
      }
      const std::string others = unknown.count == 1 ? "" : " and " + std::to_string(unknown.count - 1) + " more";
      list_.warnings.push_back("status '" + base::shortened(text, 60) + "' is not known, taken as InProgress: issue '" +
                               base::shortened(unknown.first, 60) + "'" + others);
    }
  }

  std::string_view text_;
  const json::value& root_;
  IssueList list_;
  std::set<std::string> ids_;
  std::map<std::string, Unknown> unknown_;
};

}  // namespace

std::optional<IssueStatus> issue_status_like(std::string_view text) noexcept {
  if (const auto exact = issue_status_from(text)) return exact;
  const PlainWord word(text);
  if (word.size == 0) return std::nullopt;
  for (const IssueStatus status : {IssueStatus::to_do, IssueStatus::in_progress, IssueStatus::blocked,
                                   IssueStatus::done, IssueStatus::cancelled}) {
    if (PlainWord(to_string(status)).view() == word.view()) return status;
  }
  const auto* const at = std::find_if(synonyms.begin(), synonyms.end(),
                                      [&](const Synonym& synonym) { return synonym.word == word.view(); });
  return at == synonyms.end() ? std::nullopt : std::optional(at->status);
}

IssueList issues_from_json(std::string_view text) {
  if (text.size() > max_issue_text) fail("the issues are longer than " + std::to_string(max_issue_text) + " bytes");
  const json::value root = parsed(text);
  return Reader(text, root).read();
}

}  // namespace shmcoord
