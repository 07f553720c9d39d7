#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

// Every line that keeps a promise has a name here, so that a test can take just that line away and see who notices
// (tests/mutation/run). The code asks its policy, `P::keeps(Safety::x)`: in a normal build the real one answers with a
// constant, so that the line costs nothing and leaves nothing behind; a build with SHMCOORD_MUTATIONS, and the
// simulated policy always, leave out the line that the environment's SHMCOORD_MUTATION names.
//
// Not here: checks of indices and words against damage (the fuzzer's), the pure machines (their tests know every
// answer), memory orders and fences (the simulator leaves those out by itself: sim::Without).

// name, what the line does
// clang-format off
#define SHMCOORD_SAFETY_LINES(line)                                                              \
  /* control.hpp */                                                                              \
  line(finish_before_take, "an acquire first finishes the word's last operation")                \
  line(finish_before_release, "so does a release that somebody came before")                     \
  line(finish_before_cancel, "so does a cancel")                                                 \
  line(finish_before_reclaim, "so does a reclaim")                                               \
  line(finish_before_beat, "so does a heartbeat that uses up a sequence")                        \
  line(finish_before_settle, "so does a grant to a forgotten waiter")                            \
  line(finish_before_close, "so does the closing of a word")                                     \
  line(finish_when_none_waits, "settling finishes the word also when nobody waits any more")     \
  line(cancel_current, "a cancel believes what it read only while the word stands")              \
  line(busy_leaves_entry_free, "an entry that was told busy is free, not prepared")              \
  line(settle_before_queueing, "a newcomer grants a head that fits")                             \
  line(settle_after_cancel, "a cancel grants those behind it who now fit")                       \
  line(settle_after_grant, "a hand-off grants those behind the grantee who fit too")             \
  line(mark_before_judging, "a holder is marked before its heartbeat is judged")                 \
  line(judge_after_mark, "and judged after that")                                                \
  line(reclaim_raises_sequence, "a reclaim uses a sequence of its own")                          \
  line(beat_before_look, "a heartbeat is written before the mark is looked for")                 \
  line(beat_own_hold, "a heartbeat is for the hold of that token only")                          \
  line(beat_passes_over, "a heartbeat of a marked hold uses up the sequence")                    \
  line(beat_whole_status, "and does so only while the whole status is the same")                 \
  line(holds_token, "a hold is compared by its token")                                           \
  line(close_generation, "a handle closes only its own life of the record")                      \
  line(members_keep_open, "a quota that somebody joined is not closed")                          \
  line(recycle_condition, "what would be lost is judged at the word that is closed")             \
  line(retake_generation, "the short way takes only its own life of the record")                 \
  line(retake_fits, "and not more than the capacity")                                            \
  line(handle_generation, "an operation is only on its own life of the record")                  \
  line(closed_word, "no operation follows on a closed word")                                     \
  line(sequence_end, "no operation follows on the last sequence")                                \
  line(reservation_end, "nobody is let in beyond the tokens that a snapshot reserved")           \
  line(finish_before_move, "a merge or a shrink first finishes the word")                        \
  line(finish_before_resize, "so does a change of the capacity")                                 \
  line(weight_keeps_stamp, "an owner that sets its weight anew leaves the stamp")                \
  line(settle_after_shrink, "a hold that got smaller lets in who fits now")                      \
  line(settle_evicts, "a head that can never fit is taken out of the queue")                     \
  line(evict_judges_again, "judged at the word at which they are taken out")                     \
  line(evict_after_resize, "so are those behind it, by who changed the capacity")                \
  line(handoff_current, "the hand-off field is written only while the word stands")              \
  line(handoff_adopted, "a hand-off field with the stamp is adopted, never overwritten")         \
  line(handoff_intents, "owner and reclaimer who meet move on by one sequence")                  \
  /* finish.hpp */                                                                               \
  line(handoff_stamp, "a hand-off field counts only with the word's stamp")                      \
  line(notice_before_grantee, "the notice of a robbery is there before the grantee is let in")   \
  line(releaser_last, "the releaser's entry becomes free last")                                  \
  line(enqueued_current, "nor does finishing an enqueue")                                        \
  line(told_current, "nor does telling of a robbery")                                            \
  line(released_current, "nor does finishing a release")                                         \
  line(granted_current, "nor does finishing a grant")                                            \
  line(cancelled_links_current, "nor do the links of a cancel")                                  \
  line(cancelled_current, "nor does its status")                                                 \
  line(amount_stamps, "a weight or a capacity is changed once by an operation")                  \
  line(weight_moved_stamp, "the hand-off field of a merge counts only with the word's stamp")    \
  line(weight_moved_current, "a late finisher of a merge changes no weight")                     \
  line(merged_part_last, "the part is free only when its weight was added")                      \
  line(resized_current, "a late finisher of a resize changes no capacity")                       \
  line(member_last, "a member is one only when the capacity was changed")                        \
  line(status_record, "a status counts only for the record that it names")                       \
  line(link_stamps, "links carry the sequence of the operation that wrote them")                 \
  line(told_once, "a notice that the next holder took is not written again")                     \
  line(released_unfinished, "a release also ends an acquire that was left unfinished")           \
  line(detached_is_not_told, "a robbed detached entry is free at once")                          \
  line(loss_signals_owner, "a robbed session's keeper is told to look")                          \
  line(grant_signals_owner, "so is that of a pollable wait that is over")                        \
  line(grant_calls_again, "who finds a grant finished calls the grantee all the same")           \
  line(grant_restarts_clock, "a hold's clock starts with the grant")                             \
  line(holder_hint, "the record names its last grantee")                                         \
  line(call_changes_word, "a call changes the wake word before the system call")                 \
  line(cancel_of_the_last, "a cancel that is half done is recognised by its stamp")              \
  line(cancel_calls_it, "who is taken out of the queue by others is called")                     \
  line(cancel_calls_again, "also by who finds it taken out already")                             \
  line(cancel_calls_successor, "so is the one behind, who now watches another")                  \
  /* wait.hpp */                                                                                 \
  line(park_before_look, "a waiter looks after it has said that it sleeps")                      \
  line(waiter_watches, "a waiter sleeps on the life word of the one before it")                  \
  line(head_watches_holders, "the head sleeps on the life words of several holders")             \
  line(waiter_tells_others, "it passes the kernel's notice of a death on")                       \
  line(waiter_looks_again, "it looks again after a second")                                      \
  line(waiter_settles, "and then grants whom somebody forgot")                                   \
  line(waiter_judges, "the head judges the holder's lease")                                      \
  line(waiter_without_waitv, "without futex_waitv the sleeps are short")                         \
  line(waiter_knows_its_need, "a waiter that can never fit finds it out by itself")              \
  line(granted_settles, "who was let in lets in whoever fits as well")                           \
  /* bury_entry.hpp */                                                                           \
  line(burial_finishes, "a burial first finishes the word")                                      \
  line(burial_status_again, "a buried entry still has its status after that")                    \
  line(burial_judges_owner, "and when its hold is taken")                                        \
  line(burial_uses_up_sequence, "what it prepared is freed only when that sequence is used up")  \
  line(robbed_keeps_prepared, "what a robbed session prepares stays its own")                    \
  line(burial_settles, "the word of an entry that is free already is settled too")               \
  /* notice.hpp, chunks.hpp */                                                                   \
  line(notice_current, "words of a notice are written only while the robbery stands")           \
  line(told_again, "the news of a robbery is told also when older news was taken just then")     \
  line(news_of_before, "nobody takes the news of its own loss")                                  \
  line(notice_written_once, "words of a notice that have the stamp are left alone")              \
  line(notice_whole, "a notice counts only when all its words have the stamp")                   \
  line(notice_word_whole, "and when none of them changed while it was read")                     \
  line(chunk_high_first, "no chunk is claimed beyond what a burial scans")                       \
  line(chunk_freed_by_owner, "a chunk is freed only from the owner that was buried")             \
  line(detached_name_is_new, "no chunk word of a detached hold comes back")                      \
  /* name_index.hpp */                                                                           \
  line(walk_absent_again, "a name is absent only if the bucket word is the same after the walk") \
  line(walk_found_again, "and found only then")                                                  \
  line(find_closed, "a closed record is not found")                                              \
  line(insert_finishes_removal, "an insert finishes the removal that is in its way")             \
  line(floor_read, "a new record's tokens start above the floor")                                \
  line(floor_after_lookup, "the floor is read after the name was seen to be absent")             \
  line(floor_raised, "a removal raises the floor")                                               \
  line(floor_before_mark, "before the record can be passed by")                                  \
  line(generation_before_link, "a record has its generation before it can be found")             \
  line(claiming_before_claim, "a claim is written down before it is made")                       \
  line(claiming_before_removal, "so is a removal")                                               \
  line(birth_stamps, "a new life's words start with a stamp of their own")                       \
  line(free_generation, "a free record has no generation")                                       \
  line(free_own_attempt, "a later attempt's generation is not cleared")                          \
  line(free_own_life, "nor is its directory word set free")                                      \
  line(free_again, "it is set free also when it was said to be live meanwhile")                  \
  line(removal_own_life, "a removal is of that life only")                                       \
  line(removal_marks, "a removed record's link is frozen")                                       \
  line(bucket_raised, "the bucket's sequence is raised before a record is used again")           \
  line(sweep_again, "an unlinking that was disturbed is repeated")                               \
  line(recover_same_session, "a claim is recovered only for the session that died")              \
  line(recover_asks_chain_first, "and in the chain or not is asked before closed or not")        \
  line(recover_closed, "and a closed record's removal is finished")                              \
  /* liveness.cpp, byte_lock.cpp */                                                              \
  line(byte_confirms_death, "the byte lock confirms a death")                                    \
  line(tasks_confirm_death, "or every task of the process is exiting")                           \
  line(inherited_byte_confirms, "and nobody has the inherited byte")                             \
  line(running_is_alive, "a death without notice is not believed of a process that runs")        \
  line(lone_byte_has_witness, "a free byte alone is no death")                                   \
  line(joiner_has_byte, "who joins lives while its byte is locked")                              \
  line(earlier_boot_is_dead, "sessions of an earlier boot are dead")                             \
  line(own_slot_is_alive, "the own process does not see its own byte locks, and lives")          \
  line(slot_incarnation, "a verdict is for the incarnation that was asked about")                \
  line(slot_same_again, "and of a slot that did not change meanwhile")                           \
  line(slot_once_per_process, "a process does not lock its own slot again")                      \
  line(claim_asks_inherited, "no slot is claimed while a command has its inherited byte")        \
  /* recovery.cpp */                                                                             \
  line(death_is_proven, "only the proven dead are buried")                                       \
  line(burial_recovers_claim, "a burial finishes what the dead did to a name")                   \
  line(burial_settles_helped, "and the word that the dead said it helps")                        \
  line(burial_wakes, "and wakes all who wait for the dead")                                      \
  line(unsound_keeps_slot, "a session that cannot be buried whole keeps its slot")               \
  line(robbed_keeps_chunk, "a robbed session keeps its chunks")                                  \
  line(sweep_finishes, "a sweep finishes every word")                                            \
  line(chunk_is_empty, "a detached chunk is freed only when it is empty")                        \
  line(chunk_is_swept, "a detached chunk that emptied out is freed by a sweep")                  \
  /* lease.cpp */                                                                                \
  line(silence_has_grace, "nobody is judged by a silence of everybody")                          \
  line(silence_has_one_grace, "one silence has one grace")                                       \
  line(grace_is_for_keepers, "manual sessions and detached holds have none")                     \
  line(grace_is_about_silence, "it does not prolong a hold that is held too long")               \
  line(silence_of_the_living, "the dead do not count as silent")                                 \
  line(lease_judged_again, "a lease is judged after the mark as before")                         \
  /* journal */                                                                                  \
  line(owner_tells, "who leaves its operation unfinished still tells of it")                     \
  line(finisher_tells, "and whoever finishes it does, first of all")                             \
  line(journal_completes_before, "the last record is completed before the next one is claimed")  \
  line(journal_looks_again, "whether it was told is asked once more, after the tail")            \
  line(journal_source_current, "a record is written only while its source stands")               \
  line(entry_is_set_aside, "an entry is out of its word before its texts change")               \
  line(journal_tail_current, "and while it is the last one")                                     \
  line(journal_calls, "readers are called")                                                      \
  line(burial_tells, "who buries a session tells of its end, and listens no more for it")       \
  line(subscriber_changes_epoch, "who subscribes makes a late `off` fail")                       \
  line(start_marks_all, "who starts the journal marks what was before")                          \
  line(start_marks_before, "but nothing that came after the start")                              \
  line(start_is_told, "and makes an append that began before fail")                              \
  /* verdict.hpp */                                                                              \
  line(finish_before_verdict, "who uses up a sequence first finishes the word")                  \
  line(verdict_word_current, "a word of a verdict is written only while its sequence stands")    \
  line(verdict_current, "and so is the word that makes it the verdict")                          \
  /* participant, keeper, primitive_client */                                                         \
  line(slot_has_new_incarnation, "a slot's next owner has another incarnation")                  \
  line(slot_is_described_anew, "and starts without the last one's notes")                        \
  line(given_back_is_finished, "an entry that comes back is brought out of its word")            \
  line(detached_is_tidied, "a detached chunk is freed with its hold")                            \
  line(child_is_no_member, "a forked child is no participant")                                   \
  line(fenced_is_told, "a fenced session is told")                                               \
  line(robust_page_is_shared, "the robust list lives in memory that no OOM kill takes away")     \
  line(keeper_buries, "a keeper buries the neighbour that died")                                 \
  line(keeper_tells_others, "and passes the notice on")                                          \
  line(attach_is_current, "a handle is made only of a record that is still that name's")         \
  line(file_is_the_same, "no hold begins in a file that was deleted")                            \
  line(helping_is_noted, "who robs writes down which word it is at")
// clang-format on

namespace shmcoord::engine {

enum class Safety : std::uint8_t {
  none,
#define SHMCOORD_LINE(name, what) name,
  SHMCOORD_SAFETY_LINES(SHMCOORD_LINE)
#undef SHMCOORD_LINE
};

/// The line that SHMCOORD_MUTATION names. A name that is none ends the process: a test that fails for that reason must
/// not look as if it had noticed something.
inline Safety turned_off() noexcept {
  static const Safety off = [] {
    const char* const given = std::getenv("SHMCOORD_MUTATION");
    const std::string_view wanted = given == nullptr ? "" : given;
    if (wanted.empty()) return Safety::none;
#define SHMCOORD_LINE(name, what) \
  if (wanted == #name) return Safety::name;
    SHMCOORD_SAFETY_LINES(SHMCOORD_LINE)
#undef SHMCOORD_LINE
    std::fprintf(stderr, "SHMCOORD_MUTATION: no line is called %s\n", given);
    std::_Exit(98);
  }();
  return off;
}

}  // namespace shmcoord::engine
