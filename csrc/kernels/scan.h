// Passing over a row of numbers in search of the large ones.
#pragma once

#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

constexpr float kLowest = -__builtin_inff();

TAILRACE_INLINE Vec load_or(const float* x, int n, float other) {
    return where_between(0, n, load_first(x, n), set1(other));
}

// Calls part(i, bits) for each vector of the first n: bit k says whether x[i + k] is at least `least`.
template <class Part>
TAILRACE_INLINE void each_part(const float* x, int n, float least, Part part) {
    const Vec bound = set1(least);
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) part(i, at_least(load(x + i), bound));
    if (i < n) part(i, at_least(load_or(x + i, n - i, kLowest), bound) & ((1u << (n - i)) - 1));
}

// Calls found(i) for each of the first n that is at least `least`, in ascending order.
template <class Found>
TAILRACE_INLINE void each_at_least(const float* x, int n, float least, Found found) {
    each_part(x, n, least, [&](int i, uint32_t bits) {
        for (; bits != 0; bits &= bits - 1) found(i + __builtin_ctz(bits));
    });
}

}  // namespace tailrace::TAILRACE_ISA
