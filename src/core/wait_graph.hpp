#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

// Who waits for whom, and which of them wait for ever.
//
// Problem. A cycle of waits is not yet a deadlock: who waits for a semaphore waits for any of its holders, and one that
// runs may give back. So the graph is reduced: whoever can go on is thought to go on and to give back all that it has,
// which comes to one end in whatever order it is done. Who is left waits for somebody who is left.
//
// Of those who are left some only wait behind the others. A deadlock is a circle that no wait leads out of: each of its
// members waits for members only (a strongly connected component without an edge to another one). When it is broken,
// the rest is looked at anew.
//
// An actor is whatever goes on as one: a thread, or a holder by its id, for which several threads may act. A wait keeps
// its actors from going on; an actor that has several waits goes on when one of them ends, and whoever is not known to
// wait is thought to run. So the graph errs on the side of silence. A queue is served in its order: who waits also
// waits for the one before it.
//
// Pure; allocates. Cost: linear in holds and waits, but for sorting them.

namespace shmcoord::core {

struct HeldEdge {
  std::uint32_t actor = 0;
  std::uint32_t resource = 0;
  std::uint32_t weight = 0;
};

struct WaitEdge {
  std::uint32_t actor = 0;
  std::optional<std::uint32_t> also = {};  // a second actor: the thread that waits for a holder with an id
  std::uint32_t resource = 0;
  std::uint32_t need = 0;   // in addition to what it has
  std::uint64_t place = 0;  // those with smaller ones are served first
  std::int64_t since = 0;
  bool more = false;  // the actor has some of it and keeps that, so it does not wait for itself
};

struct WaitGraph {
  std::uint32_t actors = 0;             // how many there are
  std::vector<std::uint32_t> capacity;  // of each resource
  std::vector<HeldEdge> holds;
  std::vector<WaitEdge> waits;
};

/// A member of a circle: its wait, and what keeps it waiting, which belongs to the next member: a hold, or a wait
/// before it in the queue.
struct CircleStep {
  std::size_t wait = 0;                  // index in WaitGraph::waits
  std::optional<std::size_t> hold = {};  // index in WaitGraph::holds
};

struct Deadlock {
  std::vector<CircleStep> circle;  ///< a shortest one, from its victim: the wait that began last
  std::vector<std::size_t> waits;  ///< all that wait for each other
};

[[nodiscard]] std::vector<Deadlock> find_deadlocks(const WaitGraph& graph);

}  // namespace shmcoord::core
