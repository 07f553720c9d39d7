#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/segment_file.hpp"
#include "process/participant.hpp"
#include "process/primitive_client.hpp"
#include "process/snapshot.hpp"

// A text that lies in a segment under a name: the definition of a guard or a pipeline.
//
// Problem. It is longer than any field of a record, must be there whole or not at all whenever its maker dies, must
// outlive it, and must be readable by whoever may only look. So it is written into what outlives a process already:
// detached holds of the name, without a lease, each with up to 4096 bytes of the text as its reason. The holder says
// which part it is, of how many, and of which try to add it: "part 1/3 of 5f…".
//
// Invariants.
//   G1  The parts of one try have one tag, which nobody else uses, and were written by one process.
//   G2  A try is complete when all its parts are there; when, is the token of the last one, which is a sequence of the
//       control word, so that all tries have an order. The first that was completed is the text, for as long as the
//       name lives: a later one cannot become it.
//   G3  Who adds writes all its parts, then looks which try is the text, and takes away all parts of the others; also
//       those that somebody is about to complete: he finds them missing, looks, and finds the text.
//
// If we die here: parts of an incomplete try are nobody's text, and go with the next add or the removal of the name.
// The removal takes the parts one by one and closes the name; half done, a text of one part is gone, and one of several
// is incomplete, which counts as gone.
//
// What was rejected: a table of its own (another layout for what few will use), and a lock around adding (whose holder
// may sleep).

namespace shmcoord::coordination {

struct StoredText {
  engine::RecordIndex record = 0;
  std::uint64_t generation = 0;  // of the record: the text does not change within one
  std::string tag;               // nobody else's, ever
  std::string text;
  engine::EntryIndex part = 0;  // any of its parts
};

/// The longest that there can be, in bytes.
inline constexpr std::size_t max_stored_text = std::size_t{1000} * engine::max_reason;

/// Makes a hold of the name, by that holder, that says the text, outlives this process, and ends only when somebody
/// gives it back. At most max_reason bytes. Throws table_full, which says for `what` there is no room; no_space.
void keep(process::PrimitiveClient& client, const std::string& holder, std::string_view text, std::string_view what);

/// A tag that nobody else has.
[[nodiscard]] std::string fresh_tag();

/// The name as it is at one moment; nothing: there is none. Throws wrong_type, segment_corrupt.
[[nodiscard]] std::optional<process::LockView> look_at(const engine::Mapping& mapping, engine::Kind kind,
                                                       std::string_view name);
/// What a picture of the name says; nothing: none is complete.
[[nodiscard]] std::optional<StoredText> stored_text(const process::LockView& seen);
/// Is the name still what that was found under? Without a look at the text, which may have lost a part by force.
[[nodiscard]] bool is_still(const engine::Mapping& mapping, std::string_view name, const StoredText& stored);

struct AddedText {
  StoredText there;   // this one, or the one that was there before
  bool mine = false;  // it was added here
};
enum class Tries : std::uint8_t { all, own };
/// `taken_away`: of those that are not the text. Throws table_full, no_space, wrong_type, in_use (others add and remove
/// it all the time).
[[nodiscard]] AddedText add_text(const std::shared_ptr<process::Participant>& participant, engine::Kind kind,
                                 std::string_view name, std::string_view text, Tries taken_away = Tries::all);
/// The holders of all parts that were seen, those of the text last: in this order they can be taken away.
[[nodiscard]] std::vector<std::string> parts_seen(const process::LockView& seen);

}  // namespace shmcoord::coordination
