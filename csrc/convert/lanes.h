// Sixteen floats from narrower numbers, and into float16: what vec.h leaves to whoever needs it.
#pragma once

#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

// Stored float16 are to the nearest, the even one of two as near; infinity from 65520 on.
#if defined(__AVX512F__)

TAILRACE_INLINE Vec load_int8(const int8_t* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
TAILRACE_INLINE Vec load_bf16(const uint16_t* p) {
    const __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(words, 16))};
}
TAILRACE_INLINE void store_half(uint16_t* p, Vec a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}

#elif defined(__AVX2__)

TAILRACE_INLINE __m256 eight_int8(const int8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
TAILRACE_INLINE Vec load_int8(const int8_t* p) { return {eight_int8(p), eight_int8(p + 8)}; }
TAILRACE_INLINE __m256 eight_bf16(const uint16_t* p) {
    const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
}
TAILRACE_INLINE Vec load_bf16(const uint16_t* p) { return {eight_bf16(p), eight_bf16(p + 8)}; }
TAILRACE_INLINE void store_half(uint16_t* p, Vec a) {
    auto* eights = reinterpret_cast<__m128i*>(p);
    _mm_storeu_si128(eights, _mm256_cvtps_ph(a.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(eights + 1, _mm256_cvtps_ph(a.b, _MM_FROUND_TO_NEAREST_INT));
}

#elif defined(TAILRACE_NEON)

TAILRACE_INLINE Vec load_int8(const int8_t* p) {
    const int8x16_t bytes = vld1q_s8(p);
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_high_s16(low)),
             vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_high_s16(high))}};
}
TAILRACE_INLINE Vec load_bf16(const uint16_t* p) {
    Vec a;
    for (int i = 0; i < kParts; ++i) a.v[i] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + i * kPartLanes), 16));
    return a;
}
TAILRACE_INLINE void store_half(uint16_t* p, Vec a) {
    for (int i = 0; i < kParts; ++i) vst1_u16(p + i * kPartLanes, vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
}

#else

TAILRACE_INLINE uint16_t float_to_half(float x) {
    constexpr float kSteps = 0.5f;  // a float beside it is a multiple of 2^-24, as float16 below 2^-14 are
    constexpr uint32_t kInfinite = 0x477ff000, kNormal = 0x38800000, kBias = 112 << 10;
    const uint32_t sign = float_bits(x) >> 16 & 0x8000, bits = float_bits(x) & 0x7fffffff;
    if (bits > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
    if (bits >= kInfinite) return static_cast<uint16_t>(sign | 0x7c00);
    const uint32_t normal = ((bits + 0xfff + (bits >> 13 & 1)) >> 13) - kBias;
    const uint32_t below = float_bits(bits_float(bits) + kSteps) - float_bits(kSteps);
    return static_cast<uint16_t>(sign | (bits < kNormal ? below : normal));
}
TAILRACE_INLINE Vec load_int8(const int8_t* p) {
    Vec a;
    for (int i = 0; i < kLanes; ++i) a.v[i] = static_cast<float>(p[i]);
    return a;
}
TAILRACE_INLINE Vec load_bf16(const uint16_t* p) {
    Vec a;
    for (int i = 0; i < kLanes; ++i) a.v[i] = bf16_to_float(p[i]);
    return a;
}
TAILRACE_INLINE void store_half(uint16_t* p, Vec a) {
    for (int i = 0; i < kLanes; ++i) p[i] = float_to_half(a.v[i]);
}

#endif

}  // namespace tailrace::TAILRACE_ISA
