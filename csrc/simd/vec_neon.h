// Sixteen lanes in four registers. Included by vec.h alone.
#pragma once

#include <arm_neon.h>

#include "simd/lanes.h"

namespace tailrace::TAILRACE_ISA {

constexpr int kParts = 4;  // registers of a vector
constexpr int kPartLanes = kLanes / kParts;

struct Vec {
    float32x4_t v[kParts];
};
struct VecI {
    int32x4_t v[kParts];
};

#define TAILRACE_PARTS(Type, expression)                    \
    Type r;                                                 \
    for (int i = 0; i < kParts; ++i) r.v[i] = (expression); \
    return r

// Of part i, the lanes below n.
TAILRACE_INLINE uint32x4_t lanes_below(int n, int i) {
    constexpr int32_t kNumbers[] = {0, 1, 2, 3};
    return vcltq_s32(vld1q_s32(kNumbers), vdupq_n_s32(n - i * kPartLanes));
}

TAILRACE_INLINE Vec set1(float x) { TAILRACE_PARTS(Vec, vdupq_n_f32(x)); }
TAILRACE_INLINE Vec load(const float* p) { TAILRACE_PARTS(Vec, vld1q_f32(p + i * kPartLanes)); }
TAILRACE_INLINE Vec load_first(const float* p, int n) {
    float lanes[kLanes] = {};
    std::memcpy(lanes, p, n * sizeof(float));
    return load(lanes);
}
TAILRACE_INLINE void store(float* p, Vec a) {
    for (int i = 0; i < kParts; ++i) vst1q_f32(p + i * kPartLanes, a.v[i]);
}
TAILRACE_INLINE void store_first(float* p, Vec a, int n) {
    float lanes[kLanes];
    store(lanes, a);
    std::memcpy(p, lanes, n * sizeof(float));
}
TAILRACE_INLINE Vec operator+(Vec a, Vec b) { TAILRACE_PARTS(Vec, vaddq_f32(a.v[i], b.v[i])); }
TAILRACE_INLINE Vec operator-(Vec a, Vec b) { TAILRACE_PARTS(Vec, vsubq_f32(a.v[i], b.v[i])); }
TAILRACE_INLINE Vec operator*(Vec a, Vec b) { TAILRACE_PARTS(Vec, vmulq_f32(a.v[i], b.v[i])); }
TAILRACE_INLINE Vec operator/(Vec a, Vec b) { TAILRACE_PARTS(Vec, vdivq_f32(a.v[i], b.v[i])); }
TAILRACE_INLINE Vec fma(Vec a, Vec b, Vec c) { TAILRACE_PARTS(Vec, vfmaq_f32(c.v[i], a.v[i], b.v[i])); }
// Of a number and a NaN, vmaxq would give the NaN; every other instruction set gives the second operand.
TAILRACE_INLINE float32x4_t larger(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
TAILRACE_INLINE Vec max(Vec a, Vec b) { TAILRACE_PARTS(Vec, larger(a.v[i], b.v[i])); }
TAILRACE_INLINE Vec min(Vec a, Vec b) { TAILRACE_PARTS(Vec, vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i])); }
TAILRACE_INLINE Vec abs(Vec a) { TAILRACE_PARTS(Vec, vabsq_f32(a.v[i])); }
TAILRACE_INLINE Vec where_less(Vec a, Vec b, Vec yes, Vec no) {
    TAILRACE_PARTS(Vec, vbslq_f32(vcltq_f32(a.v[i], b.v[i]), yes.v[i], no.v[i]));
}
TAILRACE_INLINE Vec where_between(int first, int last, Vec inside, Vec outside) {
    TAILRACE_PARTS(Vec, vbslq_f32(vbicq_u32(lanes_below(last, i), lanes_below(first, i)), inside.v[i], outside.v[i]));
}

template <int kDistance>
TAILRACE_INLINE Vec swap_lanes(Vec a) {
    if constexpr (kDistance >= kPartLanes) {
        TAILRACE_PARTS(Vec, a.v[i ^ (kDistance / kPartLanes)]);
    } else if constexpr (kDistance == 2) {
        TAILRACE_PARTS(Vec, vextq_f32(a.v[i], a.v[i], 2));
    } else {
        TAILRACE_PARTS(Vec, vrev64q_f32(a.v[i]));
    }
}

TAILRACE_INLINE uint32_t at_least(Vec a, Vec b) {
    constexpr uint32_t kBits[] = {1, 2, 4, 8};
    uint32_t bits = 0;
    for (int i = 0; i < kParts; ++i) {
        bits |= vaddvq_u32(vandq_u32(vcgeq_f32(a.v[i], b.v[i]), vld1q_u32(kBits))) << (i * kPartLanes);
    }
    return bits;
}

TAILRACE_INLINE VecI set1(int32_t x) { TAILRACE_PARTS(VecI, vdupq_n_s32(x)); }
TAILRACE_INLINE VecI operator+(VecI a, VecI b) { TAILRACE_PARTS(VecI, vaddq_s32(a.v[i], b.v[i])); }
TAILRACE_INLINE VecI operator-(VecI a, VecI b) { TAILRACE_PARTS(VecI, vsubq_s32(a.v[i], b.v[i])); }
TAILRACE_INLINE VecI max(VecI a, VecI b) { TAILRACE_PARTS(VecI, vmaxq_s32(a.v[i], b.v[i])); }
template <int kBits>
TAILRACE_INLINE VecI shift_left(VecI a) {
    TAILRACE_PARTS(VecI, vshlq_n_s32(a.v[i], kBits));
}
template <int kBits>
TAILRACE_INLINE VecI shift_right(VecI a) {
    TAILRACE_PARTS(VecI, vshrq_n_s32(a.v[i], kBits));
}
TAILRACE_INLINE VecI nearest(Vec a) { TAILRACE_PARTS(VecI, vcvtnq_s32_f32(a.v[i])); }
TAILRACE_INLINE Vec to_float(VecI a) { TAILRACE_PARTS(Vec, vcvtq_f32_s32(a.v[i])); }
TAILRACE_INLINE Vec whole(Vec a) { TAILRACE_PARTS(Vec, vrndnq_f32(a.v[i])); }
TAILRACE_INLINE Vec times_power_of_two(Vec a, Vec n) {
    const Vec least = set1(-127.0f);  // its power comes out as zero
    const VecI bits = shift_left<23>(nearest(max(n, least)) + set1(int32_t{127}));
    TAILRACE_PARTS(Vec, vmulq_f32(a.v[i], vreinterpretq_f32_s32(bits.v[i])));
}
TAILRACE_INLINE void store_int8(int8_t* p, VecI a) {
    const int16x8_t low = vcombine_s16(vqmovn_s32(a.v[0]), vqmovn_s32(a.v[1]));
    const int16x8_t high = vcombine_s16(vqmovn_s32(a.v[2]), vqmovn_s32(a.v[3]));
    vst1q_s8(p, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
}

TAILRACE_INLINE Vec load_half(const uint16_t* p) {
    TAILRACE_PARTS(Vec, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + i * kPartLanes))));
}
TAILRACE_INLINE void load_bf16_pairs(const void* p, Vec* even, Vec* odd) {
    const auto* pairs = static_cast<const uint8_t*>(p);
    for (int i = 0; i < kParts; ++i) {
        const uint32x4_t pair = vreinterpretq_u32_u8(vld1q_u8(pairs + i * 16));
        even->v[i] = vreinterpretq_f32_u32(vshlq_n_u32(pair, 16));
        odd->v[i] = vreinterpretq_f32_u32(vandq_u32(pair, vdupq_n_u32(0xffff0000u)));
    }
}
TAILRACE_INLINE uint16x4_t round_to_bf16(float32x4_t x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    return vshrn_n_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd), 16);
}
TAILRACE_INLINE void store_bf16(uint16_t* p, Vec a) {
    for (int i = 0; i < kParts; ++i) vst1_u16(p + i * kPartLanes, round_to_bf16(a.v[i]));
}

TAILRACE_INLINE Vec quad_max(Vec a) {
    for (float32x4_t& quad : a.v) {
        const float32x4_t pairs = larger(quad, vrev64q_f32(quad));
        quad = larger(pairs, vextq_f32(pairs, pairs, 2));
    }
    return a;
}

#undef TAILRACE_PARTS

TAILRACE_INLINE float sum(Vec a) {
    const float32x4_t four = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

TAILRACE_INLINE float largest(Vec a) {
    const float32x4_t four = larger(larger(a.v[0], a.v[2]), larger(a.v[1], a.v[3]));
    const float32x4_t two = larger(four, vextq_f32(four, four, 2));
    return vgetq_lane_f32(larger(two, vextq_f32(two, two, 1)), 0);
}

TAILRACE_INLINE int32_t sum(VecI a) {
    return vaddvq_s32(vaddq_s32(vaddq_s32(a.v[0], a.v[1]), vaddq_s32(a.v[2], a.v[3])));
}

}  // namespace tailrace::TAILRACE_ISA
