# What shmcoord::adapters links beside the library, as targets: shmcoord_libgit2 and shmcoord_re2. Used by this build and,
# installed, by the package, so that both look the same way. Sets shmcoord_adapters_missing to what was not found.
#
# pkg-config says where to look; where it is missing or knows nothing, the usual places are searched all the same. The
# targets name no path when they are installed: each machine finds its own.

set(shmcoord_adapters_missing "")
find_package(PkgConfig QUIET)

function(shmcoord_find_dependency name library header)
  if(TARGET shmcoord_${name})
    return()
  endif()
  if(PkgConfig_FOUND)
    pkg_check_modules(SHMCOORD_PC_${name} QUIET ${name})
  endif()
  find_library(SHMCOORD_${name}_LIBRARY NAMES ${library} HINTS ${SHMCOORD_PC_${name}_LIBRARY_DIRS})
  find_path(SHMCOORD_${name}_INCLUDE_DIR NAMES ${header} HINTS ${SHMCOORD_PC_${name}_INCLUDE_DIRS})
  mark_as_advanced(SHMCOORD_${name}_LIBRARY SHMCOORD_${name}_INCLUDE_DIR)
  if(NOT SHMCOORD_${name}_LIBRARY OR NOT SHMCOORD_${name}_INCLUDE_DIR)
    set(shmcoord_adapters_missing "${shmcoord_adapters_missing} ${name}" PARENT_SCOPE)
    return()
  endif()
  add_library(shmcoord_${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(shmcoord_${name} PROPERTIES
    IMPORTED_LOCATION ${SHMCOORD_${name}_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${SHMCOORD_${name}_INCLUDE_DIR})
endfunction()

shmcoord_find_dependency(libgit2 git2 git2.h)
shmcoord_find_dependency(re2 re2 re2/re2.h)
