// Sixteen lanes in two registers. Included by vec.h alone.
#pragma once

#include <immintrin.h>

#include "simd/lanes.h"

namespace tailrace::TAILRACE_ISA {

struct Vec {
    __m256 a, b;
};
struct VecI {
    __m256i a, b;
};

TAILRACE_INLINE __m256i lanes_below(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

TAILRACE_INLINE Vec set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
TAILRACE_INLINE Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
TAILRACE_INLINE Vec load_first(const float* p, int n) {
    return {_mm256_maskload_ps(p, lanes_below(n)), _mm256_maskload_ps(p + 8, lanes_below(n - 8))};
}
TAILRACE_INLINE void store(float* p, Vec x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
TAILRACE_INLINE void store_first(float* p, Vec x, int n) {
    _mm256_maskstore_ps(p, lanes_below(n), x.a);
    _mm256_maskstore_ps(p + 8, lanes_below(n - 8), x.b);
}
TAILRACE_INLINE Vec operator+(Vec x, Vec y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
TAILRACE_INLINE Vec operator-(Vec x, Vec y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
TAILRACE_INLINE Vec operator*(Vec x, Vec y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
TAILRACE_INLINE Vec operator/(Vec x, Vec y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
TAILRACE_INLINE Vec fma(Vec x, Vec y, Vec z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
TAILRACE_INLINE Vec max(Vec x, Vec y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
TAILRACE_INLINE Vec min(Vec x, Vec y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
TAILRACE_INLINE Vec abs(Vec x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
TAILRACE_INLINE Vec where_less(Vec x, Vec y, Vec yes, Vec no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}
TAILRACE_INLINE Vec where_between(int first, int last, Vec inside, Vec outside) {
    const __m256i low = _mm256_andnot_si256(lanes_below(first), lanes_below(last));
    const __m256i high = _mm256_andnot_si256(lanes_below(first - 8), lanes_below(last - 8));
    return {_mm256_blendv_ps(outside.a, inside.a, _mm256_castsi256_ps(low)),
            _mm256_blendv_ps(outside.b, inside.b, _mm256_castsi256_ps(high))};
}

template <int kDistance>
TAILRACE_INLINE Vec swap_lanes(Vec x) {
    if constexpr (kDistance == 8) return {x.b, x.a};
    if constexpr (kDistance == 4) return {_mm256_permute2f128_ps(x.a, x.a, 1), _mm256_permute2f128_ps(x.b, x.b, 1)};
    constexpr int kOrder = kDistance == 2 ? 0x4e : 0xb1;
    return {_mm256_permute_ps(x.a, kOrder), _mm256_permute_ps(x.b, kOrder)};
}

TAILRACE_INLINE uint32_t at_least(Vec x, Vec y) {
    const int low = _mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, _CMP_GE_OQ));
    const int high = _mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, _CMP_GE_OQ));
    return static_cast<uint32_t>(low | high << 8);
}

TAILRACE_INLINE VecI set1(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
TAILRACE_INLINE VecI operator+(VecI x, VecI y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
TAILRACE_INLINE VecI operator-(VecI x, VecI y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
TAILRACE_INLINE VecI max(VecI x, VecI y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
template <int kBits>
TAILRACE_INLINE VecI shift_left(VecI x) {
    return {_mm256_slli_epi32(x.a, kBits), _mm256_slli_epi32(x.b, kBits)};
}
template <int kBits>
TAILRACE_INLINE VecI shift_right(VecI x) {
    return {_mm256_srai_epi32(x.a, kBits), _mm256_srai_epi32(x.b, kBits)};
}
TAILRACE_INLINE VecI nearest(Vec x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
TAILRACE_INLINE Vec to_float(VecI x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
TAILRACE_INLINE Vec whole(Vec x) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.a, kNearest), _mm256_round_ps(x.b, kNearest)};
}
TAILRACE_INLINE Vec times_power_of_two(Vec x, Vec n) {
    const Vec least = set1(-127.0f);  // its power comes out as zero
    const VecI bits = shift_left<23>(nearest(max(n, least)) + set1(int32_t{127}));
    return x * Vec{_mm256_castsi256_ps(bits.a), _mm256_castsi256_ps(bits.b)};
}
TAILRACE_INLINE void store_int8(int8_t* p, VecI x) {
    // packs works within 128-bit halves: bring the four quarters back into order.
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(words, words), 0xd8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(bytes));
}

TAILRACE_INLINE Vec load_half(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
TAILRACE_INLINE void load_bf16_pairs(const void* p, Vec* even, Vec* odd) {
    const auto* pairs = static_cast<const __m256i*>(p);
    const __m256i low = _mm256_loadu_si256(pairs), high = _mm256_loadu_si256(pairs + 1);
    const __m256i mask = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000u));
    *even = {_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))};
    *odd = {_mm256_castsi256_ps(_mm256_and_si256(low, mask)), _mm256_castsi256_ps(_mm256_and_si256(high, mask))};
}
TAILRACE_INLINE __m256i round_to_bf16(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
}
TAILRACE_INLINE void store_bf16(uint16_t* p, Vec x) {
    const __m256i words = _mm256_packus_epi32(round_to_bf16(x.a), round_to_bf16(x.b));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(words, 0xd8));
}

TAILRACE_INLINE Vec quad_max(Vec x) {
    const Vec pairs = max(x, {_mm256_permute_ps(x.a, 0xb1), _mm256_permute_ps(x.b, 0xb1)});
    return max(pairs, {_mm256_permute_ps(pairs.a, 0x4e), _mm256_permute_ps(pairs.b, 0x4e)});
}

TAILRACE_INLINE __m256 low_half(Vec x) { return x.a; }
TAILRACE_INLINE __m256 high_half(Vec x) { return x.b; }
TAILRACE_INLINE __m256i low_half(VecI x) { return x.a; }
TAILRACE_INLINE __m256i high_half(VecI x) { return x.b; }

}  // namespace tailrace::TAILRACE_ISA
