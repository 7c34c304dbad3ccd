// Sixteen floats, or sixteen 32-bit integers, in whatever registers the instruction set of this translation unit has.
//
// Everything is lane-wise and every horizontal sum adds in one fixed order, so a result depends on the values alone.
#pragma once

#include <cstdint>
#include <cstring>

#include "simd/half.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#ifndef TAILRACE_ISA
#error "compile kernels with -DTAILRACE_ISA=<instruction set>"
#endif

#define TAILRACE_INLINE static inline __attribute__((always_inline))

namespace tailrace::TAILRACE_ISA {

constexpr int kLanes = 16;

#if defined(__AVX512F__)

struct Vec {
    __m512 v;
};
struct VecI {
    __m512i v;
};

TAILRACE_INLINE __mmask16 first_lanes(int n) {
    return static_cast<__mmask16>((1u << n) - 1);
}

TAILRACE_INLINE Vec set1(float x) {
    return {_mm512_set1_ps(x)};
}
TAILRACE_INLINE Vec load(const float* p) {
    return {_mm512_loadu_ps(p)};
}
TAILRACE_INLINE Vec load_first(const float* p, int n) {
    return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
}
TAILRACE_INLINE void store(float* p, Vec a) {
    _mm512_storeu_ps(p, a.v);
}
TAILRACE_INLINE void store_first(float* p, Vec a, int n) {
    _mm512_mask_storeu_ps(p, first_lanes(n), a.v);
}
TAILRACE_INLINE Vec operator+(Vec a, Vec b) {
    return {_mm512_add_ps(a.v, b.v)};
}
TAILRACE_INLINE Vec operator-(Vec a, Vec b) {
    return {_mm512_sub_ps(a.v, b.v)};
}
TAILRACE_INLINE Vec operator*(Vec a, Vec b) {
    return {_mm512_mul_ps(a.v, b.v)};
}
TAILRACE_INLINE Vec operator/(Vec a, Vec b) {
    return {_mm512_div_ps(a.v, b.v)};
}
TAILRACE_INLINE Vec fma(Vec a, Vec b, Vec c) {
    return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
TAILRACE_INLINE Vec max(Vec a, Vec b) {
    return {_mm512_max_ps(a.v, b.v)};
}
TAILRACE_INLINE Vec min(Vec a, Vec b) {
    return {_mm512_min_ps(a.v, b.v)};
}
TAILRACE_INLINE Vec abs(Vec a) {
    return {_mm512_abs_ps(a.v)};
}
TAILRACE_INLINE Vec where_less(Vec a, Vec b, Vec yes, Vec no) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}
// Lanes [first, last) of `inside`, the others of `outside`.
TAILRACE_INLINE Vec where_between(int first, int last, Vec inside, Vec outside) {
    const auto mask = static_cast<__mmask16>(first_lanes(last) & ~first_lanes(first));
    return {_mm512_mask_blend_ps(mask, outside.v, inside.v)};
}

// Bit i: whether lane i of a is at least that of b.
TAILRACE_INLINE uint32_t at_least(Vec a, Vec b) {
    return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ);
}

TAILRACE_INLINE VecI set1(int32_t x) {
    return {_mm512_set1_epi32(x)};
}
TAILRACE_INLINE VecI operator+(VecI a, VecI b) {
    return {_mm512_add_epi32(a.v, b.v)};
}
TAILRACE_INLINE VecI operator-(VecI a, VecI b) {
    return {_mm512_sub_epi32(a.v, b.v)};
}
TAILRACE_INLINE VecI max(VecI a, VecI b) {
    return {_mm512_max_epi32(a.v, b.v)};
}
template <int kBits>
TAILRACE_INLINE VecI shift_left(VecI a) {
    return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
TAILRACE_INLINE VecI shift_right(VecI a) {
    return {_mm512_srai_epi32(a.v, kBits)};
}
TAILRACE_INLINE VecI nearest(Vec a) {
    return {_mm512_cvtps_epi32(a.v)};
}
TAILRACE_INLINE Vec to_float(VecI a) {
    return {_mm512_cvtepi32_ps(a.v)};
}
// To the nearest whole number.
TAILRACE_INLINE Vec whole(Vec a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// a * 2^n for whole n; zero once n is far below what a float holds.
TAILRACE_INLINE Vec times_power_of_two(Vec a, Vec n) {
    return {_mm512_scalef_ps(a.v, n.v)};
}
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

#elif defined(__AVX2__)

struct Vec {
    __m256 a, b;
};
struct VecI {
    __m256i a, b;
};

TAILRACE_INLINE __m256i lanes_below(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

TAILRACE_INLINE Vec set1(float x) {
    return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
TAILRACE_INLINE Vec load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
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
TAILRACE_INLINE Vec operator+(Vec x, Vec y) {
    return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
TAILRACE_INLINE Vec operator-(Vec x, Vec y) {
    return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
TAILRACE_INLINE Vec operator*(Vec x, Vec y) {
    return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
TAILRACE_INLINE Vec operator/(Vec x, Vec y) {
    return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
TAILRACE_INLINE Vec fma(Vec x, Vec y, Vec z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
TAILRACE_INLINE Vec max(Vec x, Vec y) {
    return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
TAILRACE_INLINE Vec min(Vec x, Vec y) {
    return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
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

TAILRACE_INLINE uint32_t at_least(Vec x, Vec y) {
    const int low = _mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, _CMP_GE_OQ));
    const int high = _mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, _CMP_GE_OQ));
    return static_cast<uint32_t>(low | high << 8);
}

TAILRACE_INLINE VecI set1(int32_t x) {
    return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
TAILRACE_INLINE VecI operator+(VecI x, VecI y) {
    return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
TAILRACE_INLINE VecI operator-(VecI x, VecI y) {
    return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)};
}
TAILRACE_INLINE VecI max(VecI x, VecI y) {
    return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)};
}
template <int kBits>
TAILRACE_INLINE VecI shift_left(VecI x) {
    return {_mm256_slli_epi32(x.a, kBits), _mm256_slli_epi32(x.b, kBits)};
}
template <int kBits>
TAILRACE_INLINE VecI shift_right(VecI x) {
    return {_mm256_srai_epi32(x.a, kBits), _mm256_srai_epi32(x.b, kBits)};
}
TAILRACE_INLINE VecI nearest(Vec x) {
    return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}
TAILRACE_INLINE Vec to_float(VecI x) {
    return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
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

#else

struct Vec {
    float v[kLanes];
};
struct VecI {
    int32_t v[kLanes];
};

#define TAILRACE_LANES(Type, expression)                    \
    Type r;                                                 \
    for (int i = 0; i < kLanes; ++i) r.v[i] = (expression); \
    return r

TAILRACE_INLINE Vec set1(float x) {
    TAILRACE_LANES(Vec, x);
}
TAILRACE_INLINE Vec load(const float* p) {
    TAILRACE_LANES(Vec, p[i]);
}
TAILRACE_INLINE Vec load_first(const float* p, int n) {
    TAILRACE_LANES(Vec, i < n ? p[i] : 0.0f);
}
TAILRACE_INLINE void store(float* p, Vec a) {
    std::memcpy(p, a.v, sizeof a.v);
}
TAILRACE_INLINE void store_first(float* p, Vec a, int n) {
    std::memcpy(p, a.v, n * sizeof(float));
}
TAILRACE_INLINE Vec operator+(Vec a, Vec b) {
    TAILRACE_LANES(Vec, a.v[i] + b.v[i]);
}
TAILRACE_INLINE Vec operator-(Vec a, Vec b) {
    TAILRACE_LANES(Vec, a.v[i] - b.v[i]);
}
TAILRACE_INLINE Vec operator*(Vec a, Vec b) {
    TAILRACE_LANES(Vec, a.v[i] * b.v[i]);
}
TAILRACE_INLINE Vec operator/(Vec a, Vec b) {
    TAILRACE_LANES(Vec, a.v[i] / b.v[i]);
}
TAILRACE_INLINE Vec fma(Vec a, Vec b, Vec c) {
    TAILRACE_LANES(Vec, a.v[i] * b.v[i] + c.v[i]);
}
TAILRACE_INLINE Vec max(Vec a, Vec b) {
    TAILRACE_LANES(Vec, a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
}
TAILRACE_INLINE Vec min(Vec a, Vec b) {
    TAILRACE_LANES(Vec, a.v[i] < b.v[i] ? a.v[i] : b.v[i]);
}
TAILRACE_INLINE Vec abs(Vec a) {
    TAILRACE_LANES(Vec, __builtin_fabsf(a.v[i]));
}
TAILRACE_INLINE Vec where_less(Vec a, Vec b, Vec yes, Vec no) {
    TAILRACE_LANES(Vec, a.v[i] < b.v[i] ? yes.v[i] : no.v[i]);
}
TAILRACE_INLINE Vec where_between(int first, int last, Vec inside, Vec outside) {
    TAILRACE_LANES(Vec, i >= first && i < last ? inside.v[i] : outside.v[i]);
}

TAILRACE_INLINE uint32_t at_least(Vec a, Vec b) {
    uint32_t bits = 0;
    for (int i = 0; i < kLanes; ++i) bits |= static_cast<uint32_t>(a.v[i] >= b.v[i]) << i;
    return bits;
}

TAILRACE_INLINE VecI set1(int32_t x) {
    TAILRACE_LANES(VecI, x);
}
TAILRACE_INLINE VecI operator+(VecI a, VecI b) {
    TAILRACE_LANES(VecI, a.v[i] + b.v[i]);
}
TAILRACE_INLINE VecI operator-(VecI a, VecI b) {
    TAILRACE_LANES(VecI, a.v[i] - b.v[i]);
}
TAILRACE_INLINE VecI max(VecI a, VecI b) {
    TAILRACE_LANES(VecI, a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
}
template <int kBits>
TAILRACE_INLINE VecI shift_left(VecI a) {
    TAILRACE_LANES(VecI, static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << kBits));
}
template <int kBits>
TAILRACE_INLINE VecI shift_right(VecI a) {
    TAILRACE_LANES(VecI, a.v[i] >> kBits);
}
// Out of range is undefined for a plain cast; the vector units give the smallest integer, and so do we.
TAILRACE_INLINE int32_t nearest_one(float x) {
    return x >= -0x1p31f && x < 0x1p31f ? static_cast<int32_t>(__builtin_rintf(x)) : INT32_MIN;
}
TAILRACE_INLINE VecI nearest(Vec a) {
    TAILRACE_LANES(VecI, nearest_one(a.v[i]));
}
TAILRACE_INLINE Vec to_float(VecI a) {
    TAILRACE_LANES(Vec, static_cast<float>(a.v[i]));
}
TAILRACE_INLINE Vec whole(Vec a) {
    TAILRACE_LANES(Vec, __builtin_rintf(a.v[i]));
}
TAILRACE_INLINE Vec times_power_of_two(Vec a, Vec n) {
    TAILRACE_LANES(Vec, n.v[i] < -126.0f ? 0.0f : a.v[i] * bits_float(static_cast<uint32_t>(n.v[i] + 127.0f) << 23));
}
TAILRACE_INLINE void store_int8(int8_t* p, VecI a) {
    for (int i = 0; i < kLanes; ++i) {
        p[i] = static_cast<int8_t>(a.v[i] < -128 ? -128 : a.v[i] > 127 ? 127 : a.v[i]);
    }
}

TAILRACE_INLINE Vec load_half(const uint16_t* p) {
    TAILRACE_LANES(Vec, half_to_float(p[i]));
}
TAILRACE_INLINE void load_bf16_pairs(const void* p, Vec* even, Vec* odd) {
    uint32_t pairs[kLanes];
    std::memcpy(pairs, p, sizeof pairs);
    for (int i = 0; i < kLanes; ++i) {
        even->v[i] = bits_float(pairs[i] << 16);
        odd->v[i] = bits_float(pairs[i] & 0xffff0000u);
    }
}
TAILRACE_INLINE void store_bf16(uint16_t* p, Vec a) {
    for (int i = 0; i < kLanes; ++i) p[i] = float_to_bf16(a.v[i]);
}

#undef TAILRACE_LANES

#endif

TAILRACE_INLINE Vec zero() {
    return set1(0.0f);
}

TAILRACE_INLINE void prefetch(const void* p) {
    __builtin_prefetch(p, 0, 3);
}

// Bit i: whether byte i of the first n (at most 64) is not zero.
TAILRACE_INLINE uint64_t nonzero_bytes(const uint8_t* p, int n) {
#if defined(__AVX512BW__)
    const __m512i bytes = _mm512_maskz_loadu_epi8(n < 64 ? (uint64_t{1} << n) - 1 : ~uint64_t{0}, p);
    return _mm512_test_epi8_mask(bytes, bytes);
#else
    uint64_t bits = 0;
    for (int i = 0; i < n; ++i) bits |= static_cast<uint64_t>(p[i] != 0) << i;
    return bits;
#endif
}

// The horizontal reductions halve in the same order on every instruction set: lane i with lane i + 8, then i + 4, ...
#if defined(__AVX2__)

#if defined(__AVX512F__)
TAILRACE_INLINE __m256 low_half(Vec a) {
    return _mm512_castps512_ps256(a.v);
}
TAILRACE_INLINE __m256 high_half(Vec a) {
    return _mm512_extractf32x8_ps(a.v, 1);
}
TAILRACE_INLINE __m256i low_half(VecI a) {
    return _mm512_castsi512_si256(a.v);
}
TAILRACE_INLINE __m256i high_half(VecI a) {
    return _mm512_extracti64x4_epi64(a.v, 1);
}
#else
TAILRACE_INLINE __m256 low_half(Vec x) {
    return x.a;
}
TAILRACE_INLINE __m256 high_half(Vec x) {
    return x.b;
}
TAILRACE_INLINE __m256i low_half(VecI x) {
    return x.a;
}
TAILRACE_INLINE __m256i high_half(VecI x) {
    return x.b;
}
#endif

TAILRACE_INLINE float sum(Vec a) {
    const __m256 eight = _mm256_add_ps(low_half(a), high_half(a));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

TAILRACE_INLINE float largest(Vec a) {
    const __m256 eight = _mm256_max_ps(low_half(a), high_half(a));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

TAILRACE_INLINE int32_t sum(VecI a) {
    const __m256i eight = _mm256_add_epi32(low_half(a), high_half(a));
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

#else

TAILRACE_INLINE float sum(Vec a) {
    for (int half = kLanes / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) a.v[i] += a.v[i + half];
    }
    return a.v[0];
}

TAILRACE_INLINE float largest(Vec a) {
    for (int half = kLanes / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
    }
    return a.v[0];
}

TAILRACE_INLINE int32_t sum(VecI a) {
    int32_t total = 0;
    for (int32_t x : a.v) total += x;
    return total;
}

#endif

// 2^x to about one unit in the last place for x up to 127, which larger ones count as; exactly 1 at 0, 0 at minus
// infinity.
TAILRACE_INLINE Vec exp2(Vec x) {
    const Vec bounded = max(min(x, set1(127.0f)), set1(-200.0f));
    const Vec n = whole(bounded);
    const Vec f = bounded - n;
    Vec p = set1(1.54035304e-4f);
    p = fma(p, f, set1(1.33335581e-3f));
    p = fma(p, f, set1(9.61812911e-3f));
    p = fma(p, f, set1(5.55041087e-2f));
    p = fma(p, f, set1(2.40226507e-1f));
    p = fma(p, f, set1(6.93147181e-1f));
    p = fma(p, f, set1(1.0f));
    return times_power_of_two(p, n);
}

constexpr float kLog2e = 1.44269504f;

TAILRACE_INLINE Vec exp(Vec x) {
    return exp2(x * set1(kLog2e));
}

}  // namespace tailrace::TAILRACE_ISA
