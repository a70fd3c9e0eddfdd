# add_plugin(KIND SOURCES…): the target l3a_KIND, libl3a-KIND.so. The library is not linked with plug-ins: base/plugin.c loads them.
function(add_plugin kind)
  set(exports ${PROJECT_SOURCE_DIR}/cmake/exports.map)
  add_library(l3a_${kind} MODULE ${ARGN})
  target_include_directories(l3a_${kind} PRIVATE include src)
  target_link_options(l3a_${kind} PRIVATE LINKER:--version-script=${exports})
  if(NOT L3A_SANITIZE) # the sanitizers' functions come from the program
    target_link_options(l3a_${kind} PRIVATE LINKER:--no-undefined)
  endif()
  set_target_properties(l3a_${kind} PROPERTIES OUTPUT_NAME l3a-${kind} LINK_DEPENDS ${exports})
  install(TARGETS l3a_${kind} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}${L3A_PLUGIN_FOLDER})
endfunction()
