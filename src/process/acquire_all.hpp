#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <tuple>

#include "process/primitive_client.hpp"

// Several holds at once: all of them or none.
//
// Protocol. They are taken one after the other in one order that is the same for everybody, each with the ordinary
// acquire, FIFO; what is taken stays taken while the next one is waited for. When the last one is there, all have been
// held since; should one have been lost meanwhile (its lease, the operator), all are given back and it begins again.
//
// No circle: whoever waits here holds only names that come before the one it waits for, so along any chain of such
// waits the names grow, and it ends with somebody who waits for none. Nobody starves: each queue is FIFO, so every
// single wait ends as soon as all who came before have had their turn, and there are finitely many of them. (Trying all
// and backing out on failure would keep less reserved, but whoever wants much could be overtaken for ever.)
//
// It takes no record of the group in the segment, and no word that decides for all at once: what such a word would add
// is to hide the holds from others until the last one is there, and others cannot tell a hold from a reservation, which
// keeps them out just the same. The price is the same too: who wants little waits behind a half-complete group.
//
// If we die here: each hold and the one wait are entries of the session as any others, and end with it. Nobody has to
// know that they belonged together.

namespace shmcoord::process {

/// The order in which everybody takes several.
[[nodiscard]] inline bool taken_before(engine::Kind a, std::string_view a_name, engine::Kind b,
                                       std::string_view b_name) noexcept {
  return std::tie(a, a_name) < std::tie(b, b_name);
}

struct AllAnswer {
  std::size_t held = 0;    // how many: all, or none
  std::size_t failed = 0;  // which one could not be had
  Answer answer;           // what it came to
};

/// `parts` in the order of taken_before(). A Part can acquire(), which gives an Answer and throws like
/// PrimitiveClient::acquire; give_back() what that got, noexcept; and tell whether that still stands().
template <class Part>
AllAnswer acquire_all(std::span<Part> parts) {
  for (;;) {
    std::size_t held = 0;
    const auto give_back = [&]() noexcept {
      while (held > 0) parts[--held].give_back();
    };
    try {
      for (; held < parts.size(); ++held) {
        Answer answer = parts[held].acquire();
        if (answer) continue;
        const std::size_t failed = held;
        give_back();
        return {0, failed, std::move(answer)};
      }
    } catch (...) {
      give_back();
      throw;
    }
    if (std::all_of(parts.begin(), parts.end(), [](const Part& part) { return part.stands(); })) return {held, 0, {}};
    give_back();
  }
}

}  // namespace shmcoord::process
