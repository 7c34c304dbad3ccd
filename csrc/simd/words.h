// Dots of 8-bit codes with whole numbers of 16 bits, a quad of four at a time, in two passes over the codes:
//
//     sums = 0;  sums = dot_words(sums, load_codes<0>(codes), quad.numbers[0]) ...
//     sums = next_pass(sums, shift);
//     sums = dot_words(sums, load_codes<1>(codes), quad.numbers[1]) ...
//
// where `shift` is -128 * the sum of all numbers: codes are stored with 128 added. Exact, so that every instruction set
// gives the same.
#pragma once

#include "simd/bytes.h"

namespace tailrace::TAILRACE_ISA {

constexpr int kQuad = 4;
constexpr float kWordMax = 127.0f * 256.0f;  // numbers in use are not larger: both of their bytes are then in -128..127

// Four numbers, as the two passes want them.
struct Quad {
    int32_t numbers[2];
};

#if defined(__AVX2__) && !defined(__AVX512VNNI__) && !defined(__AVXVNNI__)

// Without dots of bytes: the first pass takes every other code, beginning with the first, and the second the rest.
TAILRACE_INLINE __m128i to_quads(__m256i n) {
    const __m256i others = _mm256_slli_epi32(_mm256_shuffle_epi32(n, _MM_SHUFFLE(3, 2, 3, 2)), 16);
    const __m256i pairs = _mm256_blend_epi16(n, others, 0xaa);  // in the lower half of each 128 bits
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(pairs, 0x08));
}
TAILRACE_INLINE void store_quads(Quad* out, VecI n) {
    auto* quads = reinterpret_cast<__m128i*>(out);
    _mm_storeu_si128(quads, to_quads(n.a));
    _mm_storeu_si128(quads + 1, to_quads(n.b));
}
template <int kPass>
TAILRACE_INLINE __m256i take_codes(__m256i codes) {
    return kPass == 0 ? _mm256_and_si256(codes, _mm256_set1_epi16(0xff)) : _mm256_srli_epi16(codes, 8);
}
template <int kPass>
TAILRACE_INLINE Bytes load_codes(const uint8_t* p) {
    const Bytes codes = load_bytes(p);
    return {take_codes<kPass>(codes.a), take_codes<kPass>(codes.b)};
}
TAILRACE_INLINE VecI join(VecI first, VecI second, int32_t shift) { return first + second + set1(shift); }
TAILRACE_INLINE VecI dot_words(VecI sums, Bytes codes, int32_t numbers) {
    const __m256i pair = _mm256_set1_epi32(numbers);
    return {_mm256_add_epi32(sums.a, _mm256_madd_epi16(codes.a, pair)),
            _mm256_add_epi32(sums.b, _mm256_madd_epi16(codes.b, pair))};
}

#else

// The first pass takes the upper bytes of the numbers, the second the lower ones.
TAILRACE_INLINE void store_quads(Quad* out, VecI n) {
    const VecI upper = shift_right<8>(n + set1(int32_t{128}));
    const VecI lower = n - shift_left<8>(upper);
#if defined(__AVX512VNNI__)
    const __m128i high = _mm512_cvtepi32_epi8(upper.v), low = _mm512_cvtepi32_epi8(lower.v);
    auto* quads = reinterpret_cast<__m128i*>(out);
    _mm_storeu_si128(quads, _mm_unpacklo_epi32(high, low));
    _mm_storeu_si128(quads + 1, _mm_unpackhi_epi32(high, low));
#else
    int8_t bytes[2][kLanes];
    store_int8(bytes[0], upper);
    store_int8(bytes[1], lower);
    for (int i = 0; i < kLanes / kQuad; ++i) {
        for (int pass = 0; pass < 2; ++pass) out[i].numbers[pass] = four_codes(bytes[pass] + i * kQuad);
    }
#endif
}
template <int kPass>
TAILRACE_INLINE Bytes load_codes(const uint8_t* p) {
    return load_bytes(p);
}
TAILRACE_INLINE VecI join(VecI first, VecI second, int32_t shift) {
    return shift_left<8>(first) + second + start_q8(shift);
}
TAILRACE_INLINE VecI dot_words(VecI sums, const Bytes& codes, int32_t numbers) { return dot_q8(sums, codes, numbers); }

#endif

}  // namespace tailrace::TAILRACE_ISA
