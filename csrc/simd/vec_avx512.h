// Sixteen lanes in one register. Included by vec.h alone.
#pragma once

#include <immintrin.h>

#include "simd/lanes.h"

namespace tailrace::TAILRACE_ISA {

struct Vec {
    __m512 v;
};
struct VecI {
    __m512i v;
};

TAILRACE_INLINE __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1u << n) - 1); }

TAILRACE_INLINE Vec set1(float x) { return {_mm512_set1_ps(x)}; }
TAILRACE_INLINE Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
TAILRACE_INLINE Vec load_first(const float* p, int n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
TAILRACE_INLINE void store(float* p, Vec a) { _mm512_storeu_ps(p, a.v); }
TAILRACE_INLINE void store_first(float* p, Vec a, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), a.v); }
TAILRACE_INLINE Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
TAILRACE_INLINE Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
TAILRACE_INLINE Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
TAILRACE_INLINE Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
TAILRACE_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
TAILRACE_INLINE Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
TAILRACE_INLINE Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
TAILRACE_INLINE Vec abs(Vec a) { return {_mm512_abs_ps(a.v)}; }
TAILRACE_INLINE Vec where_less(Vec a, Vec b, Vec yes, Vec no) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}
// Lanes [first, last) of `inside`, the others of `outside`.
TAILRACE_INLINE Vec where_between(int first, int last, Vec inside, Vec outside) {
    const auto mask = static_cast<__mmask16>(first_lanes(last) & ~first_lanes(first));
    return {_mm512_mask_blend_ps(mask, outside.v, inside.v)};
}

// Lane i takes what lane i ^ kDistance has.
template <int kDistance>
TAILRACE_INLINE Vec swap_lanes(Vec a) {
    if constexpr (kDistance == 8) return {_mm512_shuffle_f32x4(a.v, a.v, 0x4e)};
    if constexpr (kDistance == 4) return {_mm512_shuffle_f32x4(a.v, a.v, 0xb1)};
    return {_mm512_permute_ps(a.v, kDistance == 2 ? 0x4e : 0xb1)};
}

// Bit i: whether lane i of a is at least that of b.
TAILRACE_INLINE uint32_t at_least(Vec a, Vec b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ); }

TAILRACE_INLINE VecI set1(int32_t x) { return {_mm512_set1_epi32(x)}; }
TAILRACE_INLINE VecI operator+(VecI a, VecI b) { return {_mm512_add_epi32(a.v, b.v)}; }
TAILRACE_INLINE VecI operator-(VecI a, VecI b) { return {_mm512_sub_epi32(a.v, b.v)}; }
TAILRACE_INLINE VecI max(VecI a, VecI b) { return {_mm512_max_epi32(a.v, b.v)}; }
template <int kBits>
TAILRACE_INLINE VecI shift_left(VecI a) {
    return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
TAILRACE_INLINE VecI shift_right(VecI a) {
    return {_mm512_srai_epi32(a.v, kBits)};
}
TAILRACE_INLINE VecI nearest(Vec a) { return {_mm512_cvtps_epi32(a.v)}; }
TAILRACE_INLINE Vec to_float(VecI a) { return {_mm512_cvtepi32_ps(a.v)}; }
// To the nearest whole number.
TAILRACE_INLINE Vec whole(Vec a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
// a * 2^n for whole n; zero once n is far below what a float holds.
TAILRACE_INLINE Vec times_power_of_two(Vec a, Vec n) { return {_mm512_scalef_ps(a.v, n.v)}; }
TAILRACE_INLINE void store_int8(int8_t* p, VecI a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(a.v));
}

TAILRACE_INLINE Vec load_half(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
// The even (low) and odd (high) bfloat16 of sixteen pairs.
TAILRACE_INLINE void load_bf16_pairs(const void* p, Vec* even, Vec* odd) {
    const __m512i pairs = _mm512_loadu_si512(p);
    *even = {_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16))};
    *odd = {_mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000u))))};
}
TAILRACE_INLINE void store_bf16(uint16_t* p, Vec a) {
#if defined(__AVX512BF16__)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(a.v));
#else
    const __m512i bits = _mm512_castps_si512(a.v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
#endif
}

// In each lane, the largest of its quad: the lanes 4i to 4i+3.
TAILRACE_INLINE Vec quad_max(Vec a) {
    const Vec pairs = max(a, {_mm512_permute_ps(a.v, 0xb1)});
    return max(pairs, {_mm512_permute_ps(pairs.v, 0x4e)});
}

TAILRACE_INLINE __m256 low_half(Vec a) { return _mm512_castps512_ps256(a.v); }
TAILRACE_INLINE __m256 high_half(Vec a) { return _mm512_extractf32x8_ps(a.v, 1); }
TAILRACE_INLINE __m256i low_half(VecI a) { return _mm512_castsi512_si256(a.v); }
TAILRACE_INLINE __m256i high_half(VecI a) { return _mm512_extracti64x4_epi64(a.v, 1); }

}  // namespace tailrace::TAILRACE_ISA
