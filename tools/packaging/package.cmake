# Debian packages, made by `cpack --preset deb` of the tree that the preset deb builds: the tool, the library that a
# linked program needs at run time, and what is needed to link one.
#
# Only of a tree that is configured for /usr: with another prefix GNUInstallDirs knows no multiarch folder, and the tool
# and the units would name a place where nothing is.
if(NOT CMAKE_INSTALL_PREFIX MATCHES "^/usr/?$" OR NOT TARGET shmcoord_tool OR NOT TARGET shmcoord_adapters_component)
  return()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME shmcoord)
set(CPACK_PACKAGE_VENDOR "shmcoord maintainers")
set(CPACK_PACKAGE_CONTACT "shmcoord maintainers <maintainers@shmcoord.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # or it would stand above that of each package
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_COMPONENTS_ALL shmcoord_tool shmcoord_library shmcoord_development)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/before_packing.cmake)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_SHMCOORD_TOOL_PACKAGE_NAME shmcoord)
set(CPACK_DEBIAN_SHMCOORD_TOOL_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_SHMCOORD_TOOL_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_SHMCOORD_TOOL_DESCRIPTION "locks between the processes of one host, for scripts
Runs commands one at a time, or so many at a time, on one host: a lock is
given back exactly when its holder dies, goes to the next waiter in order, and
can always say who holds it, since when and why. There is no server; all
processes map a small segment of shared memory.
.
This package has the command line tool, and a service for systemd that a user
may enable, which cleans up at once where nobody waits.")

# A name for each binary interface, so that two of them can be installed beside each other.
get_target_property(soversion shmcoord SOVERSION)
set(library_package libshmcoord${soversion})
set(CPACK_DEBIAN_SHMCOORD_LIBRARY_PACKAGE_NAME ${library_package})
set(CPACK_DEBIAN_SHMCOORD_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_SHMCOORD_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
# What Debian expects. CPack's own scripts, which call ldconfig too, cannot be left out.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/deb/triggers CONTENT "activate-noawait ldconfig\n" @ONLY)
set(CPACK_DEBIAN_SHMCOORD_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/deb/triggers)
set(CPACK_COMPONENT_SHMCOORD_LIBRARY_DESCRIPTION "locks between the processes of one host, shared library
Locks, semaphores, guards and events in a segment of shared memory, which stay
right when a process dies at any instruction.
.
This package has what programs need that are linked with the library.")

# The library's own headers need nothing; what its components need is named by them.
set(CPACK_DEBIAN_SHMCOORD_DEVELOPMENT_PACKAGE_NAME libshmcoord-dev)
set(CPACK_DEBIAN_SHMCOORD_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_SHMCOORD_DEVELOPMENT_PACKAGE_DEPENDS "${library_package} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_SHMCOORD_DEVELOPMENT_PACKAGE_RECOMMENDS "libboost1.81-dev")
set(CPACK_DEBIAN_SHMCOORD_DEVELOPMENT_PACKAGE_SUGGESTS "cmake (>= 3.25), pkg-config, libgit2-dev, libre2-dev")
set(CPACK_COMPONENT_SHMCOORD_DEVELOPMENT_DESCRIPTION "locks between the processes of one host, development files
Locks, semaphores, guards and events in a segment of shared memory, which stay
right when a process dies at any instruction.
.
This package has the headers, and what CMake and pkg-config need to find them;
and the components that are linked statically: for coroutines of Boost.Asio
(libboost1.81-dev), and for guards that ask git, files and commands
(libgit2-dev, libre2-dev).")

include(CPack)
