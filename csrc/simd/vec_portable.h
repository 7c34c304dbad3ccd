// Sixteen lanes in an array: plain C++ that compilers vectorise as they can. Included by vec.h alone.
#pragma once

#include "simd/lanes.h"

namespace tailrace::TAILRACE_ISA {

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

TAILRACE_INLINE Vec set1(float x) { TAILRACE_LANES(Vec, x); }
TAILRACE_INLINE Vec load(const float* p) { TAILRACE_LANES(Vec, p[i]); }
TAILRACE_INLINE Vec load_first(const float* p, int n) { TAILRACE_LANES(Vec, i < n ? p[i] : 0.0f); }
TAILRACE_INLINE void store(float* p, Vec a) { std::memcpy(p, a.v, sizeof a.v); }
TAILRACE_INLINE void store_first(float* p, Vec a, int n) { std::memcpy(p, a.v, n * sizeof(float)); }
TAILRACE_INLINE Vec operator+(Vec a, Vec b) { TAILRACE_LANES(Vec, a.v[i] + b.v[i]); }
TAILRACE_INLINE Vec operator-(Vec a, Vec b) { TAILRACE_LANES(Vec, a.v[i] - b.v[i]); }
TAILRACE_INLINE Vec operator*(Vec a, Vec b) { TAILRACE_LANES(Vec, a.v[i] * b.v[i]); }
TAILRACE_INLINE Vec operator/(Vec a, Vec b) { TAILRACE_LANES(Vec, a.v[i] / b.v[i]); }
TAILRACE_INLINE Vec fma(Vec a, Vec b, Vec c) { TAILRACE_LANES(Vec, a.v[i] * b.v[i] + c.v[i]); }
TAILRACE_INLINE Vec max(Vec a, Vec b) { TAILRACE_LANES(Vec, a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
TAILRACE_INLINE Vec min(Vec a, Vec b) { TAILRACE_LANES(Vec, a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
TAILRACE_INLINE Vec abs(Vec a) { TAILRACE_LANES(Vec, __builtin_fabsf(a.v[i])); }
TAILRACE_INLINE Vec where_less(Vec a, Vec b, Vec yes, Vec no) {
    TAILRACE_LANES(Vec, a.v[i] < b.v[i] ? yes.v[i] : no.v[i]);
}
TAILRACE_INLINE Vec where_between(int first, int last, Vec inside, Vec outside) {
    TAILRACE_LANES(Vec, i >= first && i < last ? inside.v[i] : outside.v[i]);
}

template <int kDistance>
TAILRACE_INLINE Vec swap_lanes(Vec a) {
    TAILRACE_LANES(Vec, a.v[i ^ kDistance]);
}

TAILRACE_INLINE uint32_t at_least(Vec a, Vec b) {
    uint32_t bits = 0;
    for (int i = 0; i < kLanes; ++i) bits |= static_cast<uint32_t>(a.v[i] >= b.v[i]) << i;
    return bits;
}

TAILRACE_INLINE VecI set1(int32_t x) { TAILRACE_LANES(VecI, x); }
TAILRACE_INLINE VecI operator+(VecI a, VecI b) { TAILRACE_LANES(VecI, a.v[i] + b.v[i]); }
TAILRACE_INLINE VecI operator-(VecI a, VecI b) { TAILRACE_LANES(VecI, a.v[i] - b.v[i]); }
TAILRACE_INLINE VecI max(VecI a, VecI b) { TAILRACE_LANES(VecI, a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
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
TAILRACE_INLINE VecI nearest(Vec a) { TAILRACE_LANES(VecI, nearest_one(a.v[i])); }
TAILRACE_INLINE Vec to_float(VecI a) { TAILRACE_LANES(Vec, static_cast<float>(a.v[i])); }
TAILRACE_INLINE Vec whole(Vec a) { TAILRACE_LANES(Vec, __builtin_rintf(a.v[i])); }
TAILRACE_INLINE Vec times_power_of_two(Vec a, Vec n) {
    TAILRACE_LANES(Vec, n.v[i] < -126.0f ? 0.0f : a.v[i] * bits_float(static_cast<uint32_t>(n.v[i] + 127.0f) << 23));
}
TAILRACE_INLINE void store_int8(int8_t* p, VecI a) {
    for (int i = 0; i < kLanes; ++i) {
        p[i] = static_cast<int8_t>(a.v[i] < -128 ? -128 : a.v[i] > 127 ? 127 : a.v[i]);
    }
}

TAILRACE_INLINE Vec load_half(const uint16_t* p) { TAILRACE_LANES(Vec, half_to_float(p[i])); }
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

TAILRACE_INLINE Vec quad_max(Vec a) {
    Vec tops = a;
    for (int i = 0; i < kLanes; ++i) {
        for (int k = i / 4 * 4; k < i / 4 * 4 + 4; ++k) tops.v[i] = tops.v[i] > a.v[k] ? tops.v[i] : a.v[k];
    }
    return tops;
}

#undef TAILRACE_LANES

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

}  // namespace tailrace::TAILRACE_ISA
