# The kernels, compiled once for each instruction set of the processor that is built for, and the choice among them:
# KERNEL_OBJECTS.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# A product must round as the source says: fused multiply-adds are written out, never guessed by the compiler.
add_compile_options(-Wall -Wextra -ffp-contract=off)

set(CSRC ${CMAKE_CURRENT_LIST_DIR})
set(ALL_KERNELS attention ceiling embed gemm_float gemm_quantized index latent rope routing rows select table vocabulary)

set(CONVERSIONS ../convert/convert)  # for those instruction sets that have vectors of their own

set(KERNEL_OPTIMISATION -O3 CACHE STRING "with sanitizers, -O1: the compiler takes half a minute instead of ten")

# kernels(<instruction set> <sources> <flags>...): the same sources in a namespace of their own.
function(kernels isa sources)
  list(TRANSFORM sources PREPEND ${CSRC}/kernels/)
  list(TRANSFORM sources APPEND .cpp)
  add_library(kernels_${isa} OBJECT ${sources})
  target_include_directories(kernels_${isa} PRIVATE ${CSRC})
  target_compile_definitions(kernels_${isa} PRIVATE TAILRACE_ISA=${isa})
  target_compile_options(kernels_${isa} PRIVATE ${KERNEL_OPTIMISATION} -fno-exceptions ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # g++ 12 warns about its own AVX-512 header
    target_compile_options(kernels_${isa} PRIVATE -Wno-maybe-uninitialized -Wno-uninitialized)
  endif()
  set(KERNEL_OBJECTS ${KERNEL_OBJECTS} $<TARGET_OBJECTS:kernels_${isa}> PARENT_SCOPE)
endfunction()

add_library(kernel_choice OBJECT ${CSRC}/simd/dispatch.cpp ${CSRC}/simd/isa.cpp ${CSRC}/convert/dispatch.cpp)
target_include_directories(kernel_choice PRIVATE ${CSRC})
set(KERNEL_OBJECTS $<TARGET_OBJECTS:kernel_choice>)

kernels(portable "${ALL_KERNELS};${CONVERSIONS}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(AVX2 -mavx2 -mfma -mf16c)
  set(AVX512 ${AVX2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mprefer-vector-width=512)
  kernels(avx2 "${ALL_KERNELS};${CONVERSIONS}" ${AVX2})
  kernels(avxvnni "${ALL_KERNELS}" ${AVX2} -mavxvnni)
  kernels(avx512vnni "${ALL_KERNELS};${CONVERSIONS}" ${AVX512})
  kernels(avx512bf16 "${ALL_KERNELS}" ${AVX512} -mavx512bf16)
  kernels(amx gemm_amx ${AVX512} -mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(NEON -DTAILRACE_NEON)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # it would load all weights of a group at once, and spill a fifth of all it does
    list(APPEND NEON -fno-schedule-insns)
  endif()
  kernels(neon "${ALL_KERNELS};${CONVERSIONS}" ${NEON})
  kernels(dotprod "${ALL_KERNELS}" ${NEON} -march=armv8.2-a+dotprod)
endif()
