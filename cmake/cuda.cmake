# The plug-in for NVIDIA devices. The host's compiler builds everything but the kernels, which are files for nvcc, so the project
# needs no second language.
set(cuda_architectures "80;90" CACHE STRING "Compute capabilities that the plug-in has code for; newer ones use the PTX of the last")
find_package(CUDAToolkit 12.0 QUIET)
if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE OR NOT TARGET CUDA::cudart_static OR NOT TARGET CUDA::cublas OR NOT TARGET CUDA::cusolver)
  if(L3A_CUDA STREQUAL "ON")
    message(FATAL_ERROR "the CUDA toolkit is missing: install nvcc 12 or later, cuBLAS and cuSOLVER, or use -DL3A_CUDA=OFF")
  endif()
  return()
endif()

set(kernel_options -std=c++17 -O3 --extended-lambda -Xcompiler -fPIC,-fvisibility=hidden)
foreach(architecture ${cuda_architectures})
  list(APPEND kernel_options -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()
list(GET cuda_architectures -1 architecture)
list(APPEND kernel_options -gencode arch=compute_${architecture},code=compute_${architecture})
file(GLOB kernel_sources CONFIGURE_DEPENDS src/cuda/*/*.cu)
file(GLOB kernel_headers CONFIGURE_DEPENDS src/cuda/*/*.h)
foreach(source ${kernel_sources})
  file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/src ${source})
  string(REGEX REPLACE "[/.]" "_" name ${name})
  set(made ${PROJECT_BINARY_DIR}/${name}.o)
  add_custom_command(OUTPUT ${made} DEPENDS ${source} ${kernel_headers} src/algebra/algebra.h src/algebra/operations.h src/net/network.h src/net/back_end.h
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} ${kernel_options} -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src
            -c ${source} -o ${made} VERBATIM)
  list(APPEND kernels ${made})
endforeach()

file(GLOB cuda_sources CONFIGURE_DEPENDS src/cuda/*.c src/cuda/*/*.c)
add_plugin(cuda ${cuda_sources} src/algebra/pivots.c src/net/places.c ${kernels})
target_link_libraries(l3a_cuda PRIVATE CUDA::cudart_static CUDA::cublas CUDA::cublasLt CUDA::cusolver stdc++ m)
set_target_properties(l3a_cuda PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
