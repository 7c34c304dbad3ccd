// Sixty-four weight codes in registers, and their dots with activation codes: lane i of a sum takes the products of the
// codes 4i to 4i+3 with four activation codes. Integer dots are exact: every instruction set gives the same.
#pragma once

#include <cstring>

#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

#if defined(__AVX512VNNI__)

using Bytes = __m512i;

TAILRACE_INLINE Bytes load_bytes(const uint8_t* p) { return _mm512_loadu_si512(p); }
TAILRACE_INLINE Bytes low_nibbles(Bytes b) { return _mm512_and_si512(b, _mm512_set1_epi8(15)); }
TAILRACE_INLINE Bytes high_nibbles(Bytes b) { return _mm512_and_si512(_mm512_srli_epi16(b, 4), _mm512_set1_epi8(15)); }
TAILRACE_INLINE VecI dot_q4(VecI s, Bytes w, int32_t a) { return {_mm512_dpbusd_epi32(s.v, w, _mm512_set1_epi32(a))}; }
TAILRACE_INLINE VecI start_q8(int32_t shift) { return set1(shift); }
TAILRACE_INLINE VecI dot_q8(VecI s, Bytes w, int32_t a) { return dot_q4(s, w, a); }

#elif defined(__AVX2__)

struct Bytes {
    __m256i a, b;
};

TAILRACE_INLINE Bytes load_bytes(const uint8_t* p) {
    const auto* vectors = reinterpret_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(vectors), _mm256_loadu_si256(vectors + 1)};
}
TAILRACE_INLINE Bytes low_nibbles(Bytes x) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)};
}
TAILRACE_INLINE Bytes high_nibbles(Bytes x) {
    return low_nibbles({_mm256_srli_epi16(x.a, 4), _mm256_srli_epi16(x.b, 4)});
}

#if defined(__AVXVNNI__)

TAILRACE_INLINE VecI dot_q4(VecI s, Bytes w, int32_t a) {
    const __m256i four = _mm256_set1_epi32(a);
    return {_mm256_dpbusd_avx_epi32(s.a, w.a, four), _mm256_dpbusd_avx_epi32(s.b, w.b, four)};
}
TAILRACE_INLINE VecI start_q8(int32_t shift) { return set1(shift); }
TAILRACE_INLINE VecI dot_q8(VecI s, Bytes w, int32_t a) { return dot_q4(s, w, a); }

#else

// Products of unsigned and signed bytes, pairs added in 16 bits: at most 2 * 128 * 127, which does not saturate.
TAILRACE_INLINE __m256i add_products(__m256i sum, __m256i bytes, __m256i a) {
    const __m256i pairs = _mm256_maddubs_epi16(bytes, a);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
TAILRACE_INLINE VecI dot_q4(VecI s, Bytes w, int32_t a) {
    const __m256i four = _mm256_set1_epi32(a);
    return {add_products(s.a, w.a, four), add_products(s.b, w.b, four)};
}
TAILRACE_INLINE VecI start_q8(int32_t) { return set1(int32_t{0}); }
// The full range of a stored byte would saturate: multiply |w| with a under the sign of w.
TAILRACE_INLINE VecI dot_q8(VecI s, Bytes w, int32_t a) {
    const __m256i four = _mm256_set1_epi32(a), flip = _mm256_set1_epi8(-128);
    const __m256i low = _mm256_xor_si256(w.a, flip), high = _mm256_xor_si256(w.b, flip);
    return {add_products(s.a, _mm256_abs_epi8(low), _mm256_sign_epi8(four, low)),
            add_products(s.b, _mm256_abs_epi8(high), _mm256_sign_epi8(four, high))};
}

#endif

#elif defined(TAILRACE_NEON)

struct Bytes {
    uint8x16_t v[kParts];
};

TAILRACE_INLINE Bytes load_bytes(const uint8_t* p) {
    return {{vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}};
}
TAILRACE_INLINE Bytes low_nibbles(Bytes b) {
    for (uint8x16_t& bytes : b.v) bytes = vandq_u8(bytes, vdupq_n_u8(15));
    return b;
}
TAILRACE_INLINE Bytes high_nibbles(Bytes b) {
    for (uint8x16_t& bytes : b.v) bytes = vshrq_n_u8(bytes, 4);
    return b;
}
#if defined(__ARM_FEATURE_DOTPROD)
TAILRACE_INLINE int32x4_t add_products(int32x4_t sum, int8x16_t w, int8x16_t a) { return vdotq_s32(sum, w, a); }
#else
// Two products in 16 bits are at most 2 * 128 * 127, which does not overflow.
TAILRACE_INLINE int32x4_t add_products(int32x4_t sum, int8x16_t w, int8x16_t a) {
    return vpadalq_s16(sum, vpaddq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(a)), vmull_high_s8(w, a)));
}
#endif
TAILRACE_INLINE VecI dot_q4(VecI s, Bytes w, int32_t a) {
    const int8x16_t four = vreinterpretq_s8_s32(vdupq_n_s32(a));
    for (int i = 0; i < kParts; ++i) s.v[i] = add_products(s.v[i], vreinterpretq_s8_u8(w.v[i]), four);
    return s;
}
// Taking away the 128 in each code leaves what these dots multiply: signed bytes.
TAILRACE_INLINE VecI start_q8(int32_t) { return set1(int32_t{0}); }
TAILRACE_INLINE VecI dot_q8(VecI s, Bytes w, int32_t a) {
    for (uint8x16_t& bytes : w.v) bytes = veorq_u8(bytes, vdupq_n_u8(128));
    return dot_q4(s, w, a);
}

#else

struct Bytes {
    uint8_t v[64];
};

TAILRACE_INLINE Bytes load_bytes(const uint8_t* p) {
    Bytes b;
    std::memcpy(b.v, p, sizeof b.v);
    return b;
}
TAILRACE_INLINE Bytes low_nibbles(Bytes b) {
    for (uint8_t& byte : b.v) byte &= 15;
    return b;
}
TAILRACE_INLINE Bytes high_nibbles(Bytes b) {
    for (uint8_t& byte : b.v) byte >>= 4;
    return b;
}
// Written so that a compiler sees sixteen equal lanes.
TAILRACE_INLINE VecI dot_q4(VecI s, const Bytes& w, int32_t four) {
    int8_t a[4];
    std::memcpy(a, &four, 4);
    uint32_t words[kLanes];
    std::memcpy(words, w.v, sizeof words);
    for (int i = 0; i < kLanes; ++i) {
        const auto byte = [&](int j) { return static_cast<int32_t>(words[i] >> (8 * j) & 255); };
        s.v[i] += byte(0) * a[0] + byte(1) * a[1] + byte(2) * a[2] + byte(3) * a[3];
    }
    return s;
}
TAILRACE_INLINE VecI start_q8(int32_t shift) { return set1(shift); }
TAILRACE_INLINE VecI dot_q8(VecI s, const Bytes& w, int32_t a) { return dot_q4(s, w, a); }

#endif

// Four activation codes as one operand.
TAILRACE_INLINE int32_t four_codes(const int8_t* p) {
    int32_t four;
    std::memcpy(&four, p, 4);
    return four;
}

}  // namespace tailrace::TAILRACE_ISA
