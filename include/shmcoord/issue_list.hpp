#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shmcoord/condition.hpp"
#include "shmcoord/export.hpp"

// Issues as a tracker exports them, read into those of conditions (C-54). Pure: a text comes in, and nothing is lost if
// the process dies here. Where the text comes from is the matter of a port (adapters.hpp has two).

namespace shmcoord {

/// What issues_from_json() read.
struct IssueList {
  std::vector<Issue> issues = {};
  /// One line for people per status that no word is known for; those issues count as InProgress (C-54).
  std::vector<std::string> warnings = {};
};

/// Bytes of JSON that are read at most.
inline constexpr std::size_t max_issue_text = std::size_t{16} << 20U;

/// An array of objects, or an object with such an array as "issues":
///
///   [{"id": "A-7", "status": "In Progress", "labels": ["urgent"]}, {"id": 8, "status": "closed"}]
///
/// "id" is a text or a whole number, "labels" may be missing or null, other members are passed over. Each id stands
/// there once. As others write them: "number" for a missing id, "state" for a missing status, and labels that are
/// objects with a "name", so that `gh issue list --json number,state,labels` is understood. Throws Error
/// invalid_argument with one line: no JSON (line and column), or the path of what is wrong (`$[3].status`).
/// Thread-safe.
[[nodiscard]] SHMCOORD_EXPORT IssueList issues_from_json(std::string_view text);

/// What trackers mean by the words that they use; whether letters are capital, and blanks, '-', '_' and apostrophes,
/// make no difference. Nothing for a word that is not known. Thread-safe, never throws.
[[nodiscard]] SHMCOORD_EXPORT std::optional<IssueStatus> issue_status_like(std::string_view text) noexcept;

}  // namespace shmcoord
