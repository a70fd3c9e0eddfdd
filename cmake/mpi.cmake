# The plug-in for MPI. The library is not linked with it: base/plugin.c loads it.
pkg_check_modules(OMPI QUIET IMPORTED_TARGET ompi-c)
if(NOT OMPI_FOUND)
  if(L3A_MPI STREQUAL "ON")
    message(FATAL_ERROR "Open MPI is missing: install libopenmpi-dev, or use -DL3A_MPI=OFF")
  endif()
  return()
endif()

file(GLOB mpi_sources CONFIGURE_DEPENDS src/mpi/*.c)
add_library(l3a_mpi MODULE ${mpi_sources})
target_include_directories(l3a_mpi PRIVATE include src)
target_link_libraries(l3a_mpi PRIVATE PkgConfig::OMPI)
target_link_options(l3a_mpi PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
if(NOT L3A_SANITIZE) # the sanitizers' functions come from the program
  target_link_options(l3a_mpi PRIVATE LINKER:--no-undefined)
endif()
set_target_properties(l3a_mpi PROPERTIES OUTPUT_NAME l3a-mpi LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
install(TARGETS l3a_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
