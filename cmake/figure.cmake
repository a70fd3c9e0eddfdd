# The plug-in for figures in PDF and PNG. The library is not linked with it: base/plugin.c loads it.
pkg_check_modules(RSVG QUIET IMPORTED_TARGET librsvg-2.0>=2.52 cairo-pdf)
if(NOT RSVG_FOUND)
  if(L3A_FIGURE STREQUAL "ON")
    message(FATAL_ERROR "librsvg is missing: install librsvg2-dev, or use -DL3A_FIGURE=OFF")
  endif()
  return()
endif()

file(GLOB figure_sources CONFIGURE_DEPENDS src/figure/*.c)
add_library(l3a_figure MODULE ${figure_sources})
target_include_directories(l3a_figure PRIVATE include src)
target_link_libraries(l3a_figure PRIVATE PkgConfig::RSVG)
target_link_options(l3a_figure PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
if(NOT L3A_SANITIZE) # the sanitizers' functions come from the program
  target_link_options(l3a_figure PRIVATE LINKER:--no-undefined)
endif()
set_target_properties(l3a_figure PROPERTIES OUTPUT_NAME l3a-figure LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
install(TARGETS l3a_figure LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}${L3A_PLUGIN_FOLDER})
