# The plug-in for figures in PDF and PNG.
pkg_check_modules(RSVG QUIET IMPORTED_TARGET librsvg-2.0>=2.52 cairo-pdf)
if(NOT RSVG_FOUND)
  if(L3A_FIGURE STREQUAL "ON")
    message(FATAL_ERROR "librsvg is missing: install librsvg2-dev, or use -DL3A_FIGURE=OFF")
  endif()
  return()
endif()

file(GLOB figure_sources CONFIGURE_DEPENDS src/figure/*.c)
add_plugin(figure ${figure_sources})
target_link_libraries(l3a_figure PRIVATE PkgConfig::RSVG)
