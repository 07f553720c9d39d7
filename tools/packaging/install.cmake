# What `cmake --install` puts where: library, headers, CMake package, pkg-config file, tool (in libexec what of it needs
# the adapters), completion, manual page; and the components, which only those who ask for them link: for coroutines
# (needs Boost), for what guards ask outside (needs libgit2 and RE2), and for tests.
#
# For who installs a part (`cmake --install --component`, package.cmake) it is three of them: shmcoord_tool,
# shmcoord_library, which is what a linked program needs at run time, and shmcoord_development, which is the rest.
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME shmcoord_development)

if(TARGET shmcoord)
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/shmcoord)
  install(TARGETS shmcoord EXPORT shmcoordTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
      COMPONENT shmcoord_library NAMELINK_COMPONENT shmcoord_development
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT shmcoordTargets NAMESPACE shmcoord:: DESTINATION ${package_dir})
  install(TARGETS shmcoord_tasks_component EXPORT shmcoordTasksTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT shmcoordTasksTargets NAMESPACE shmcoord:: DESTINATION ${package_dir})
  if(TARGET shmcoord_adapters_component)
    install(TARGETS shmcoord_adapters_component EXPORT shmcoordAdaptersTargets
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
      FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    install(EXPORT shmcoordAdaptersTargets NAMESPACE shmcoord:: DESTINATION ${package_dir})
    install(FILES ${CMAKE_CURRENT_LIST_DIR}/shmcoordAdaptersDependencies.cmake DESTINATION ${package_dir})
  endif()
  install(TARGETS shmcoord_testing_component EXPORT shmcoordTestingTargets
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT shmcoordTestingTargets NAMESPACE shmcoord:: DESTINATION ${package_dir})

  configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/shmcoordConfig.cmake.in
    ${PROJECT_BINARY_DIR}/shmcoordConfig.cmake INSTALL_DESTINATION ${package_dir})
  # Below 1.0 a minor version may break; from 1.0 on this becomes SameMajorVersion.
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/shmcoordConfigVersion.cmake
    VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/shmcoordConfig.cmake ${PROJECT_BINARY_DIR}/shmcoordConfigVersion.cmake
    DESTINATION ${package_dir})

  # Relative to the .pc file, so that an installed tree can be moved.
  file(RELATIVE_PATH SHMCOORD_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" SHMCOORD_PC_PREFIX "${SHMCOORD_PC_PREFIX}")
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE SHMCOORD_PC_LIBDIR)
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_INCLUDEDIR BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE SHMCOORD_PC_INCLUDEDIR)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/shmcoord.pc.in ${PROJECT_BINARY_DIR}/shmcoord.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/shmcoord.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

if(TARGET shmcoord_tool)
  set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME shmcoord_tool)
  install(TARGETS shmcoord_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(TARGET shmcoord_adapters_tool)
    install(TARGETS shmcoord_adapters_tool RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/shmcoord)
  endif()
  if(NOT CMAKE_CROSSCOMPILING)
    install(FILES ${PROJECT_BINARY_DIR}/shmcoord.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  endif()
  install(FILES ${PROJECT_SOURCE_DIR}/tools/completion/shmcoord.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME shmcoord)

  # For systemd, of each user and not of the host, since a segment belongs to a user: one unit for the default segment,
  # and one for any other by its name. systemd looks in lib of a prefix, whatever its libraries' folder is.
  set(units shmcoord-reap shmcoord-reap@)
  set(segments default-%U %i)  # the user's number; what stands behind the @
  foreach(unit SHMCOORD_REAP_SEGMENT IN ZIP_LISTS units segments)
    configure_file(${CMAKE_CURRENT_LIST_DIR}/shmcoord-reap.service.in ${PROJECT_BINARY_DIR}/${unit}.service @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${unit}.service DESTINATION lib/systemd/user)
  endforeach()
endif()
unset(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME)
