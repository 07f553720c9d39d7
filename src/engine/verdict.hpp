#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "engine/control.hpp"
#include "engine/notice.hpp"

// The last verdict of a registered guard: passed or not, why, when, and by which process.
//
// Problem. Many may evaluate one guard at once, each may be killed or stopped anywhere, and whoever looks has no right
// to change anything. What is shown must be one verdict as somebody reached it, never a mixture of two, and never one
// that was overtaken long ago by a process that slept.
//
// A guard has no robbed holders to tell of, so the verdict lies where a lock keeps that notice (notice.hpp): in words
// of which each carries a stamp and is set by CAS. The record's `previous` word says which stamp is the verdict.
//
//   1  use up a sequence of the control word: it is the stamp, and nobody else's for ever
//   2  set each word that the text needs, from whatever it is, while the control word still has that sequence
//   3  set `previous` to the stamp, likewise
//   A reader takes the stamp from `previous`, and the verdict only if every word has it.
//
// Invariants.
//   V1  Words of one stamp are of one verdict: one process has the stamp, and writes each word once.
//   V2  Who is overtaken (the sequence moved on) stops, and begins anew with a later sequence. What it still does by
//       the one CAS that it was about to do changes a word that no later one has set yet; the later one finds its own
//       CAS failed and does it again. So the latest is always written whole.
//   V3  A later sequence can be an evaluation that dies, or a part of the definition that comes or goes; then the
//       verdict before is shown as long as its words stand, and afterwards none. None is no lie: the next evaluation
//       gives one.
//
// If we die here: after 1 nothing changed; in 2 no verdict is known, or the one before if none of its words was taken;
// after 3 it is done. Nothing has to be recovered: the next evaluation writes over it.
//
// In the next life of the record `previous` begins with the stamp of that birth (name_index.hpp), so that one who
// slept since an earlier life changes nothing.

namespace shmcoord::engine {

inline constexpr std::size_t max_verdict = 255;  // bytes; its length is one byte of the words

struct Verdict {
  bool passed = false;
  std::int32_t pid = 0;
  std::int64_t at_ns = 0;
  std::string reason;
};

/// Sets the verdict. `refreshed`: it stands, or a later one does; closed, corrupt, exhausted: as of every operation;
/// `busy`: so many others came in between that it was given up. A reason that is too long has to be cut by the caller.
/// `sake` is any entry of the record. The pages must exist.
template <class P>
Step write_verdict(const ControlOps<P>& ops, EntryIndex sake, bool passed, std::int32_t pid, std::int64_t at_ns,
                   std::string_view reason) noexcept {
  const View& view = ops.view();
  const RecordIndex record = ops.index();
  const std::size_t bytes = std::min(reason.size(), max_verdict - 1) + 1;
  if (!detail::notice_exists(view, record, bytes)) return Step::busy;
  detail::NoticeBytes payload{};
  std::memcpy(&payload[0], &pid, sizeof pid);
  std::memcpy(&payload[sizeof pid], &at_ns, sizeof at_ns);
  payload[notice_head_bytes - 1] = static_cast<char>(bytes);
  payload[notice_head_bytes] = passed ? 'P' : 'F';
  if (bytes > 1) std::memcpy(&payload[notice_head_bytes + 1], reason.data(), bytes - 1);
  constexpr int tries = 100;
  for (int n = 0; n < tries; ++n) {
    const Result mine = ops.use_up_sequence(sake);
    if (mine.step != Step::refreshed) return mine.step;
    const auto current = [&] { return P::load_seq(ops.record().control) == mine.seq; };
    const std::uint64_t stamp = handoff_stamp(record, mine.seq);
    bool whole = true;
    for (std::size_t at = 0; whole && at < detail::notice_words_of(bytes); ++at) {
      Word128& word = detail::notice_word(view, record, at);
      for (;;) {
        const core::Packed read = core::pack(P::load(word));
        whole = !P::keeps(Safety::verdict_word_current) || current();
        if (!whole) break;
        const core::Packed next =
            detail::notice_word_of(static_cast<std::uint32_t>(stamp), &payload[at * notice_word_bytes]);
        if (P::cas(word, read, next)) break;
      }
    }
    while (whole) {
      const std::uint64_t read = P::load(ops.record().previous);
      whole = !P::keeps(Safety::verdict_current) || current();
      if (whole && P::cas(ops.record().previous, read, pack(Handoff{nil_entry, Loss::none, stamp}))) {
        return Step::refreshed;
      }
    }
  }
  return Step::busy;
}

/// The verdict that stands, if one is known. Changes nothing.
template <class P>
std::optional<Verdict> read_verdict(const View& view, RecordIndex record) {
  const Handoff current = unpack_handoff(P::load(view.record(record).previous));
  if (current.loss != Loss::none) return std::nullopt;  // a part was taken away by force
  NoticeText text = read_notice<P>(view, record, current.stamp);
  if (text.holder.empty() || (text.holder[0] != 'P' && text.holder[0] != 'F')) return std::nullopt;
  return Verdict{text.holder[0] == 'P', text.pid, text.since_ns, text.holder.substr(1)};
}

}  // namespace shmcoord::engine
