# The one place that says how our code is compiled. Every target of ours links shmcoord_flags; nothing of it is
# installed, so a user's own flags are never touched.

add_library(shmcoord_flags INTERFACE)

target_compile_options(shmcoord_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow
  -Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast -Wcast-align -Wdouble-promotion -Wformat=2
  -Wimplicit-fallthrough -Wextra-semi -Wundef
  # g++ 12 sees an uninitialised read inside <stop_token>, and an overlapping copy inside std::string: neither is there.
  $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond -Wlogical-op -Wno-maybe-uninitialized -Wno-restrict>)
if(SHMCOORD_WERROR)
  target_compile_options(shmcoord_flags INTERFACE -Werror)
endif()

# The control word is changed by one 16-byte compare-and-swap.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  target_compile_options(shmcoord_flags INTERFACE -mcx16)
endif()

if(SHMCOORD_SANITIZE)
  target_compile_options(shmcoord_flags INTERFACE
    -fsanitize=${SHMCOORD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(shmcoord_flags INTERFACE -fsanitize=${SHMCOORD_SANITIZE})
endif()
if(SHMCOORD_MUTATIONS)
  target_compile_definitions(shmcoord_flags INTERFACE SHMCOORD_MUTATIONS=1)
endif()
if(SHMCOORD_FUZZ)
  target_compile_options(shmcoord_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(SHMCOORD_COVERAGE)
  # Atomic: keepers and forked children count too.
  target_compile_options(shmcoord_flags INTERFACE --coverage -fprofile-abs-path -fprofile-update=atomic)
  target_compile_definitions(shmcoord_flags INTERFACE SHMCOORD_COUNTS_BRANCHES)
  target_link_options(shmcoord_flags INTERFACE --coverage)
endif()

find_package(Threads REQUIRED)
target_link_libraries(shmcoord_flags INTERFACE Threads::Threads)
