# The command as one file that runs on any Linux of its architecture, whatever is installed there. Libraries that exist only as
# shared ones stay out of it: oneDNN, so networks run on the matrix library, libheif, and what libmicrohttpd needs, so there is no
# server. So do plug-ins: base/plugin.c says why.
foreach(part ONEDNN HEIF CUDA MPI FIGURE SERVE)
  if(L3A_${part} STREQUAL "ON")
    message(FATAL_ERROR "a static build cannot have L3A_${part}")
  endif()
  set(L3A_${part} OFF)
endforeach()
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
list(APPEND PKG_CONFIG_ARGN --static)
add_compile_definitions(L3A_STATIC)

# OpenBLAS brings kernels for twenty kinds of processors, 24 MB of them. Those of old processors are left out, and those of one that
# differs from its relative only in bfloat16; such a processor gets the kernels of a relative that has no instruction it lacks.
set(kernels_instead ATOM=PRESCOTT NANO=PRESCOTT PENRYN=CORE2 DUNNINGTON=CORE2 OPTERON_SSE3=OPTERON BARCELONA=OPTERON BOBCAT=PRESCOTT
    PILEDRIVER=BULLDOZER STEAMROLLER=BULLDOZER EXCAVATOR=BULLDOZER COOPERLAKE=SKYLAKEX)

function(link_statically target)
  set_target_properties(l3a PROPERTIES EXCLUDE_FROM_ALL ON)
  target_link_libraries(${target} PRIVATE l3a_static m)
  target_link_options(${target} PRIVATE -static -s)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(TRANSFORM kernels_instead REPLACE "(.*)=(.*)" "LINKER:--defsym=gotoblas_\\1=gotoblas_\\2")
    target_link_options(${target} PRIVATE ${kernels_instead})
  endif()
endfunction()
