#pragma once

#include <cstdint>

#include "engine/words.hpp"

// Is this still the process that joined?
//
// A forked child has copies of every handle, but none of the kernel's promises: its threads, byte locks and robust list
// stayed with the parent. It must find that out on every call, without a system call. So a random number stands in a
// page that the kernel wipes in every child (MADV_WIPEONFORK); a handle remembers the number that it was made under. A
// child that joins anew draws a new one. pthread_atfork would not do: it is not run by a raw clone().

namespace shmcoord::process {

/// The number of this process, drawn at the first call; never 0.
[[nodiscard]] std::uint64_t process_number();

/// Where that number stands; wiped in children. For callers that compare it on every operation.
[[nodiscard]] const engine::Word64& process_word();

/// True in the process in which `number` was drawn, false in its forked children. One load.
[[nodiscard]] bool same_process(std::uint64_t number) noexcept;

}  // namespace shmcoord::process
