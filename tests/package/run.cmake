# Installs into a fresh prefix and uses what is there as a stranger would: find_package, pkg-config, the tool.
#
#   cmake -D SOURCE=… -D BUILD=… -D SCRATCH=… -D CXX=… -D NM=… -D READELF=… -D PKG_CONFIG=… -D GENERATOR=… -P run.cmake
#
# The program that is built is the first C++ block of README.md, so the README cannot show what does not work.
#
# With -D PREFIX=/usr instead of BUILD it installs nothing, and uses what is there (tests/package/deb).

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
if(PREFIX)
  set(prefix ${PREFIX})
else()
  set(prefix ${SCRATCH}/prefix)
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
endif()
set(library_dirs ${prefix}/lib ${prefix}/lib64 ${prefix}/lib/*-linux-gnu)
list(TRANSFORM library_dirs APPEND /libshmcoord.so OUTPUT_VARIABLE library)
file(GLOB library ${library})
list(LENGTH library count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "one libshmcoord.so was expected in ${library_dirs}: ${library}")
endif()
cmake_path(GET library PARENT_PATH library_dir)

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
  -DPACKAGE=${library_dir}/cmake/shmcoord
  -DTASKS_EXAMPLE=${SOURCE}/tests/tasks/examples/shared_semaphore.cpp
  -DADAPTERS_EXAMPLE=${SOURCE}/tests/adapters/examples/guarded_step.cpp
  -DMANAGER_EXAMPLE=${SOURCE}/tests/coordination/examples/two_stores.cpp)
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)

if(NOT EXISTS ${library_dir}/pkgconfig/shmcoord.pc)
  message(FATAL_ERROR "there is no shmcoord.pc")
endif()
set(ENV{PKG_CONFIG_PATH} ${library_dir}/pkgconfig)
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

# A build without the tool installs none.
if(PREFIX OR EXISTS ${prefix}/bin/shmcoord)
  unset(ENV{LD_LIBRARY_PATH})
  run(${prefix}/bin/shmcoord --help)
  # What needs the adapters is found in libexec; the tool itself stays free of them.
  run(${prefix}/bin/shmcoord guard eval --directory ${SCRATCH}
    --condition "command('test -d .') && file_exists(main.cpp)")
  run(${READELF} -d ${prefix}/bin/shmcoord)
  if(out MATCHES "libgit2|libre2")
    message(FATAL_ERROR "the tool needs what only its adapters may need:\n${out}")
  endif()

  # The units are where systemd looks, and the tool has the options that they give it.
  run(${prefix}/bin/shmcoord help reap)
  set(help "${out}")
  find_program(SYSTEMD_ANALYZE systemd-analyze)
  foreach(unit shmcoord-reap.service shmcoord-reap@.service)
    file(READ ${prefix}/lib/systemd/user/${unit} text)
    if(NOT text MATCHES "\nExecStart=([^ \n]+) reap( [^\n]*)?\n")
      message(FATAL_ERROR "${unit} does not start the reaper:\n${text}")
    endif()
    set(program ${CMAKE_MATCH_1})
    string(REGEX MATCHALL " --?[a-z][a-z-]*" options "${CMAKE_MATCH_2}")
    foreach(option IN LISTS options)
      string(STRIP ${option} option)
      if(NOT help MATCHES "[ ,]${option}[ ,\n]")
        message(FATAL_ERROR "${unit}: `shmcoord reap` has no ${option}:\n${help}")
      endif()
    endforeach()
    # Installed elsewhere than it was configured for, it names the place that it was configured for.
    if(PREFIX AND NOT program STREQUAL "${prefix}/bin/shmcoord")
      message(FATAL_ERROR "${unit} starts ${program}")
    endif()
    if(NOT SYSTEMD_ANALYZE)
      message(STATUS "${unit}: not verified, there is no systemd-analyze")
      continue()
    endif()
    string(REPLACE "${program}" "${prefix}/bin/shmcoord" text "${text}")
    file(WRITE ${SCRATCH}/units/${unit} "${text}")
    set(ENV{XDG_RUNTIME_DIR} ${SCRATCH})
    run(${SYSTEMD_ANALYZE} --user --man=no verify ${SCRATCH}/units/${unit})
    if(out MATCHES "shmcoord-reap")  # what it does not know it ignores, and says so
      message(FATAL_ERROR "${unit}: ${out}")
    endif()
  endforeach()
endif()
file(REMOVE_RECURSE ${SCRATCH})
