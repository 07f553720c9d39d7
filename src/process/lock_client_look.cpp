#include <string>
#include <utility>

#include "engine/entry_text.hpp"
#include "engine/name_index.hpp"
#include "engine/segment_file.hpp"
#include "process/clock.hpp"
#include "process/lock_client.hpp"

// Who holds it, who lost it, where a waiter stands.

namespace shmcoord::process {
namespace {

using engine::RealPolicy;
using engine::Step;

}  // namespace

// --- looking ---------------------------------------------------------------------------------------------------------

const engine::View& LockClient::view() const noexcept { return participant_->mapping().view(); }

LockClient::Ops LockClient::ops() const noexcept {
  const std::scoped_lock lock(record_mutex_);
  return ops_;
}

std::int64_t LockClient::default_ttl_ns() const noexcept {
  const std::scoped_lock lock(record_mutex_);
  return config_.ttl_ns;
}

auto LockClient::look(const Ops& ops) const -> Seen {
  for (;;) {
    const core::Control c = ops.load();
    if (RealPolicy::load(ops.record().generation) != ops.generation() || c.op == core::Op::close) {
      return {true, std::nullopt};
    }
    if (!ops.finish(c)) fail(Step::corrupt);
    if (c.used == 0) return {false, std::nullopt};
    const engine::EntryIndex entry =
        c.op == core::Op::acquire ? c.last : engine::unpack_link(RealPolicy::load(ops.record().holder)).entry;
    if (!view().entry_exists(entry)) {
      if (RealPolicy::load_seq(ops.record().control) != c.seq) continue;
      return {false, std::nullopt};
    }
    const engine::Status status = ops.status(entry);
    if (RealPolicy::load_seq(ops.record().control) != c.seq) continue;
    if (status.record != ops.index()) return {false, std::nullopt};
    return {false, Current{ops, entry, engine::seq_of_stamp(status.stamp, c.seq)}};
  }
}

// Nobody holds a name that is gone. It is not made anew for a look.
std::optional<LockClient::Current> LockClient::current() {
  for (Ops ops = this->ops();;) {
    Seen seen = look(ops);
    if (!seen.closed) return seen.holder;
    const auto found = engine::NameIndex<RealPolicy>(view()).find(name_);
    if (!found) return std::nullopt;
    ops = Ops(view(), found->record, found->generation);
  }
}

std::optional<LockClient::Current> LockClient::detached_hold(std::string_view holder) {
  const auto now = current();
  if (!now) return std::nullopt;
  const engine::View& view = this->view();
  const std::uint64_t owner = RealPolicy::load(view.owner_of(now->entry));
  if (owner == 0 || engine::unpack_owner(owner).slot != engine::detached_slot) return std::nullopt;
  if (!engine::holder_equals(view, now->entry, holder)) return std::nullopt;
  return now;
}

bool LockClient::is_current(std::uint64_t token) {
  participant_->require_usable();
  const auto now = current();
  return now && now->token == token;
}

bool LockClient::stands(std::string_view holder, std::uint64_t token) {
  if (!participant_->usable()) return false;
  const std::scoped_lock lock(mutex_);
  const Hold* const hold = find_hold(holder);
  return hold != nullptr && hold->state == Hold::State::held && hold->token == token &&
         hold->ops.holds(hold->entry, token);
}

std::optional<HolderInfo> LockClient::holder() {
  const auto now = current();
  if (!now) return std::nullopt;
  return describe(now->entry, now->token);
}

HolderInfo LockClient::describe(engine::EntryIndex entry, std::uint64_t token) {
  const engine::View& view = this->view();
  const engine::Entry& e = view.entry(entry);
  HolderInfo info;
  engine::EntryTexts texts = engine::read_texts(view, entry);
  info.holder = std::move(texts.holder);
  info.reason = std::move(texts.reason);
  info.token = token;
  info.pid = RealPolicy::get(e.bound_pid);
  const auto since = static_cast<std::int64_t>(RealPolicy::load(e.since_ns));
  info.held_for = std::chrono::nanoseconds(core::age_ns(since, real_clock().now_ns()));
  const std::uint64_t owner = RealPolicy::load(view.owner_of(entry));
  if (owner != 0) {
    const engine::SlotIndex s = engine::unpack_owner(owner).slot;
    if (view.slot_exists(s) && s != engine::detached_slot) {
      const engine::SessionSlot& slot = view.slot(s);
      info.pid = RealPolicy::get(slot.pid);
      info.label = engine::load_line<RealPolicy>(slot.label.data(), slot.label.size());
      info.command = engine::load_line<RealPolicy>(slot.command.data(), slot.command.size());
    }
  }
  return info;
}

std::uint32_t LockClient::place_in_queue(std::string_view holder) {
  engine::EntryIndex mine = engine::nil_entry;
  Ops ops = this->ops();
  {
    const std::scoped_lock lock(mutex_);
    const Hold* const hold = find_hold(holder);
    if (hold == nullptr || hold->state != Hold::State::waiting) return 0;
    mine = hold->entry;
    ops = hold->ops;
  }
  const engine::View& view = this->view();
  for (;;) {
    const core::Control c = ops.load();
    if (!ops.finish(c)) fail(Step::corrupt);
    std::uint32_t place = 0;
    engine::EntryIndex at = ops.head_of(c).entry;
    for (std::uint32_t n = 1; at != engine::nil_entry && n <= view.geo.sizes.entries; ++n) {
      if (at == mine) {
        place = n;
        break;
      }
      if (at == c.tail || !view.entry_exists(at)) break;
      at = engine::unpack_link(RealPolicy::load(view.entry(at).next)).entry;
    }
    if (RealPolicy::load_seq(ops.record().control) == c.seq) return place;
  }
}

void LockClient::take_news(Hold& hold) noexcept {
  try {
    hold.previous = take_previous(hold.ops, hold.token);
  } catch (...) {
    hold.previous.reset();  // no memory for the news: the lock is held all the same
  }
}

std::optional<Previous> LockClient::take_previous(const Ops& ops, std::uint64_t token) {
  engine::News news = engine::take_news<RealPolicy>(view(), ops.index(), token);
  if (news.loss == Loss::none) return std::nullopt;
  return Previous{std::move(news.text.holder), news.text.pid, news.loss};
}

}  // namespace shmcoord::process
