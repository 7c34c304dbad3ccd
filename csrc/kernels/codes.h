// How values become codes of 8 bits, and where those of a key lie (layout.h).
//
// A format of codes says:
//
//     scale_of    the scale for the largest of a head's values
//     encode      sixteen values as they are stored
#pragma once

#include "kernels/head.h"
#include "simd/e4m3.h"

namespace tailrace::TAILRACE_ISA {

struct Int8Codes {
    TAILRACE_INLINE float scale_of(float top) { return top / 127.0f; }
    TAILRACE_INLINE void encode(const float* x, float scale, uint8_t* codes) {
        const Vec steps = set1(scale > 1e-30f ? 1.0f / scale : 0.0f);
        store_int8(reinterpret_cast<int8_t*>(codes), max(nearest(load(x) * steps), set1(int32_t{-127})));
        for (int i = 0; i < kLanes; ++i) codes[i] ^= 0x80;
    }
};

struct E4m3Codes {
    // The least power of two that keeps codes in range. Neither codes times it nor its inverse leave those of floats.
    TAILRACE_INLINE float scale_of(float top) {
        constexpr uint32_t kMantissaOfMax = 0x600000, kExponentOfMax = 8, kLeast = 18, kLargest = 246;
        const uint32_t exponent = (float_bits(top) + 0x7fffff - kMantissaOfMax) >> 23;
        if (exponent < kLeast + kExponentOfMax) return bits_float(kLeast << 23);
        return bits_float((exponent > kLargest + kExponentOfMax ? kLargest : exponent - kExponentOfMax) << 23);
    }
    TAILRACE_INLINE void encode(const float* x, float scale, uint8_t* codes) {
        const float steps = 1.0f / scale;
        for (int i = 0; i < kLanes; ++i) codes[i] = to_e4m3(x[i] * steps);
    }
};

// `dim`, a multiple of 16, values of a mixed key.
template <class Codes>
void encode_key(const float* mixed, int dim, float scale, int lane, uint8_t* tile) {
    for (int d = 0; d < dim; d += kLanes) {
        uint8_t codes[kLanes];
        Codes::encode(mixed + d, scale, codes);
        for (int i = 0; i < kLanes; i += 4) std::memcpy(tile + ((d + i) / 4 * kKeyGroup + lane) * 4, codes + i, 4);
    }
}

}  // namespace tailrace::TAILRACE_ISA
