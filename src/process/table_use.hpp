#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "process/recovery.hpp"

// How full each table of the segment is: for who wants to know before "table full" and "no space left" say so.
//
// A table has two limits. Its rows were fixed when the segment was created; its pages come from the file system as they
// are needed, so a table with rows left may still be unable to grow. Both are told. Nothing is touched that does not
// exist (a read of a hole allocates), and nothing is written: a read-only mapping will do.

namespace shmcoord::process {

struct TableUse {
  std::string_view name;
  std::uint64_t used = 0;   // rows that stand for something
  std::uint64_t left = 0;   // rows that somebody new can have; of names also those of idle ones
  std::uint64_t rows = 0;   // more than used + left where rows are given out in blocks and their owner has spare ones
  std::uint64_t bytes = 0;  // of the table's pages, those that exist
};

struct SegmentUse {
  TableUse names{"names"};
  TableUse entries{"entries"};
  TableUse sessions{"sessions"};
  TableUse long_names{"long_names"};  // one row for each name
  TableUse notices{"notices"};        // likewise: who was robbed, until the next holder is told
  TableUse long_texts{"long_texts"};  // one row for each entry
  std::uint64_t blocks_left = 0;      // of entries

  [[nodiscard]] std::array<const TableUse*, 6> tables() const noexcept {
    return {&names, &entries, &sessions, &long_names, &notices, &long_texts};
  }
};

/// `snapshot`: of the same mapping.
[[nodiscard]] SegmentUse use_of(const Mapping& mapping, const Snapshot& snapshot);

}  // namespace shmcoord::process
