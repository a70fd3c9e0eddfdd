# The plug-in for NVIDIA devices. The host's compiler builds everything but the kernels, which are two files for nvcc, so the project
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
foreach(name kernels sort)
  set(made ${PROJECT_BINARY_DIR}/cuda_${name}.o)
  add_custom_command(OUTPUT ${made} DEPENDS src/algebra/cuda/${name}.cu src/algebra/cuda/kernels.h src/algebra/cuda/sort.h src/algebra/algebra.h src/algebra/operations.h
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} ${kernel_options} -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src
            -c ${PROJECT_SOURCE_DIR}/src/algebra/cuda/${name}.cu -o ${made} VERBATIM)
  list(APPEND kernels ${made})
endforeach()

file(GLOB cuda_sources CONFIGURE_DEPENDS src/algebra/cuda/*.c)
add_plugin(cuda ${cuda_sources} src/algebra/pivots.c ${kernels})
target_link_libraries(l3a_cuda PRIVATE CUDA::cudart_static CUDA::cublas CUDA::cusolver stdc++ m)
set_target_properties(l3a_cuda PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
