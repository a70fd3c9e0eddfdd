# A CUDA that needs no device: what is needed of its functions (fake_cuda.c, fake_cublas_lt.c), and of its language, so that the kernels
# of networks run on the processor (emulate_cuda.h).
enable_language(CXX)

# add_emulation(TARGET KERNELS…): a program or plug-in gets CUDA's functions, and kernels that run.
function(add_emulation target)
  # CUDA's headers have warnings of their own, and kernels read memory as other types. A plug-in for a C program must not need C++'s
  # part of a sanitizer.
  set(options -std=c++17 -O2 -w -fno-strict-aliasing -fvisibility=hidden)
  if(L3A_SANITIZE MATCHES undefined)
    list(APPEND options -fno-sanitize=vptr)
    if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
      list(APPEND options -fno-sanitize=function)
    endif()
  endif()
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "${options}" COMPILE_DEFINITIONS L3A_EMULATE_CUDA)
  target_sources(${target} PRIVATE unit/fake_cuda.c unit/fake_cublas_lt.c unit/emulated_threads.c ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src unit)
  target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${target} PRIVATE Threads::Threads m)
endfunction()
set_source_files_properties(unit/fake_cuda.c PROPERTIES COMPILE_OPTIONS -Wno-unused-parameter)
set_source_files_properties(unit/fake_cublas_lt.c unit/emulated_threads.c PROPERTIES COMPILE_OPTIONS -O3)

# The plug-in, without the file that looks for cuDNN.
file(GLOB net_kernels CONFIGURE_DEPENDS ../src/cuda/net/*.cu)
set(fake_sources ${cuda_sources})
list(FILTER fake_sources EXCLUDE REGEX "/cudnn\\.c$")
add_library(plugin_fake_cuda MODULE ${fake_sources})
add_emulation(plugin_fake_cuda ${net_kernels})
list(APPEND cuda_plugins fake_cuda)

# What checks the emulation itself.
add_emulation(test_emulate_cuda unit/emulated_kernels.cu)
target_compile_definitions(test_emulate_cuda PRIVATE L3A_EMULATED)
