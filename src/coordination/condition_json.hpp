#pragma once

#include <boost/json/value.hpp>

#include "shmcoord/condition.hpp"

namespace shmcoord::coordination {

/// Of a value of a document that was read, as in GuardCondition::parse_json(). Throws JsonMistake. Not checked as a
/// whole yet; GuardCondition::check() does.
[[nodiscard]] GuardCondition condition_from(const boost::json::value& value);

}  // namespace shmcoord::coordination
