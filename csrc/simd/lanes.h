// What every instruction set's vectors have in common.
#pragma once

#include <cstdint>
#include <cstring>

#include "simd/half.h"

#ifndef TAILRACE_ISA
#error "compile kernels with -DTAILRACE_ISA=<instruction set>"
#endif

#define TAILRACE_INLINE static inline __attribute__((always_inline))

namespace tailrace::TAILRACE_ISA {

constexpr int kLanes = 16;

}  // namespace tailrace::TAILRACE_ISA
