#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "base/printable.hpp"
#include "engine/layout.hpp"
#include "shmcoord/error.hpp"
#include "shmcoord/pipeline.hpp"

// How far a pipeline came, as one short line of JSON. What follows from the definition (the condition of a guard, what
// wakes it) is not in it.

namespace shmcoord {
namespace {

namespace json = boost::json;

constexpr std::string_view on_guard = "guard";
constexpr std::string_view on_holds = "holds";
// Of the reasons, if all of it would be too long for a reason of a hold.
constexpr std::size_t longest_reason = 2000;

json::string_view view_of(std::string_view text) { return {text.data(), text.size()}; }

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Errc::invalid_argument, "this is no progress of the pipeline: " + what);
}

std::string text_at(const json::object& object, std::string_view key) {
  const json::value* const value = object.if_contains(view_of(key));
  if (value == nullptr) return {};
  if (!value->is_string()) refuse("\"" + std::string(key) + "\" is no text");
  return {value->as_string().data(), value->as_string().size()};
}

template <class Enum, class Name>
Enum one_of(std::string_view text, int last, Name&& name) {
  for (int n = 0; n <= last; ++n) {
    if (name(static_cast<Enum>(n)) == text) return static_cast<Enum>(n);
  }
  refuse("'" + base::shortened(base::printable(text), 60) + "' is not known");
}

}  // namespace

std::string Pipeline::progress() const {
  for (std::size_t most = longest_reason;; most /= 2) {
    json::object object{
        {"status", view_of(to_string(status_))}, {"phase", view_of(phase().name)}, {"step", view_of(to_string(step_))}};
    if (blocked_) {
      object["on"] = view_of(blocked_->guard_id.empty() ? on_holds : on_guard);
      object["waiting_on"] = view_of(base::shortened(base::printable(blocked_->waiting_on), most));
    }
    if (!failure_.empty()) object["failure"] = view_of(base::shortened(base::printable(failure_), most));
    std::string text = json::serialize(object);
    if (text.size() <= engine::max_reason) return text;
  }
}

Pipeline Pipeline::with_progress(std::string_view text) const {
  boost::system::error_code error;
  const json::value value = json::parse(view_of(text), error);
  if (error || !value.is_object()) refuse("not an object of JSON");
  const json::object& object = value.as_object();
  Pipeline p = *this;
  p.status_ = one_of<PipelineStatus>(text_at(object, "status"), static_cast<int>(PipelineStatus::cancelled),
                                     [](PipelineStatus s) { return to_string(s); });
  p.step_ = one_of<PhaseStep>(text_at(object, "step"), static_cast<int>(PhaseStep::leaving),
                              [](PhaseStep s) { return to_string(s); });
  const std::string phase = text_at(object, "phase");
  p.current_ = phases_->size();
  for (std::size_t n = 0; n < phases_->size(); ++n) {
    if ((*phases_)[n].name == phase) p.current_ = n;
  }
  if (p.current_ == phases_->size()) {
    refuse("there is no phase '" + base::shortened(base::printable(phase), 60) + "'");
  }
  p.failure_ = text_at(object, "failure");
  p.blocked_.reset();
  if (p.status_ == PipelineStatus::waiting &&
      (p.current_ != 0 || p.step_ != PhaseStep::entering || !p.failure_.empty())) {
    refuse("one that waits was in no phase");
  }
  const bool goes_on = p.status_ == PipelineStatus::running || p.status_ == PipelineStatus::blocked;
  const GuardType type = p.step_ == PhaseStep::entering ? GuardType::pre : GuardType::post;
  const bool evaluates = p.step_ == PhaseStep::entering || p.step_ == PhaseStep::leaving;
  if (goes_on && evaluates && !p.guard_of(type)) refuse("phase '" + phase + "' has no such guard");
  if (goes_on && p.step_ == PhaseStep::acquiring && !p.phase().holds_anything()) {
    refuse("phase '" + phase + "' holds nothing");
  }
  if (p.status_ != PipelineStatus::blocked) return p;
  const std::string on = text_at(object, "on");
  const std::string waiting_on = text_at(object, "waiting_on");
  if (on == on_guard && evaluates) {
    p.blocked_ = p.blocked_on_guard(type, waiting_on);
  } else if (on == on_holds && p.step_ != PhaseStep::entering && p.phase().holds_anything()) {
    p.blocked_ = p.blocked_on_holds(waiting_on);
  } else {
    refuse("it cannot be blocked on '" + base::shortened(base::printable(on), 60) + "'");
  }
  return p;
}

}  // namespace shmcoord
