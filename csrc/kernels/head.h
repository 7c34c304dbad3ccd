// One head's values in vectors, however many dimensions it has.
#pragma once

#include "kernels/layout.h"
#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

// Dimensions [d, d + 16) of a head, zeros behind its end.
TAILRACE_INLINE Vec load_head(const float* x, int d, int head_dim) {
    return head_dim - d >= kLanes ? load(x + d) : load_first(x + d, head_dim - d);
}

// Dimensions [0, padded_head(head_dim)).
static inline void pad(const float* x, int head_dim, float* out) {
    for (int d = 0; d < padded_head(head_dim); d += kLanes) store(out + d, load_head(x, d, head_dim));
}

// The largest of dim values, regardless of sign.
TAILRACE_INLINE float largest_of(const float* x, int dim) {
    Vec tops = zero();
    for (int d = 0; d < dim; d += kLanes) tops = max(tops, abs(load(x + d)));
    return largest(tops);
}

// Spreads the few large values of a head over all its dimensions, so that eight bits of each are enough: a Hadamard
// transform. A dot of two heads stays what it is when both are mixed.
template <int kDistance>
TAILRACE_INLINE Vec mix_lanes(Vec x) {
    alignas(64) float signs[kLanes];
    for (int i = 0; i < kLanes; ++i) signs[i] = i & kDistance ? -1.0f : 1.0f;
    return fma(x, load(signs), swap_lanes<kDistance>(x));
}

// Sizes are powers of two, from sixteen on.
static inline void mix_block(float* x, int size) {
    const Vec scale = set1(1.0f / __builtin_sqrtf(static_cast<float>(size)));
    for (int i = 0; i < size; i += kLanes) {
        store(x + i, mix_lanes<1>(mix_lanes<2>(mix_lanes<4>(mix_lanes<8>(load(x + i) * scale)))));
    }
    for (int distance = kLanes; distance < size; distance *= 2) {
        for (int i = 0; i < size; i += kLanes) {
            if (i & distance) continue;
            const Vec a = load(x + i), b = load(x + i + distance);
            store(x + i, a + b);
            store(x + i + distance, a - b);
        }
    }
}

// out [padded_head(head_dim)]: in blocks of powers of two, the largest first.
static inline void mix(const float* x, int head_dim, float* out) {
    const int dim = padded_head(head_dim);
    pad(x, head_dim, out);
    int size = kMaxHeadDim;
    for (int done = 0; done < dim; done += size) {
        while (size > dim - done) size /= 2;
        mix_block(out + done, size);
    }
}

}  // namespace tailrace::TAILRACE_ISA
