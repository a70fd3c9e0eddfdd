# The command `serve`. It is linked into the command, not into the library; the page is embedded.
pkg_check_modules(MICROHTTPD IMPORTED_TARGET libmicrohttpd>=0.9.64)
if(MICROHTTPD_FOUND)
  file(GLOB serve_sources CONFIGURE_DEPENDS src/serve/*.c)
  file(GLOB page_names CONFIGURE_DEPENDS src/serve/page/*)
  set(page_source ${PROJECT_BINARY_DIR}/page_files.c)
  add_custom_command(OUTPUT ${page_source} DEPENDS ${page_names} src/serve/openapi.json cmake/page.cmake COMMAND
    ${CMAKE_COMMAND} -DFROM=${PROJECT_SOURCE_DIR}/src/serve -DTO=${page_source} -P ${PROJECT_SOURCE_DIR}/cmake/page.cmake)
  target_sources(l3a_command PRIVATE ${serve_sources} ${page_source})
  target_compile_definitions(l3a_command PRIVATE L3A_HAVE_SERVE)
  target_link_libraries(l3a_command PRIVATE PkgConfig::MICROHTTPD Threads::Threads)
elseif(L3A_SERVE STREQUAL "ON")
  message(FATAL_ERROR "libmicrohttpd is missing: install libmicrohttpd-dev, or use -DL3A_SERVE=OFF")
endif()
