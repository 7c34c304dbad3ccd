// Keys of a latent cache, turned into values: pairs (or quads) of dimensions become pairs (quads) of positions.
//
// Each function turns one group of 16 positions (layout.h), `dim` dimensions of it, a multiple of 16.
#pragma once

#include <cstring>

#include "kernels/layout.h"
#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

TAILRACE_INLINE uint64_t load_word(const uint8_t* p) {
    uint64_t word;
    std::memcpy(&word, p, sizeof word);
    return word;
}

#if defined(__AVX512F__)

// Eight vectors of eight words, rows for columns.
TAILRACE_INLINE void transpose_words(__m512i (&v)[8]) {
    __m512i a[8], b[8];
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
        v[i] = _mm512_shuffle_i64x2(b[i], b[i + 4], 0x88);
        v[i + 4] = _mm512_shuffle_i64x2(b[i], b[i + 4], 0xdd);
    }
}

#endif

// [dim/2][16 positions][2] to [8][dim][2 positions], of bfloat16.
static inline void turn_half_pairs(const uint8_t* keys, int dim, uint8_t* values) {
    const size_t row_bytes = static_cast<size_t>(dim) * 4;
#if defined(__AVX512F__)
    const __m512i swap = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
    for (int d = 0; d < dim; d += kLanes) {
        __m512i v[8];
        for (int i = 0; i < 8; ++i) {
            v[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(keys + (d / 2 + i) * 64), swap);
        }
        transpose_words(v);
        for (int i = 0; i < 8; ++i) _mm512_storeu_si512(values + i * row_bytes + d * 4, v[i]);
    }
#else
    for (int d = 0; d < dim; d += 2) {
        for (int i = 0; i < 8; ++i) {
            const uint64_t word = load_word(keys + d / 2 * 64 + i * 8);
            const uint64_t turned = (word & 0xffff00000000ffff) | (word >> 16 & 0xffff0000) | (word & 0xffff0000) << 16;
            std::memcpy(values + i * row_bytes + d * 4, &turned, sizeof turned);
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
        __m512i v[4];
        for (int i = 0; i < 4; ++i) {
            v[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(keys + (d / 4 + i) * 64), turn);
        }
        const __m512i a = _mm512_shuffle_i32x4(v[0], v[1], 0x44), b = _mm512_shuffle_i32x4(v[0], v[1], 0xee);
        const __m512i c = _mm512_shuffle_i32x4(v[2], v[3], 0x44), e = _mm512_shuffle_i32x4(v[2], v[3], 0xee);
        uint8_t* out = values + d * 4;
        _mm512_storeu_si512(out, _mm512_shuffle_i32x4(a, c, 0x88));
        _mm512_storeu_si512(out + row_bytes, _mm512_shuffle_i32x4(a, c, 0xdd));
        _mm512_storeu_si512(out + 2 * row_bytes, _mm512_shuffle_i32x4(b, e, 0x88));
        _mm512_storeu_si512(out + 3 * row_bytes, _mm512_shuffle_i32x4(b, e, 0xdd));
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
