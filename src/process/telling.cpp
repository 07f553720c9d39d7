#include "process/telling.hpp"

#include <algorithm>

#include "engine/entry_text.hpp"
#include "engine/journal.hpp"
#include "engine/name_index.hpp"

namespace shmcoord::process {
namespace {

using engine::JournalDraft;
using engine::RealPolicy;
using engine::Told;

// Its texts stay the caller's.
struct Notice {
  JournalDraft draft;

  template <class Length>
  void set(std::size_t which, Length engine::JournalHead::*bytes, const std::string& text, std::size_t most) {
    draft.head.*bytes = static_cast<Length>(std::min(text.size(), most));
    draft.texts[which] = {text.data(), 0, false};
  }
  void name(const std::string& text) { set(0, &engine::JournalHead::name_bytes, text, engine::max_name); }
  void holder(const std::string& text) { set(1, &engine::JournalHead::holder_bytes, text, engine::max_holder); }
  void reason(const std::string& text) { set(2, &engine::JournalHead::reason_bytes, text, engine::max_reason); }
  void other(const std::string& text) { set(3, &engine::JournalHead::other_bytes, text, engine::max_holder); }
  void tell(const engine::View& view) const { (void)engine::Journal<RealPolicy>(view).notice(draft); }
};

std::int32_t pid_of(const engine::View& view, engine::EntryIndex entry) {
  const std::uint64_t owner = RealPolicy::load(view.owner_of(entry));
  if (owner == 0) return 0;
  const engine::SlotIndex s = engine::unpack_owner(owner).slot;
  return s != engine::detached_slot && view.slot_exists(s) ? RealPolicy::get(view.slot(s).pid) : 0;
}

// A notice about an entry of a name, with what every such notice says.
struct EntryNotice : Notice {
  EntryNotice(const engine::View& view, engine::RecordIndex record, engine::EntryIndex entry, Told told);
  ~EntryNotice() = default;
  EntryNotice(const EntryNotice&) = delete;  // its draft points to its texts
  EntryNotice& operator=(const EntryNotice&) = delete;

  std::string name_of_record;
  engine::EntryTexts texts;
};

EntryNotice::EntryNotice(const engine::View& view, engine::RecordIndex record, engine::EntryIndex entry, Told told) {
  const engine::Record& rec = view.record(record);
  engine::JournalHead& head = draft.head;
  head.told = told;
  if (RealPolicy::load(rec.kind) == static_cast<std::uint32_t>(engine::Kind::semaphore)) {
    head.flags = engine::told_semaphore;
  }
  const core::Control now = RealPolicy::load(rec.control);
  head.used = now.used;
  head.capacity = engine::unpack_amount(RealPolicy::load(rec.capacity)).amount;
  name_of_record = engine::NameIndex<RealPolicy>(view).name_of({record, RealPolicy::load(rec.generation)});
  name(name_of_record);
  engine::read_texts(view, entry, texts);
  holder(texts.holder);
  head.weight = engine::unpack_amount(RealPolicy::load(view.entry(entry).weight)).amount;
  head.pid = pid_of(view, entry);
}

}  // namespace

void tell_denied(const engine::View& view, engine::RecordIndex record, engine::EntryIndex asked,
                 const std::optional<HolderInfo>& holder) {
  if (!engine::Journal<RealPolicy>::wanted(view)) return;
  EntryNotice notice(view, record, asked, Told::denied);
  notice.draft.head.weight += RealPolicy::load(view.entry(asked).beside);  // with what it has already
  const std::string other = holder ? holder->holder : std::string();
  notice.other(other);
  notice.tell(view);
}

void tell_stale(const engine::View& view, engine::RecordIndex record, engine::EntryIndex held, Loss why) {
  if (!engine::Journal<RealPolicy>::wanted(view)) return;
  EntryNotice notice(view, record, held, Told::stale);
  notice.draft.set_loss(why);
  const engine::Status status = engine::unpack_status(RealPolicy::load(view.entry(held).status));
  notice.draft.set_token(engine::seq_of_stamp(status.stamp, RealPolicy::load_seq(view.record(record).control)));
  notice.tell(view);
}

void tell_event(const engine::View& view, const Event& event, std::int32_t pid) {
  if (!engine::Journal<RealPolicy>::wanted(view)) return;
  Notice notice;
  notice.draft.head.told = Told::named;
  notice.draft.head.index = static_cast<std::uint32_t>(event.kind);
  notice.draft.head.pid = pid;
  notice.name(event.subject);
  notice.holder(event.holder);
  notice.reason(event.reason);
  notice.other(event.other);
  notice.tell(view);
}

}  // namespace shmcoord::process
