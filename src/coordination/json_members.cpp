#include "coordination/json_members.hpp"

#include <algorithm>

#include <boost/json.hpp>

#include "base/printable.hpp"
#include "base/utf8.hpp"

namespace shmcoord::coordination {
namespace {

namespace json = boost::json;

/// Appends to the path what leads to the value. False: it is not in there.
bool find(const json::value& here, const json::value* wanted, std::string& path) {
  if (&here == wanted) return true;
  const std::size_t length = path.size();
  const auto in = [&](const json::value& child, const std::string& step) {
    path += step;
    if (find(child, wanted, path)) return true;
    path.resize(length);
    return false;
  };
  if (const json::object* const object = here.if_object()) {
    return std::any_of(object->begin(), object->end(), [&](const json::key_value_pair& member) {
      return in(member.value(), '.' + base::shortened(std::string_view(member.key()), 60));
    });
  }
  std::size_t index = 0;
  const json::array* const array = here.if_array();
  return array != nullptr && std::any_of(array->begin(), array->end(), [&](const json::value& element) {
           return in(element, '[' + std::to_string(index++) + ']');
         });
}

/// Of a number, or of true, false and null.
std::size_t end_of_word(std::string_view text, std::size_t at) {
  return std::min(text.find_first_of(",]} \t\n\r", at), text.size());
}

// Walks through the text and the document that was made of it side by side, as far as the value that is wanted. An
// object keeps its members in the order of the text.
class Walk {
 public:
  Walk(std::string_view text, const JsonMistake& wanted) : text_(text), wanted_(&wanted) {}

  std::size_t run(const json::value& root) {
    (void)to(root, 0);
    return at_;
  }

 private:
  bool to(const json::value& here, std::size_t key_at) {
    skip_between();
    if (&here == wanted_->value) {
      if (wanted_->of_key) at_ = key_at;
      if (wanted_->character != 0) go_to_character();
      return true;
    }
    if (here.is_string()) {
      skip_string();
    } else if (here.is_object() || here.is_array()) {
      ++at_;
      if (in(here)) return true;
      skip_between();
      ++at_;
    } else {
      at_ = end_of_word(text_, at_);
    }
    return false;
  }
  bool in(const json::value& here) {
    if (const json::array* const array = here.if_array()) {
      return std::any_of(array->begin(), array->end(), [&](const json::value& element) { return to(element, at_); });
    }
    const json::object& object = here.get_object();
    return std::any_of(object.begin(), object.end(), [&](const json::key_value_pair& member) {
      skip_between();
      const std::size_t key_at = at_;
      skip_string();
      return to(member.value(), key_at);
    });
  }

  void skip_between() { at_ = std::min(text_.find_first_not_of(" \t\n\r,:", at_), text_.size()); }
  void skip_string() {
    ++at_;
    while (!at_quote()) at_ += text_[at_] == '\\' ? 2U : 1U;
    ++at_;
  }
  [[nodiscard]] bool at_quote() const { return at_ >= text_.size() || text_[at_] == '"'; }

  // From the quote of a string to its nth character; one behind the last is the quote that ends it.
  void go_to_character() {
    ++at_;
    for (std::size_t n = 1; n < wanted_->character && !at_quote(); ++n) {
      char32_t code = 0;
      const std::string_view rest = text_.substr(at_);
      if (rest.starts_with("\\u")) {
        // \ud83d\ude00 is one.
        const bool pair = rest.size() > 3 && (rest[2] == 'd' || rest[2] == 'D') &&
                          std::string_view("89abAB").find(rest[3]) != std::string_view::npos;
        at_ += pair ? 12 : 6;
      } else {
        at_ += rest.front() == '\\' ? 2 : std::max<std::size_t>(1, base::utf8_sequence(rest, &code));
      }
    }
  }

  std::string_view text_;
  const JsonMistake* wanted_;
  std::size_t at_ = 0;
};

}  // namespace

std::string path_of(const json::value& root, const JsonMistake& mistake) {
  std::string path = "$";
  (void)find(root, mistake.value, path);
  return path;
}

std::size_t byte_of(std::string_view text, const json::value& root, const JsonMistake& mistake) {
  return Walk(text, mistake).run(root);
}

std::string shown(std::string_view text, const json::value& root, const json::value& value) {
  if (!value.is_double()) return base::shortened(json::serialize(value), 60);
  text.remove_prefix(byte_of(text, root, {&value, {}}));
  return base::shortened(text.substr(0, end_of_word(text, 0)), 60);
}

std::string what_of(std::string_view text, const json::value& root, const JsonMistake& mistake) {
  return mistake.what + (mistake.found ? ", found " + shown(text, root, *mistake.value) : "");
}

void fail_expected(const json::value& value, std::string_view expected) {
  JsonMistake mistake{&value, "expected " + std::string(expected)};
  mistake.found = true;
  throw mistake;
}

std::string text_of(const json::value& value, std::string_view expected) {
  if (!value.is_string()) fail_expected(value, expected);
  const json::string& text = value.get_string();
  return {text.data(), text.size()};
}

const json::array& array_of(const json::value& value, std::string_view expected) {
  if (!value.is_array()) fail_expected(value, expected);
  return value.get_array();
}

std::uint32_t number_of(const json::value& value, std::uint32_t most) {
  const std::int64_t* const number = value.if_int64();
  if (number == nullptr || *number < 1 || *number > std::int64_t{most}) {
    fail_expected(value, "a whole number from 1 to " + std::to_string(most));
  }
  return static_cast<std::uint32_t>(*number);
}

Members::Members(const json::value& value, std::string_view expected) : value_(&value) {
  if (!value.is_object()) fail_expected(value, expected);
}

const json::value* Members::take(std::string_view key) {
  const json::value* const member = value_->get_object().if_contains(json::string_view(key));
  known_.push_back(key);
  if (member != nullptr) ++taken_;
  return member;
}

const json::value& Members::need(std::string_view key) {
  const json::value* const member = take(key);
  if (member == nullptr) throw JsonMistake{value_, "\"" + std::string(key) + "\" is missing"};
  return *member;
}

void Members::done() const {
  const json::object& object = value_->get_object();
  if (taken_ == object.size()) return;
  const auto* const other = std::find_if(object.begin(), object.end(), [&](const json::key_value_pair& member) {
    return std::find(known_.begin(), known_.end(), std::string_view(member.key())) == known_.end();
  });
  std::string known;
  for (const std::string_view key : known_) known += (known.empty() ? "" : ", ") + std::string(key);
  throw JsonMistake{
      &other->value(),
      "\"" + base::shortened(std::string_view(other->key()), 60) + "\" is not known here; there are " + known, true};
}

void Members::only(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) (void)take(key);
  done();
}

}  // namespace shmcoord::coordination
