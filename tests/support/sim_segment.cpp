#include "support/sim_segment.hpp"

namespace shmcoord::sim {

namespace {

std::string index(EntryIndex i) { return i == engine::nil_entry ? "nil" : std::to_string(i); }

std::string show_status(std::uint64_t raw) {
  static constexpr std::array names{"free", "prepared", "waiting", "held", "marked", "lost", "member", "?7"};
  const engine::Status s = engine::unpack_status(raw);
  return std::string(names[static_cast<std::size_t>(s.phase)]) + "@" + std::to_string(s.stamp) + "/r" +
         std::to_string(s.record);
}
std::string show_link(std::uint64_t raw) {
  const engine::Link l = engine::unpack_link(raw);
  return index(l.entry) + "(" + std::to_string(l.stamp) + ")";
}
std::string show_handoff(std::uint64_t raw) {
  const engine::Handoff h = engine::unpack_handoff(raw);
  return index(h.entry) + "/" + std::to_string(static_cast<int>(h.loss)) + (h.moves_weight ? " weight" : "") + "(" +
         std::to_string(h.stamp) + ")";
}
std::string show_amount(std::uint64_t raw) {
  const engine::Amount a = engine::unpack_amount(raw);
  return std::to_string(a.amount) + "(" + std::to_string(a.stamp) + ")";
}
std::string show_control(std::uint64_t bits) {
  static constexpr std::array names{"none",   "acquire", "release", "handoff",    "enqueue", "grant",
                                    "cancel", "reclaim", "keep",    "close",      "merge",   "shrink",
                                    "resize", "join",    "leave",   "queue_first"};
  const core::Control c = core::unpack(0, bits);
  return std::string("{") + names[static_cast<std::size_t>(c.op)] + " " + index(c.last) +
         " used=" + std::to_string(c.used) + " tail=" + index(c.tail) + "}";
}

std::string show_claim(std::uint64_t raw) {
  const engine::JournalClaim c = engine::unpack_claim(raw);
  return "{source " + std::to_string(static_cast<int>(c.source)) + " " + std::to_string(c.index) + "@" +
         std::to_string(c.seq) + ", " + std::to_string(c.words) + " words}";
}
std::string show_journal_word(std::uint64_t raw) {
  const engine::JournalStamp stamp = engine::unpack_stamp(raw);
  return "lap " + std::to_string(stamp.lap) + (stamp.start ? " start" : "") + (stamp.voided ? " void" : "");
}

}  // namespace

void Segment::name_words(Scenario& s) const {
  s.name(&view_.header().journal, "journal");
  s.name(&view_.header().journal_tail, "tail");
  s.name(&view_.header().journal_tail.bits, "tail", show_claim);
  s.name(&view_.header().journal_parked, "parked");
  for (std::uint32_t w = 0; w < journal_words; ++w) {
    s.name(&view_.journal(w), "word " + std::to_string(w), show_journal_word);
    s.name(&view_.journal(w).bits, "word " + std::to_string(w));
  }
  for (RecordIndex r = 0; r < records; ++r) {
    engine::Record& rec = view_.record(r);
    const std::string who = "r" + std::to_string(r) + ".";
    s.name(&rec.control, who + "control");
    s.name(&rec.control.bits, who + "control", show_control);
    s.name(&rec.holder, who + "holder", show_link);
    s.name(&rec.previous, who + "previous", show_handoff);
    s.name(&rec.generation, who + "generation");
    s.name(&rec.capacity, who + "capacity", show_amount);
    s.name(&rec.journaled, who + "journaled");
    for (std::size_t w = 0; w < view_.notice(r).words.size(); ++w) {
      s.name(&view_.notice(r).words[w], who + "notice " + std::to_string(w));
      s.name(&view_.notice(r).words[w].bits, who + "notice " + std::to_string(w));
    }
  }
  for (unsigned p = 0; p < processes; ++p) {
    for (EntryIndex i = entry_of(p); i < entry_of(p) + entries_in_use; ++i) {
      Entry& e = view_.entry(i);
      const std::string who = "e" + std::to_string(i) + ".";
      s.name(&e.status, who + "status", show_status);
      s.name(&e.next, who + "next", show_link);
      s.name(&e.prev, who + "prev", show_link);
      s.name(&e.handoff, who + "handoff", show_handoff);
      s.name(&e.since_ns, who + "since");
      s.name(&e.heartbeat_ns, who + "heartbeat");
      s.name(&e.weight, who + "weight", show_amount);
      s.name(&e.wake, who + "wake");
      s.name(&e.flags, who + "flags");
    }
    s.name(&view_.owner_of(entry_of(p)), "owner of " + std::string(1, name_of(p)));
    s.name(&view_.slot(slot_of(p)).life, "life of " + std::string(1, name_of(p)));
    s.name(&view_.slot(slot_of(p)).signal, "signal of " + std::string(1, name_of(p)));
    s.name(&view_.slot(slot_of(p)).helping, "helping of " + std::string(1, name_of(p)));
  }
}

}  // namespace shmcoord::sim
