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
//   G1  The parts of one try have one tag, which nobody else uses, and name the session that writes them, which is one.
//   G2  The last part weighs more than half of all permits, so one try at most has it. The text is the try that is
//       whole. Nobody can be whole beside it, so who withdraws, or is found dead half way, was never the text.
//   G3  Who adds writes all its parts, the last one last. Where that has no room, another one has it: whoever is
//       refused takes its parts away and looks again.
//   G4  A try that is not whole will never be, if its session is dead, or if its last part is there: whoever wrote that
//       one writes no other any more. Anybody may take it away. So may he all that lies beside, if there is no text and
//       no session alive that may be about to make one: it is of an earlier text, since what lies beside a text is
//       written when there is one, and is its own by its tag.
//
// If we die here: parts of a try that is not whole are nobody's text; they go with the next add, the removal of the
// name, or a pass of the reaper. The removal takes the parts one by one; half done, a text of one part is gone, and one
// of several is incomplete, which counts as gone, and goes likewise.
//
// tests/coordination/pipeline_interleaving goes through all orders of these steps.
//
// What was rejected: a table of its own (another layout for what few will use); a lock around adding (whose holder may
// sleep); several whole tries, of which the first counts (the second would be the text for a moment, when the first one
// is removed while it is being withdrawn).

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

/// More than half of all permits: of the last part of a text.
inline constexpr std::uint32_t text_weight = process::whole_lock / 2 + 1;
/// For what there can be once beside a text: two of them and a text have no room.
inline constexpr std::uint32_t once_weight = (process::whole_lock - text_weight) / 2 + 1;

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
/// Throws table_full, no_space, wrong_type, in_use (others add and remove it all the time).
[[nodiscard]] AddedText add_text(const std::shared_ptr<process::Participant>& participant, engine::Kind kind,
                                 std::string_view name, std::string_view text);
/// The holders of the text's parts: without any of them it is gone.
[[nodiscard]] std::vector<std::string> parts_of_text(const process::LockView& seen);

// --- what the dead left ----------------------------------------------------------------------------------------------

/// The holders of all that is nobody's (G4).
[[nodiscard]] std::vector<std::string> remains_of(const engine::Mapping& mapping, const process::LockView& seen);

struct Remains {
  engine::Kind kind = engine::Kind::guard;
  std::string name;
  std::vector<std::string> holders;
};
/// Of all names.
[[nodiscard]] std::vector<Remains> all_remains(const engine::Mapping& mapping, std::int64_t now_ns);
/// And the name, when it is empty by that.
void take_away(const std::shared_ptr<process::Participant>& participant, const Remains& remains);
/// Unless somebody has something in it, or it is gone.
void remove_empty(const process::PrimitiveClient& client);

}  // namespace shmcoord::coordination
