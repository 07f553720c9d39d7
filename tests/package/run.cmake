# Installs into a fresh prefix and uses what is there as a stranger would: find_package, pkg-config, the tool.
#
#   cmake -D SOURCE=… -D BUILD=… -D SCRATCH=… -D CXX=… -D NM=… -D READELF=… -D PKG_CONFIG=… -D GENERATOR=… -P run.cmake
#
# The program that is built is the first C++ block of README.md, so the README cannot show what does not work.

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  string(JOIN " " line ${ARGV})
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${line}\n-> ${code}\n${out}")
  endif()
  message(STATUS "${line}: ok")
  set(out "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
set(prefix ${SCRATCH}/prefix)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})

# A segment of our own, or two test runs on one host would meet in it.
string(RANDOM LENGTH 12 ALPHABET 0123456789abcdef id)
set(segment readme-test-${id})
file(READ ${SOURCE}/README.md text)
string(FIND "${text}" "```cpp\n" begin)
if(begin EQUAL -1)
  message(FATAL_ERROR "README.md has no C++ example")
endif()
math(EXPR begin "${begin} + 7")
string(SUBSTRING "${text}" ${begin} -1 text)
string(FIND "${text}" "```" end)
string(SUBSTRING "${text}" 0 ${end} text)
string(REPLACE "\"readme\"" "\"${segment}\"" example "${text}")
if(example STREQUAL text)
  message(FATAL_ERROR "the example does not open a segment named \"readme\"")
endif()
set(main ${SCRATCH}/main.cpp)
file(WRITE ${main} "${example}")

run(${CMAKE_COMMAND} -S ${SOURCE}/tests/package -B ${SCRATCH}/build -G ${GENERATOR}
  -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${CXX} -DEXAMPLE=${main}
  -DTASKS_EXAMPLE=${SOURCE}/tests/tasks/examples/shared_semaphore.cpp
  -DADAPTERS_EXAMPLE=${SOURCE}/tests/adapters/examples/guarded_step.cpp
  -DMANAGER_EXAMPLE=${SOURCE}/tests/coordination/examples/two_stores.cpp)
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)

file(GLOB_RECURSE library ${prefix}/*/libshmcoord.so)
file(GLOB_RECURSE pc ${prefix}/*/shmcoord.pc)
cmake_path(GET library PARENT_PATH library_dir)
cmake_path(GET pc PARENT_PATH pc_dir)
set(ENV{PKG_CONFIG_PATH} ${pc_dir})
run(${PKG_CONFIG} --cflags --libs shmcoord)
separate_arguments(flags UNIX_COMMAND "${out}")
run(${CXX} -std=c++20 ${main} -o ${SCRATCH}/by_pkg_config ${flags})

# Each twice: a second start finds the segment of the first.
set(ENV{LD_LIBRARY_PATH} ${library_dir})
set(codes)
foreach(program ${SCRATCH}/build/downstream ${SCRATCH}/by_pkg_config)
  foreach(round 1 2)
    execute_process(COMMAND ${program} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
    list(APPEND codes ${code})
    message(STATUS "${program}: ${code}: ${out}")
  endforeach()
endforeach()
execute_process(COMMAND ${SCRATCH}/build/coroutines ${segment}
  RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
message(STATUS "coroutines: ${code}: ${out}")
file(REMOVE /dev/shm/shmcoord.${segment})
if(NOT code EQUAL 0)
  message(FATAL_ERROR "the example for coroutines ended with ${code}")
endif()
run(${SCRATCH}/build/guarded_step)
run(${SCRATCH}/build/two_stores)
if(NOT codes STREQUAL "0;0;0;0")
  message(FATAL_ERROR "the README's example ended with ${codes}")
endif()

# What the library needs, and what it shows.
run(${READELF} -d ${library})
string(REGEX REPLACE "[];[]" " " out "${out}")  # brackets would keep a list from being split
string(REGEX MATCHALL "NEEDED[^\n]*" needed "${out}")
foreach(line IN LISTS needed)
  if(NOT line MATCHES " (libc|libstdc\\+\\+|libgcc_s|libm|ld-linux-x86-64|ld-linux-aarch64)\\.so")
    message(FATAL_ERROR "the library needs more than libc and libstdc++: ${line}")
  endif()
endforeach()
if(NOT out MATCHES "SONAME[^\n]* libshmcoord\\.so\\.0\\.1 " OR NOT out MATCHES "NODELETE")
  message(FATAL_ERROR "soname or NODELETE is missing:\n${out}")
endif()

run(${NM} -DC --defined-only ${library})
string(REGEX REPLACE "[];[]" "_" out "${out}")
string(REGEX REPLACE "\n" ";" symbols "${out}")
set(what "((non-virtual thunk to|typeinfo for|typeinfo name for|vtable for|VTT for) )?shmcoord::")
foreach(symbol IN LISTS symbols)
  if(symbol STREQUAL "" OR symbol MATCHES " A SHMCOORD_")
    continue()
  endif()
  if(NOT symbol MATCHES "^[0-9a-f]+ [A-Za-z] ${what}")
    message(FATAL_ERROR "a symbol that is not ours is exported: ${symbol}")
  endif()
  if(symbol MATCHES "^[0-9a-f]+ [A-Za-z] ${what}(base|core|engine|process)::")
    message(FATAL_ERROR "an inner symbol is exported: ${symbol}")
  endif()
endforeach()

if(EXISTS ${prefix}/bin/shmcoord)
  unset(ENV{LD_LIBRARY_PATH})
  run(${prefix}/bin/shmcoord --help)
  # What needs the adapters is found in libexec; the tool itself stays free of them.
  run(${prefix}/bin/shmcoord guard eval --condition "command('test -d .') && file_exists(prefix)" --directory ${SCRATCH})
  run(${READELF} -d ${prefix}/bin/shmcoord)
  if(out MATCHES "libgit2|libre2")
    message(FATAL_ERROR "the tool needs what only its adapters may need:\n${out}")
  endif()
endif()
file(REMOVE_RECURSE ${SCRATCH})
