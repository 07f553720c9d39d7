#include "shmcoord/command_table.hpp"

#include <array>
#include <string>

#include "process/event_stream.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/events.hpp"
#include "shmcoord/inspect.hpp"
#include "shmcoord/numbers.hpp"
#include "shmcoord/reap.hpp"

namespace shmcoord::tool {
namespace {

constexpr Option holder{"--holder", "ID", "who holds: 1 to 255 bytes, chosen by you"};
constexpr Option wait{"-w,--wait", "DUR", "wait at most that long (0: do not wait)"};
constexpr Option no_wait{"-n,--no-wait", nullptr, "do not wait: exit 1 when it is busy or full"};
constexpr Option conflict_code{"-E,--conflict-exit-code", "CODE",
                               "exit code when it is busy, full or timed out, instead of 1"};
constexpr Option reason{"--reason", "TEXT", "why, for people who look; up to 4096 bytes"};
constexpr Option force{"--force", nullptr, "even while held or waited for; the holders are told that they lost"};

constexpr std::array global_list{
    Option{"-s,--segment", "NAME|PATH", "the segment (default: $SHMCOORD_SEGMENT, else default-<uid>)"},
    Option{"--trust", "USER",
           "a segment that this user owns is accepted too (default: $SHMCOORD_TRUST); yours and root's always are"},
    Option{"--json", nullptr, "output for programs"},
};

constexpr std::array run_options{
    Option{"-l,--lock", "LOCK", "hold this lock while the command runs; several are taken in sorted order", true},
    Option{"--shared", "LOCK", "likewise, but share it with others who do the same", true},
    Option{"-S,--sem", "SEM[:WEIGHT]", "likewise, so many permits (default 1) of this semaphore, which must exist",
           true},
    wait,
    no_wait,
    Option{"--ttl", "DUR",
           "hold with this lease, renewed by itself; without it only death or the operator ends the hold"},
    reason,
    Option{"--holder", "ID", "who holds (default: run:<host>:<pid>:<random>)"},
    Option{"--grace", "DUR", "from SIGTERM to SIGKILL when the hold is lost (default 5s)"},
    conflict_code,
    Option{"--no-wait-tree", nullptr, "release when the command exits, even if processes that it started go on"},
};

constexpr Option pid{"--pid", "PID", "the hold ends when this process ends"};
constexpr Option hold_ttl{"--ttl", "DUR", "the hold ends when there was no heartbeat and no renewal for that long"};
constexpr std::array acquire_options{
    holder,        Option{"--shared", nullptr, "share it with others who do the same, and with nobody else"},
    pid,           hold_ttl,
    wait,          no_wait,
    conflict_code, reason,
};
constexpr std::array sem_acquire_options{
    holder,
    Option{"--weight", "W", "so many permits in all (default 1)"},
    Option{"--capacity", "N", "make the semaphore with so many permits, if there is none"},
    pid,
    hold_ttl,
    wait,
    no_wait,
    conflict_code,
    reason,
};
constexpr std::array sem_create_options{
    Option{"--capacity", "N", "permits that there are, 1 to 1048575"},
    Option{"--per-session", "N", "instead: permits that each session brings as long as it lasts"},
};
constexpr std::array sem_resize_options{
    Option{"--capacity", "N", "permits that there are from now on, 1 to 1048575"},
};
constexpr std::array holder_options{holder};
constexpr std::array renew_options{holder, Option{"--ttl", "DUR", "the new lease, counted from now"}};
constexpr std::array status_options{
    Option{"--holder", "ID", "exit 0 only if this one holds it"},
};
constexpr std::array force_options{force};
constexpr std::array inspect_options{
    Option{"--watch", nullptr, "show it again every second, until interrupted"},
    Option{"--graph", nullptr, "also who waits for whom, and which of them for ever"},
    Option{"--dot", nullptr, "only that, for Graphviz: `shmcoord inspect --dot | dot -Tsvg`"},
};
constexpr std::array reap_options{
    Option{"--once", nullptr, "one pass, then exit"},
    Option{"--interval", "DUR", "a pass at least that often (default 30s), and at once on each death"},
    Option{"--dry-run", nullptr, "print what would be done, change nothing"},
    Option{"--no-reclaim", nullptr, "leave leases that ran out as they are, only tell of them"},
    Option{"--save", "FILE", "restore the segment from this file if there is none, save it there now and then"},
    Option{"--save-interval", "DUR", "how often (default 5m); and once more at the end"},
};
constexpr std::array force_release_options{
    Option{"--holder", "ID", "only if this one holds it"},
    Option{"--reason", "TEXT", "why, to be printed with the result; up to 4096 bytes"},
};
constexpr std::array remove_options{
    Option{
        "--force", nullptr,
        "even while anything in it is held or waited for (the holders are told that they lost), or when it is damaged"},
};
constexpr std::array bench_options{
    Option{"--seconds", "N", "for about that long, 1 to 600 (default 10)"},
};
constexpr std::array create_options{
    Option{"--mode", "OCTAL", "permissions of the file (default 0600)"},
    Option{"--group", "GROUP", "group of the file: a name or a number"},
    Option{"--names", "N", "locks, semaphores, guards and pipelines that can exist at once (default 65536)"},
    Option{
        "--entries", "N",
        "holders and waiters at once (default 250000); a session, a hold without a process, and each part of the text "
        "of a guard or pipeline takes 8"},
    Option{"--sessions", "N", "processes joined at once (default 4096)"},
    Option{"--journal", nullptr, "keep events also while nobody follows them; takes 4 MiB, and each lock some time"},
};
constexpr std::array events_options{
    Option{"--since", "N", "begin with event number N, as far as the journal still has it"},
    Option{"--no-follow", nullptr, "end when there is no more, instead of waiting for it"},
};

constexpr Option condition{"--condition", "TEXT", "what has to hold, as text: lock_free(NAME) && file_exists(PATH)"};
constexpr Option json_file{"--json-file", "FILE", "likewise as JSON, from a file (-: from standard input)"};
constexpr Option recheck{"--recheck", "DUR", "how often what cannot notify is asked again (default 1s)"};
constexpr Option evaluation_timeout{"--timeout", "DUR",
                                    "for one evaluation: what is not known then is so (default 30s)"};
constexpr Option directory{"--directory", "DIR", "what the condition's relative paths and commands start from"};
constexpr Option repository{"--repository", "DIR", "the git repository (default: the one around --directory)"};
constexpr Option issues{"--issues", "FILE", "the issues, as JSON"};
constexpr Option issues_command{"--issues-command", "CMD", "a shell command that writes them"};
constexpr Option sessions_command{"--sessions-command", "CMD",
                                  "a shell command that exits with 0 if the session in $SHMCOORD_SESSION lives; asked "
                                  "beside those of the segment"};
constexpr std::array guard_add_options{
    condition,
    json_file,
    Option{"--on-failure", "ACTION",
           "block (default), warn, retry:DUR (ask again after that time) or fail:TEXT (a wait ends, with that text)"},
    Option{"--wake", "PATTERN", "a wait looks again after events that match, instead of those of what it asks", true},
};
constexpr std::array guard_eval_options{
    condition, json_file, evaluation_timeout, directory, repository, issues, issues_command, sessions_command,
};
constexpr std::array guard_wait_options{
    wait,
    Option{"-n,--no-wait", nullptr, "evaluate once: exit 1 when it does not pass"},
    recheck,
    evaluation_timeout,
    directory,
    repository,
    issues,
    issues_command,
    sessions_command,
};

constexpr std::array pipeline_run_options{
    Option{"--grace", "DUR", "from SIGTERM to SIGKILL when a phase must not go on (default 5s)"},
    recheck,
    evaluation_timeout,
    directory,
    repository,
    issues,
    issues_command,
    sessions_command,
};

int inspect(const Arguments& a) {
  InspectArgs args;
  args.global = a.global;
  args.names = a.words;
  args.watch = a.has("--watch");
  args.graph = a.has("--graph");
  args.dot = a.has("--dot");
  if (args.dot && (args.watch || args.global.json)) {
    throw UsageError{"--dot excludes --watch and --json: it is one picture for Graphviz"};
  }
  return inspect_command(args);
}

int events(const Arguments& a) {
  EventsArgs args;
  args.global = a.global;
  args.patterns = a.words;
  for (const std::string& p : args.patterns) {
    if (const std::string_view fault = process::fault_of_pattern(p); !fault.empty()) {
      throw UsageError{"the pattern '" + p + "' " + std::string(fault)};
    }
  }
  args.follow = !a.has("--no-follow");
  if (const auto since = a.value("--since")) {
    std::uint64_t number = 0;
    if (!parse_whole(*since, number) || number == 0) {
      throw UsageError{"--since '" + *since + "': the number of an event, 1 or more"};
    }
    args.since = number;
  } else if (!args.follow) {
    args.since = 1;
  }
  return events_command(args);
}

int reap(const Arguments& a) {
  ReapArgs args;
  args.global = a.global;
  args.once = a.has("--once");
  args.dry_run = a.has("--dry-run");
  if (const auto interval = a.value("--interval")) {
    if (args.once) throw UsageError{"--once and --interval exclude each other: give one of them"};
    args.interval = parse_duration("--interval", *interval);
  }
  args.reclaim = !a.has("--no-reclaim");
  args.save_to = a.value("--save");
  if (args.save_to && args.dry_run) throw UsageError{"--dry-run excludes --save: it changes nothing"};
  if (const auto interval = a.value("--save-interval")) {
    if (!args.save_to) throw UsageError{"--save-interval without --save: give the file too"};
    if (args.once) throw UsageError{"--once and --save-interval exclude each other: there is one save"};
    args.save_interval = parse_duration("--save-interval", *interval);
  }
  return reap_command(args);
}

constexpr const char* tokens_grow =
    "Each new hold of a lock gets a greater fencing token than all before it; hand it to what the lock protects. The "
    "first one is not 1 and the next one is not one more: only the order counts.";
constexpr const char* deadlock_is_told =
    "A wait without a timeout that closes a circle of such waits, in whatever processes, ends after a second or two "
    "with "
    "1 and says who holds what and waits for what (with --json in `circle`). Only the one that began last ends. With "
    "--wait, a holder that somebody else will help goes on waiting.";
constexpr std::array run_more{
    "Returns the exit code of the command. The command finds the segment, the holder and the tokens in "
    "SHMCOORD_SEGMENT, SHMCOORD_HOLDER, SHMCOORD_TOKEN (of the first --lock, else of the first of the others) and "
    "SHMCOORD_TOKENS (name=token, comma separated).",
    "A run with --shared and one with --lock of the same lock exclude each other; those with --shared run side by "
    "side. Who comes after one that waits for all of it waits behind that.",
    tokens_grow,
    "When the command ends, what it started and left behind is waited for; when it was killed by a signal that did not "
    "come through this program, that is killed at once. When the hold is lost, all of it gets SIGTERM and, after "
    "--grace, SIGKILL; the next holder does not wait for that.",
    "A run within the command that would wait for what this one holds ends at once with 1, since it would wait for "
    "ever. ",
    deadlock_is_told,
    "More permits than the capacity are refused at once with 1. With --json standard output still belongs to the "
    "command: messages are lines of JSON on standard error.",
};
constexpr std::array acquire_more{
    "The holder id is who holds: acquiring again with the same one, from wherever, extends the hold, answers 0 and "
    "prints the same token. Two scripts that must exclude each other need two ids.",
    "Without --pid and --ttl the hold goes stale, and the next one takes it over, when neither `lock heartbeat` nor "
    "`lock renew` came for the lock's stale threshold: 60 s, unless a program made the lock with another one.",
    deadlock_is_told,
    tokens_grow,
};
constexpr std::array lost_more{
    "A hold is its holder's until it is taken away, also after its lease ran out: as long as nobody did, this command "
    "answers 0 as ever. Afterwards the answer is exit code 2 and, until the next one acquires and is told instead, why "
    "it was lost (with --json in `lost`, which is null when that is not known). When it was lost is not kept.",
};
constexpr std::array sem_create_more{
    "A semaphore that exists with the same capacity is left as it is, and answers 0.",
    "With --per-session the capacity is what the sessions that joined bring: a program that opens it, and each `run "
    "-S`, joins; the other commands do not. It shrinks with each of them that ends.",
};
constexpr std::array sem_acquire_more{
    "The holder id is who holds: acquiring again with the same one answers 0 with the same token, and adds what is "
    "missing if --weight is more than it has; `sem release` gives back all of it.",
    "First come, first served: who asks for much is not overtaken by those who ask for little. More than the capacity "
    "is refused at once with exit code 1.",
    "Without --pid and --ttl the hold goes stale, and is taken away when somebody needs the room, when neither `sem "
    "heartbeat` nor `sem renew` came for the semaphore's stale threshold: 60 s, unless a program made it with another "
    "one.",
    deadlock_is_told,
    tokens_grow,
};
constexpr std::array sem_resize_more{
    "More lets in at once who fits then. Less than is in use lets the holders finish, and nobody in until it fits; who "
    "waits for more than there is, fails.",
};
constexpr std::array inspect_more{
    "Of a holder that is dead, but whose lock is kept by processes that it started, these are named as far as /proc "
    "shows them.",
    "A name that is not there is an error (exit code 2), also with --watch; one that goes while it is watched is told "
    "once, and watched on.",
    "A `notice` says what is missing here or around a session (a system call, /proc), and what is done without it.",
};
constexpr std::array events_more{
    "A pattern is the name of an event (`lock:released`), or has a `*` for one part of it (`lock:*`, `*:reclaimed`); "
    "`lock:` is all that begin so, `*` is every event. Without a pattern: every event. With several: what one of them "
    "matches.",
    "There are lock: and semaphore:acquired, released, denied, reclaimed and stale; session:joined, left and died; "
    "guard:registered, removed, evaluating, passed and failed; pipeline:blocked, resumed, failed and completed; "
    "phase:entered and left; journal:started and lost.",
    "Each change is told once and in its order, whoever is killed. Events are written down only while somebody "
    "follows them, unless the segment was made with --journal. Who reads too slowly is told how many were lost.",
};
constexpr const char* condition_forms =
    "Conditions: lock_free(NAME), lock_held(NAME[, HOLDER]), semaphore_available(NAME[, WEIGHT]), "
    "session_alive(LABEL), "
    "branch_exists(BRANCH), branch_not_exists(BRANCH), branch_clean(BRANCH), branch_merged(BRANCH, INTO), "
    "file_exists(PATH), file_not_exists(PATH), file_contains(PATH, PATTERN), issue_status(ID, STATUS), "
    "issues_complete([FILTER]), no_blocked_issues([FILTER]), command(TEXT). They go together with !, && (before ||), "
    "|| "
    "and parentheses; all(), any() and not() are the same. A word with blanks or signs stands in quotes: "
    "command('make check'); command(TEXT, expect=failure) passes when it fails. FILTER is one text, as "
    "'label=bug,status=Blocked': id=, label= and status= (Todo, InProgress, Blocked, Done, Cancelled), all of which "
    "must "
    "match. As JSON: {\"type\": \"lock_free\", \"lock\": \"deploy\"}; all and any have \"conditions\", not has "
    "\"condition\"; `guard list --json` shows each as text.";
constexpr const char* whose_eyes =
    "What lies outside of the segment is seen with the eyes of whoever evaluates: its working directory (or "
    "--directory), its files, its repository. The definition and the last verdict are shared. What could not be found "
    "out, or not in time, is no pass. Issues are JSON: [{\"id\": \"7\", \"status\": \"open\", \"labels\": "
    "[\"bug\"]}], or what `gh issue list --json number,state,labels` writes.";
constexpr std::array guard_add_more{
    "A guard is a condition under a name that all processes know. It stays until it is removed. Adding it again as it "
    "is changes nothing and answers 0; one with another definition is refused (exit code 64): remove it first.",
    condition_forms,
    "With warn a guard that fails says so and lets through (exit code 0).",
};
constexpr std::array guard_eval_more{
    "Of a registered guard (NAME) the verdict is kept, for `guard list` and `inspect`. Of --condition or --json-file "
    "nothing is written, and a segment is needed only if locks, semaphores or sessions are asked for.",
    condition_forms,
    whose_eyes,
};
constexpr std::array guard_wait_more{
    "Ends with 0 when the guard passes, or only warns; with 1 when the time is over, or it fails with fail:TEXT. "
    "In between it sleeps, and is woken by a change of the locks, semaphores and files that are asked for, by events "
    "that match --wake of `guard add`, and every --recheck by what cannot notify.",
    "Only a registered guard can be waited for: a condition alone (--condition) is what `guard eval` takes.",
    whose_eyes,
};
constexpr const char* pipeline_goes_on =
    "Ends with 0 when all phases are through; with 1 when a command or a guard with fail:TEXT failed, or somebody "
    "cancelled; with 75 when the pipeline was taken away; with 128 + N when it was interrupted. All but a cancelled "
    "one "
    "can be resumed: at the guard that had not passed, or with the command that had not ended, which is run again.";
constexpr const char* pipeline_commands_get =
    "A command finds the segment, the pipeline, the phase and what it holds in SHMCOORD_SEGMENT, SHMCOORD_PIPELINE, "
    "SHMCOORD_PHASE, SHMCOORD_HOLDER (pipeline:ID), SHMCOORD_TOKEN and SHMCOORD_TOKENS, as of `run`. With --json "
    "standard output still belongs to the commands: each state is a line of JSON on standard error, "
    "with `time` and `id`, and so is each guard that only warned, in `warning` with `guard` and `reason`, and the end, "
    "in `result`.";
constexpr std::array pipeline_run_more{
    "FILE (-: standard input) is JSON: {\"id\": \"release\", \"phases\": [{\"name\": \"build\", \"command\": "
    "[\"make\", "
    "\"all\"], \"pre\": \"lock_free(main) && !file_exists('.hold')\", \"post\": {\"condition\": \"file_exists(out)\", "
    "\"on_failure\": \"retry:5s\"}, \"wake_on\": [\"lock:*\"], \"locks\": [\"main\"], \"permits\": {\"agents\": 2}}]}. "
    "Of "
    "a phase only the name is needed. A command that is one text is run by sh -c. The id has at most 246 bytes.",
    "A phase is entered when its guard `pre` passed and all its locks and permits are held, and left when its command "
    "succeeded and its guard `post` passed. In between it waits, as `guard wait` and `run` do, and says for what. "
    "Conditions are those of `guard add`, and pipeline_in_phase(ID, PHASE) and pipeline_complete(ID).",
    pipeline_goes_on,
    "The state of the pipeline is in the segment. One of that id that is over is begun anew; one that is not has to be "
    "resumed or cancelled first (exit code 1).",
    pipeline_commands_get,
};
constexpr std::array pipeline_resume_more{
    "Of a pipeline that nobody runs: its runner was killed or interrupted, or it failed.",
    pipeline_goes_on,
    pipeline_commands_get,
};
constexpr std::array pipeline_cancel_more{
    "Whoever runs it is told, ends its command, within its --grace, and gives back what the phase holds; what must not "
    "run twice at once belongs under a lock of its phase. It stays as a cancelled one, until "
    "`pipeline run` begins it anew or `pipeline remove` removes it. One that is over answers with 2.",
};
constexpr std::array check_more{
    "`damage` is what no operation and no death leaves behind. `pending` is what a death left half done; the next "
    "caller or the reaper finishes it. The segment may be in use; a saved copy is given by its path (-s ./copy).",
};
constexpr std::array snapshot_save_more{
    "The segment may be in use. The file is replaced as a whole: whatever happens meanwhile, it is the old one or the "
    "new one. It says who holds what, since when and why: keep it as you keep the segment (it is made with mode 0600).",
    "So that tokens never go back, a save reserves those of the next three days of a million changes of one name a "
    "second, and "
    "when they are used up that name is refused until the segment is saved again.",
};
constexpr std::array snapshot_restore_more{
    "What comes back are locks, semaphores, guards and pipelines (to be resumed), and those holds that do not end with "
    "a process: of `lock "
    "acquire` "
    "and `sem acquire` without --pid, or with one that still runs. They keep their tokens and ages, so what was stale "
    "is stale again. Each other hold is named.",
    "After several restores, one on top of the other, a token may be too old to be kept; then the hold gets a new one, "
    "and that is told.",
    "The file is written anew with a higher reservation, so that no token is given out twice: who restores must be "
    "able to replace it. A file that was damaged is refused as a whole, and the place of the damage is told; an older "
    "copy, or a segment made without one, may give out tokens a second time.",
};
constexpr std::array reap_more{
    "Each pass tells once of every hold whose lease ran out, here and as the event lock:stale or semaphore:stale, and "
    "then takes it away. With --no-reclaim it stays until somebody wants the lock or the room, and is told of again "
    "only when its holder was heard of in between.",
    "With --save a segment that is not there is restored from the file as by `snapshot restore`, or made when there is "
    "no file either: a service that is started with the machine needs nothing else. Who wants an empty one removes the "
    "segment and moves the file away. The file is replaced as a whole; if this program is killed, it is the one of the "
    "last save. To systemd (Type=notify) it says that it is ready after the first save.",
    "A file that is no snapshot, is damaged, or is of another segment than the one that exists (somebody was quicker "
    "after a boot and made a fresh one) is left as it is, and the reaper ends with an error that says what to do. Once "
    "it runs, a save that fails is told, once until it works again, and tried again.",
};
constexpr std::array force_release_more{
    "Of a lock that is shared, or a semaphore, all who hold now lose it, or only the one that --holder names.",
    "The holder, if it still runs, and the next holder are told that an operator took it away. The reason is "
    "printed with the result, for the log of whoever calls this; it is not kept in the segment, and nobody else is "
    "told.",
};
constexpr std::array bench_more{
    "In a segment of its own, which is removed at the end. All take their turn in each round, so whatever else the "
    "machine does hits all alike; a ratio is that of one round, and what is shown is the median of all rounds "
    "with the 10th and the 90th percentile. `limit` is what the machine can do at best: a bare word without an "
    "owner, a queue or anything for whoever dies.",
    "Leave the machine alone meanwhile. A load before it began, or a wide spread, is told, and figures then mean "
    "little.",
    "`shmcoord bench --seconds 60 --json >bench.json` for all figures and what the machine is.",
};

constexpr std::array command_list{
    Command{"run", Words::command, "run a command while holding locks and permits of semaphores", run_options,
            run_command, run_more},
    Command{"lock acquire", Words::one, "take a lock that outlives this command; prints the token", acquire_options,
            lock_acquire, acquire_more},
    Command{"lock release", Words::one, "give a lock back", holder_options, lock_release, lost_more},
    Command{"lock heartbeat", Words::one, "show that the holder is alive", holder_options, lock_heartbeat, lost_more},
    Command{"lock renew", Words::one, "give the hold a new lease", renew_options, lock_renew, lost_more},
    Command{"lock status", Words::one, "who holds it, and who waits", status_options, lock_status},
    Command{"lock remove", Words::one, "remove the name", force_options, lock_remove},
    Command{"sem create", Words::one, "make a semaphore", sem_create_options, sem_create, sem_create_more},
    Command{"sem acquire", Words::one, "take permits that outlive this command; prints the token", sem_acquire_options,
            sem_acquire, sem_acquire_more},
    Command{"sem release", Words::one, "give back all permits of a holder", holder_options, sem_release, lost_more},
    Command{"sem heartbeat", Words::one, "show that the holder is alive", holder_options, sem_heartbeat, lost_more},
    Command{"sem renew", Words::one, "give the hold a new lease", renew_options, sem_renew, lost_more},
    Command{"sem resize", Words::one, "change the capacity", sem_resize_options, sem_resize, sem_resize_more},
    Command{"sem status", Words::one, "what is used and free, who holds how much", status_options, sem_status},
    Command{"sem remove", Words::one, "remove the name", force_options, sem_remove},
    Command{"guard add", Words::one, "register a condition under a name", guard_add_options, guard_add, guard_add_more},
    Command{"guard eval", Words::optional, "does it hold? of a registered guard, or of a condition alone",
            guard_eval_options, guard_eval, guard_eval_more, true},
    Command{"guard wait", Words::one, "wait until a registered guard passes", guard_wait_options, guard_wait,
            guard_wait_more, true},
    Command{"guard list", Words::none, "the registered guards, and what their last evaluation found", {}, guard_list},
    Command{"guard remove", Words::one, "remove a guard; who waits for it is told", {}, guard_remove},
    Command{"pipeline run", Words::file, "run the phases of a file, each under its guards, locks and permits",
            pipeline_run_options, pipeline_run, pipeline_run_more, true},
    Command{"pipeline status",
            Words::optional,
            "how far it is, what it waits for, and who runs it; or of all",
            {},
            pipeline_status},
    Command{"pipeline resume", Words::one, "go on with a pipeline where it was", pipeline_run_options, pipeline_resume,
            pipeline_resume_more, true},
    Command{
        "pipeline cancel", Words::one, "end a pipeline, whoever runs it", {}, pipeline_cancel, pipeline_cancel_more},
    Command{"pipeline remove", Words::one, "remove a pipeline that nobody runs", {}, pipeline_remove},
    Command{"inspect", Words::any, "everything: sessions, locks, semaphores, holders, waiters", inspect_options,
            inspect, inspect_more},
    Command{"events", Words::any, "print what happens, as it happens", events_options, events, events_more},
    Command{"reap", Words::none, "clean up after the dead, in the foreground", reap_options, reap, reap_more},
    Command{"force-release", Words::one, "take a lock or semaphore away from its holders: the operator's last resort",
            force_release_options, force_release, force_release_more},
    Command{"bench", Words::none, "how fast this machine is: beside flock, mutexes, and what it can do at best",
            bench_options, bench_command, bench_more},
    Command{"segment create", Words::none, "make the segment", create_options, segment_create},
    Command{"segment list", Words::none, "the segments of this host", {}, segment_list},
    Command{"segment info",
            Words::none,
            "what the segment is; of each table what is used and what is left",
            {},
            segment_info},
    Command{"segment check",
            Words::none,
            "verify every invariant; exit 1 when something is damaged",
            {},
            segment_check,
            check_more},
    Command{"segment remove", Words::none, "remove the segment", remove_options, segment_remove},
    Command{"snapshot save",
            Words::file,
            "write the segment to a file, to make it anew from",
            {},
            snapshot_save,
            snapshot_save_more},
    Command{"snapshot restore",
            Words::file,
            "make the segment from such a file; there must be none",
            {},
            snapshot_restore,
            snapshot_restore_more},
    Command{"help", Words::topic, "this text, or that of a command", {}, help_command},
    Command{"completion", Words::none, "print the completion script for bash", {}, completion_command},
};

constexpr std::array hidden_list{
    Command{"manual", Words::none, "print the manual page", {}, manual_command},
    Command{
        "names", Words::any, "print the names that there are of these kinds, for the completion", {}, names_command},
};

}  // namespace

std::span<const Option> global_options() { return global_list; }
std::span<const Command> commands() { return command_list; }
std::span<const Command> hidden_commands() { return hidden_list; }

}  // namespace shmcoord::tool
