# Run by CPack over what it installed, before it packs: what Debian expects of a package beside the files themselves.
set(tree ${CPACK_TEMPORARY_INSTALL_DIRECTORY})

# Manual pages are compressed; without a time in it, so that the same page is the same file.
file(GLOB_RECURSE pages ${tree}/shmcoord.1)
foreach(page IN LISTS pages)
  execute_process(COMMAND gzip -9n ${page} COMMAND_ERROR_IS_FATAL ANY)
endforeach()

# CPack makes folders as the umask of who packs has it.
execute_process(COMMAND find ${tree} -type d -exec chmod 755 {} + COMMAND_ERROR_IS_FATAL ANY)
