// Sixteen floats, or sixteen 32-bit integers, in whatever registers the instruction set of this translation unit has.
//
// Everything is lane-wise and every horizontal sum adds in one fixed order, so a result depends on the values alone.
#pragma once

#if defined(__AVX512F__)
#include "simd/vec_avx512.h"
#elif defined(__AVX2__)
#include "simd/vec_avx2.h"
#elif defined(TAILRACE_NEON)  // every 64-bit Arm has it: the build says which kernels use it
#include "simd/vec_neon.h"
#else
#include "simd/vec_portable.h"
#endif

namespace tailrace::TAILRACE_ISA {

TAILRACE_INLINE Vec zero() { return set1(0.0f); }

TAILRACE_INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }

// Not as near: what is needed later shall not push out what is needed now.
TAILRACE_INLINE void prefetch_later(const void* p) { __builtin_prefetch(p, 0, 2); }

// The horizontal reductions halve in the same order on every instruction set: lane i with lane i + 8, then i + 4, ...
#if defined(__AVX2__)  // the others have them beside their vectors

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

#endif

// 2^x to about one unit in the last place for x up to 127, which larger ones count as; exactly 1 at 0, 0 at minus
// infinity.
TAILRACE_INLINE Vec exp2(Vec x) {
    const Vec bounded = max(min(x, set1(127.0f)), set1(-200.0f));
    const Vec n = whole(bounded);
    const Vec f = bounded - n;
    // Least largest relative error for the value 1 at 0: 1e-7.
    Vec p = set1(1.32647269e-3f);
    p = fma(p, f, set1(9.67151266e-3f));
    p = fma(p, f, set1(5.55073374e-2f));
    p = fma(p, f, set1(2.40222421e-1f));
    p = fma(p, f, set1(6.93146978e-1f));
    p = fma(p, f, set1(1.0f));
    return times_power_of_two(p, n);
}

constexpr float kLog2e = 1.44269504f;

TAILRACE_INLINE Vec exp(Vec x) { return exp2(x * set1(kLog2e)); }

}  // namespace tailrace::TAILRACE_ISA
