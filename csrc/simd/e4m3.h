// Floats of 8 bits, as graphics processors keep them (e4m3fn), and how quads of them become pairs of bfloat16.
//
//     sign, 4 bits of exponent (bias 7), 3 of mantissa; the largest is 448, the least above zero 2^-9
//
// There are no infinities, and what is no number (0x7f, 0xff) is never stored. Widened bit by bit, codes give the same
// floats on every instruction set.
#pragma once

#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

constexpr float kE4m3Max = 448.0f;

// The nearest code, the even one of two as near; larger values, and what is no number, count as the largest.
TAILRACE_INLINE uint8_t to_e4m3(float x) {
    constexpr float kSteps = 0x1p14f;  // a float beside it is a multiple of 2^-9
    const uint32_t sign = float_bits(x) >> 24 & 0x80;
    const float magnitude = bits_float(float_bits(x) & 0x7fffffff);
    const float bounded = magnitude < kE4m3Max ? magnitude : kE4m3Max;
    const uint32_t bits = float_bits(bounded);
    const uint32_t normal = ((bits + 0x7ffff + (bits >> 20 & 1)) >> 20) - (120 << 3);
    const uint32_t below = float_bits(bounded + kSteps) - float_bits(kSteps);
    return static_cast<uint8_t>(sign | (bounded < 0x1p-6f ? below : normal));
}

// The exponent field of a power of two `scale` as codes take it into theirs: bits of a bfloat16 whose exponent is 0.
TAILRACE_INLINE uint16_t widening(uint16_t scale) { return static_cast<uint16_t>(scale - (7 << 7)); }

// Widening a code: sign, exponent and mantissa go to where a bfloat16 has them, and the scale is added to the exponent.
// Below 2^-6 a code m (times sign) has no leading one, and what its bits stand for is too large by 16 times
// kSubnormalExcess[m]; zero is zero whatever the scale.
constexpr uint8_t kSubnormalExcess[16] = {0, 0x11, 0x0a, 7, 4, 3, 2, 1};

// Sixteen lanes of two words, or of a quad of codes. widen<0> makes a pair of the lower two codes of each quad,
// widen<1> of the upper two.
#if defined(__AVX512BW__)

using Words = __m512i;

TAILRACE_INLINE Words load_words(const void* p) { return _mm512_loadu_si512(p); }
TAILRACE_INLINE void store_words(void* p, Words words) { _mm512_storeu_si512(p, words); }

template <int kHalf>
TAILRACE_INLINE Words widen(Words quads, Words scales) {
    constexpr int k = 2 * kHalf;
    const __m512i spread = _mm512_broadcast_i32x4(_mm_setr_epi8(k, k, k + 1, k + 1, k + 4, k + 4, k + 5, k + 5, k + 8,
                                                                k + 8, k + 9, k + 9, k + 12, k + 12, k + 13, k + 13));
    const __m512i excess = _mm512_cvtepu8_epi16(
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kSubnormalExcess))));
    const __m512i codes = _mm512_shuffle_epi8(quads, spread);
    const __m512i bits = _mm512_and_si512(_mm512_srai_epi16(codes, 4), _mm512_set1_epi16(static_cast<int16_t>(0x87f0)));
    const __mmask32 is_subnormal = _mm512_testn_epi16_mask(codes, _mm512_set1_epi16(0x78));
    const __mmask32 is_not_zero = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(0x7f));
    const __m512i too_much = _mm512_maskz_permutexvar_epi16(is_subnormal, codes, _mm512_slli_epi16(excess, 4));
    return _mm512_maskz_sub_epi16(is_not_zero, _mm512_add_epi16(bits, scales), too_much);
}

#elif defined(__AVX2__)

struct Words {
    __m256i a, b;
};

TAILRACE_INLINE Words load_words(const void* p) {
    const auto* vectors = static_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(vectors), _mm256_loadu_si256(vectors + 1)};
}
TAILRACE_INLINE void store_words(void* p, Words words) {
    auto* vectors = static_cast<__m256i*>(p);
    _mm256_storeu_si256(vectors, words.a);
    _mm256_storeu_si256(vectors + 1, words.b);
}

template <int kHalf>
TAILRACE_INLINE __m256i widen(__m256i quads, __m256i scales) {
    constexpr int k = 2 * kHalf;
    const __m256i spread = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        k, k, k + 1, k + 1, k + 4, k + 4, k + 5, k + 5, k + 8, k + 8, k + 9, k + 9, k + 12, k + 12, k + 13, k + 13));
    const __m256i excess = _mm256_bslli_epi128(
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kSubnormalExcess))), 8);
    const __m256i codes = _mm256_shuffle_epi8(quads, spread);
    const __m256i bits = _mm256_and_si256(_mm256_srai_epi16(codes, 4), _mm256_set1_epi16(static_cast<int16_t>(0x87f0)));
    const __m256i magnitudes = _mm256_and_si256(codes, _mm256_set1_epi16(0x7f));
    // A shuffle looks at the lower four bits of an index, and gives zero where the upper one is set: from 8 on.
    const __m256i indices = _mm256_add_epi16(magnitudes, _mm256_set1_epi16(static_cast<int16_t>(0x8078)));
    const __m256i too_much = _mm256_slli_epi16(_mm256_shuffle_epi8(excess, indices), 4);
    const __m256i is_zero = _mm256_cmpeq_epi16(magnitudes, _mm256_setzero_si256());
    return _mm256_andnot_si256(is_zero, _mm256_sub_epi16(_mm256_add_epi16(bits, scales), too_much));
}
template <int kHalf>
TAILRACE_INLINE Words widen(Words quads, Words scales) {
    return {widen<kHalf>(quads.a, scales.a), widen<kHalf>(quads.b, scales.b)};
}

#elif defined(TAILRACE_NEON)

struct Words {
    uint16x8_t v[kParts];
};

TAILRACE_INLINE Words load_words(const void* p) {
    const auto* words = static_cast<const uint8_t*>(p);
    Words w;
    for (int i = 0; i < kParts; ++i) w.v[i] = vreinterpretq_u16_u8(vld1q_u8(words + 16 * i));
    return w;
}
TAILRACE_INLINE void store_words(void* p, const Words& words) {
    auto* bytes = static_cast<uint8_t*>(p);
    for (int i = 0; i < kParts; ++i) vst1q_u8(bytes + 16 * i, vreinterpretq_u8_u16(words.v[i]));
}

template <int kHalf>
TAILRACE_INLINE uint16x8_t widen(uint16x8_t quads, uint16x8_t scales) {
    constexpr uint8_t k = 2 * kHalf;
    constexpr uint8_t kSpread[] = {k,     k,     k + 1, k + 1, k + 4,  k + 4,  k + 5,  k + 5,
                                   k + 8, k + 8, k + 9, k + 9, k + 12, k + 12, k + 13, k + 13};
    const uint16x8_t codes = vreinterpretq_u16_u8(vqtbl1q_u8(vreinterpretq_u8_u16(quads), vld1q_u8(kSpread)));
    const uint16x8_t shifted = vreinterpretq_u16_s16(vshrq_n_s16(vreinterpretq_s16_u16(codes), 4));
    const uint16x8_t bits = vandq_u16(shifted, vdupq_n_u16(0x87f0));
    const uint16x8_t magnitudes = vandq_u16(codes, vdupq_n_u16(0x7f));
    // Past the end of a table is zero.
    const uint8x16_t excess = vqtbl1q_u8(vld1q_u8(kSubnormalExcess), vreinterpretq_u8_u16(magnitudes));
    const uint16x8_t too_much = vshlq_n_u16(vreinterpretq_u16_u8(excess), 4);
    return vandq_u16(vtstq_u16(magnitudes, magnitudes), vsubq_u16(vaddq_u16(bits, scales), too_much));
}
template <int kHalf>
TAILRACE_INLINE Words widen(const Words& quads, const Words& scales) {
    Words w;
    for (int i = 0; i < kParts; ++i) w.v[i] = widen<kHalf>(quads.v[i], scales.v[i]);
    return w;
}

#else

struct Words {
    uint16_t v[2 * kLanes];
};

TAILRACE_INLINE Words load_words(const void* p) {
    Words w;
    std::memcpy(w.v, p, sizeof w.v);
    return w;
}
TAILRACE_INLINE void store_words(void* p, const Words& words) { std::memcpy(p, words.v, sizeof words.v); }

TAILRACE_INLINE uint16_t widen_one(uint32_t code, uint32_t scale) {
    const uint32_t magnitude = code & 0x7f;
    const uint32_t too_much = magnitude < 8 ? kSubnormalExcess[magnitude] << 4 : 0;
    return static_cast<uint16_t>(magnitude == 0 ? 0 : (code & 0x80) << 8 | ((magnitude << 4) + scale - too_much));
}
template <int kHalf>
TAILRACE_INLINE Words widen(const Words& quads, const Words& scales) {
    Words w;
    for (int i = 0; i < kLanes; ++i) {
        const uint32_t pair = quads.v[2 * i + kHalf];
        w.v[2 * i] = widen_one(pair & 0xff, scales.v[2 * i]);
        w.v[2 * i + 1] = widen_one(pair >> 8, scales.v[2 * i + 1]);
    }
    return w;
}

#endif

}  // namespace tailrace::TAILRACE_ISA
