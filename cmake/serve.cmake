# The command `serve`. It is linked into the command, not into the library; the page is embedded.
pkg_check_modules(MICROHTTPD IMPORTED_TARGET libmicrohttpd>=0.9.64)
if(MICROHTTPD_FOUND)
  file(GLOB serve_sources CONFIGURE_DEPENDS src/serve/*.c)
  file(GLOB page_files CONFIGURE_DEPENDS src/serve/page/*)
  target_sources(l3a_command PRIVATE ${serve_sources})
  target_include_directories(l3a_command PRIVATE src)
  target_compile_definitions(l3a_command PRIVATE L3A_HAVE_SERVE)
  set_source_files_properties(src/serve/page.c PROPERTIES OBJECT_DEPENDS "${page_files};${PROJECT_SOURCE_DIR}/src/serve/openapi.json"
    COMPILE_DEFINITIONS "L3A_SERVE_FOLDER=\"${PROJECT_SOURCE_DIR}/src/serve\"")
  target_link_libraries(l3a_command PRIVATE PkgConfig::MICROHTTPD Threads::Threads)
elseif(L3A_SERVE STREQUAL "ON")
  message(FATAL_ERROR "libmicrohttpd is missing: install libmicrohttpd-dev, or use -DL3A_SERVE=OFF")
endif()
