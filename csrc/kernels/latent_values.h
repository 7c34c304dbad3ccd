// Keys of a latent cache, turned into values: pairs (or quads) of dimensions become pairs (quads) of positions.
//
// Each function turns one group of 16 positions (layout.h), `dim` dimensions of it, a multiple of 16.
#pragma once

#include <cstring>

#include "kernels/layout.h"
#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

#if defined(__AVX512F__)

// The parts of 16 bytes at `p` and further ones, `step` bytes from one to the next, side by side.
TAILRACE_INLINE __m512i load_parts(const uint8_t* p, size_t step) {
    const auto part = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i * step)); };
    __m512i parts = _mm512_broadcast_i32x4(part(0));
    parts = _mm512_mask_broadcast_i32x4(parts, 0x00f0, part(1));
    parts = _mm512_mask_broadcast_i32x4(parts, 0x0f00, part(2));
    return _mm512_mask_broadcast_i32x4(parts, 0xf000, part(3));
}

#elif defined(__AVX2__)

TAILRACE_INLINE __m256i load_parts(const uint8_t* p, size_t step) {
    const auto part = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i * step)); };
    return _mm256_inserti128_si256(_mm256_castsi128_si256(part(0)), part(1), 1);
}

#endif

// [dim/2][16 positions][2] to [8][dim][2 positions], of bfloat16.
static inline void turn_half_pairs(const uint8_t* keys, int dim, uint8_t* values) {
    const size_t row_bytes = static_cast<size_t>(dim) * 4;
#if defined(__AVX512F__)
    const __m512i swap = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
    for (int d = 0; d < dim; d += kLanes) {
        __m512i v[8], a[8], b[8];
        for (int i = 0; i < 8; ++i) v[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(keys + (d / 2 + i) * 64), swap);
        for (int i = 0; i < 8; i += 2) {
            a[i] = _mm512_unpacklo_epi64(v[i], v[i + 1]);
            a[i + 1] = _mm512_unpackhi_epi64(v[i], v[i + 1]);
        }
        for (int i = 0; i < 8; i += 4) {
            for (int odd = 0; odd < 2; ++odd) {
                b[i + odd] = _mm512_shuffle_i64x2(a[i + odd], a[i + 2 + odd], 0x88);
                b[i + 2 + odd] = _mm512_shuffle_i64x2(a[i + odd], a[i + 2 + odd], 0xdd);
            }
        }
        for (int i = 0; i < 4; ++i) {
            uint8_t* out = values + i * row_bytes + d * 4;
            _mm512_storeu_si512(out, _mm512_shuffle_i64x2(b[i], b[i + 4], 0x88));
            _mm512_storeu_si512(out + 4 * row_bytes, _mm512_shuffle_i64x2(b[i], b[i + 4], 0xdd));
        }
    }
#elif defined(__AVX2__)
    const __m256i swap =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
    for (int d = 0; d < dim; d += kLanes / 2) {
        for (int i = 0; i < 4; ++i) {
            const uint8_t* part = keys + d * 32 + i * 16;
            const __m256i a = _mm256_shuffle_epi8(load_parts(part, 128), swap);
            const __m256i b = _mm256_shuffle_epi8(load_parts(part + 64, 128), swap);
            uint8_t* out = values + 2 * i * row_bytes + d * 4;
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_unpacklo_epi64(a, b));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + row_bytes), _mm256_unpackhi_epi64(a, b));
        }
    }
#else
    for (int d = 0; d < dim; d += 2) {
        for (int i = 0; i < 8; ++i) {
            uint64_t word;
            std::memcpy(&word, keys + d * 32 + i * 8, sizeof word);
            word = (word & 0xffff00000000ffff) | (word >> 16 & 0xffff0000) | (word & 0xffff0000) << 16;
            std::memcpy(values + i * row_bytes + d * 4, &word, sizeof word);
        }
    }
#endif
}

// [dim/2][2][16 positions] to [8][dim/16][2][16 dimensions], of float32.
static inline void turn_float_pairs(const uint8_t* keys, int dim, uint8_t* values) {
    for (int d = 0; d < dim; ++d) {
        const uint8_t* row = keys + static_cast<size_t>(d) * 64;
        for (int lane = 0; lane < kKeyGroup; ++lane) {
            const size_t vector = (lane / 2 * (dim / kLanes) + d / kLanes) * 2 + lane % 2;
            std::memcpy(values + vector * 64 + d % kLanes * 4, row + lane * 4, 4);
        }
    }
}

// [dim/4][16 positions][4] to [4][dim][4 positions], of codes.
static inline void turn_codes(const uint8_t* keys, int dim, uint8_t* values) {
    const size_t row_bytes = static_cast<size_t>(dim) * 4;
#if defined(__AVX512F__)
    const __m512i turn = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    for (int d = 0; d < dim; d += kLanes) {
        for (int i = 0; i < 4; ++i) {
            const __m512i parts = load_parts(keys + d * kKeyGroup + i * 16, 64);
            _mm512_storeu_si512(values + i * row_bytes + d * 4, _mm512_shuffle_epi8(parts, turn));
        }
    }
#elif defined(__AVX2__)
    const __m256i turn =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    for (int d = 0; d < dim; d += kLanes / 2) {
        for (int i = 0; i < 4; ++i) {
            const __m256i parts = load_parts(keys + d * kKeyGroup + i * 16, 64);
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(values + i * row_bytes + d * 4),
                                _mm256_shuffle_epi8(parts, turn));
        }
    }
#else
    for (int d = 0; d < dim; d += 4) {
        for (int lane = 0; lane < kKeyGroup; ++lane) {
            const uint8_t* quad = keys + static_cast<size_t>(d) * kKeyGroup + lane * 4;
            for (int j = 0; j < 4; ++j) values[lane / 4 * row_bytes + (d + j) * 4 + lane % 4] = quad[j];
        }
    }
#endif
}

}  // namespace tailrace::TAILRACE_ISA
