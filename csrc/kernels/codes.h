// How sixteen values become 8-bit codes, and where those of a key lie (layout.h).
#pragma once

#include "kernels/layout.h"
#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

// Sixteen values as they are stored.
TAILRACE_INLINE void encode(const float* x, float scale, uint8_t* codes) {
    const Vec steps = set1(scale > 1e-30f ? 1.0f / scale : 0.0f);
    store_int8(reinterpret_cast<int8_t*>(codes), max(nearest(load(x) * steps), set1(int32_t{-127})));
    for (int i = 0; i < kLanes; ++i) codes[i] ^= 0x80;
}

// `dim`, a multiple of 16, values of a mixed key.
static inline void encode_key(const float* mixed, int dim, float scale, int lane, uint8_t* tile) {
    for (int d = 0; d < dim; d += kLanes) {
        uint8_t codes[kLanes];
        encode(mixed + d, scale, codes);
        for (int i = 0; i < kLanes; i += 4) std::memcpy(tile + ((d + i) / 4 * kKeyGroup + lane) * 4, codes + i, 4);
    }
}

}  // namespace tailrace::TAILRACE_ISA
