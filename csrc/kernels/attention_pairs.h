// Keys and values in float32 or bfloat16: dots over pairs of dimensions, sums over pairs of positions.
#pragma once

#include "kernels/attention_tile.h"
#include "kernels/head.h"

namespace tailrace::TAILRACE_ISA {

struct FloatPair {
    float even, odd;
};

TAILRACE_INLINE void store_pairs(FloatPair* out, Vec x) { store(reinterpret_cast<float*>(out), x); }

// A pair of float32 is two vectors.
struct FloatPairs {
    static constexpr KvFormat kFormat = KvFormat::kF32;
    static constexpr size_t kPairBytes = 8 * kLanes;
    using Operand = FloatPair;

    TAILRACE_INLINE Vec step(Vec acc, const uint8_t* pair, Operand x) {
        const auto* p = reinterpret_cast<const float*>(pair);
        return fma(load(p + kLanes), set1(x.odd), fma(load(p), set1(x.even), acc));
    }
    TAILRACE_INLINE Vec step_even(Vec acc, const uint8_t* pair, Operand x) {
        return fma(load(reinterpret_cast<const float*>(pair)), set1(x.even), acc);
    }
};

#if defined(__AVX512BF16__)

// A pair of bfloat16 is the operand of one instruction; queries and weights are rounded alike.
struct HalfPairs {
    static constexpr KvFormat kFormat = KvFormat::kBf16;
    static constexpr size_t kPairBytes = 4 * kLanes;
    using Operand = uint32_t;

    TAILRACE_INLINE Vec dot(Vec acc, __m512i pair, Operand x) {
        return {_mm512_dpbf16_ps(acc.v, (__m512bh)pair, (__m512bh)_mm512_set1_epi32(static_cast<int32_t>(x)))};
    }
    TAILRACE_INLINE Vec step(Vec acc, const uint8_t* pair, Operand x) { return dot(acc, _mm512_loadu_si512(pair), x); }
    TAILRACE_INLINE Vec step_even(Vec acc, const uint8_t* pair, Operand x) {
        return dot(acc, _mm512_and_si512(_mm512_loadu_si512(pair), _mm512_set1_epi32(0xffff)), x & 0xffff);
    }
};

TAILRACE_INLINE void store_pairs(uint32_t* out, Vec x) { store_bf16(reinterpret_cast<uint16_t*>(out), x); }

#else

struct HalfPairs {
    static constexpr KvFormat kFormat = KvFormat::kBf16;
    static constexpr size_t kPairBytes = 4 * kLanes;
    using Operand = FloatPair;

    TAILRACE_INLINE Vec step(Vec acc, const uint8_t* pair, Operand x) {
        Vec even, odd;
        load_bf16_pairs(pair, &even, &odd);
        return fma(odd, set1(x.odd), fma(even, set1(x.even), acc));
    }
    TAILRACE_INLINE Vec step_even(Vec acc, const uint8_t* pair, Operand x) {
        Vec even, odd;
        load_bf16_pairs(pair, &even, &odd);
        return fma(even, set1(x.even), acc);
    }
};

#endif

template <class Pairs>
struct PairCache {
    static constexpr KvFormat kFormat = Pairs::kFormat;
    static constexpr size_t kValueBytes = Pairs::kPairBytes / kLanes;  // of a dimension, in a row of values

    // Vectors of a row's sum at a time.
    template <int R>
    static constexpr int columns() {
        return 4;
    }
    using Operand = typename Pairs::Operand;

    // Of a row, for one key block.
    struct Weights {
        Operand pairs[kKeyBlock / 2];
    };

    // A block as it is read: as it lies in the cache.
    TAILRACE_INLINE const KeyBlock& find_block(const KeyBlock& block, HeadDims, uint8_t*) { return block; }

    static constexpr size_t query_bytes(HeadDims dims) { return dims.padded_key() / 2 * sizeof(Operand); }

    static void store_query(const float* q, HeadDims dims, float scale, uint8_t* out) {
        for (int d = 0; d < dims.key; d += kLanes) {
            store_pairs(reinterpret_cast<Operand*>(out) + d / 2, load_head(q, d, dims.key) * set1(scale));
        }
    }

    template <int R>
    TAILRACE_INLINE void score(const KeyBlock& block, const uint8_t* queries, HeadDims dims, Vec (&s)[R][kKeyGroups]) {
        const auto* q = reinterpret_cast<const Operand*>(queries);
        const int num_pairs = dims.padded_key() / 2;
        for (int r = 0; r < R; ++r) {
            for (int g = 0; g < kKeyGroups; ++g) s[r][g] = zero();
        }
        for (int d = 0; d < num_pairs; ++d) {
            for (int g = 0; g < kKeyGroups; ++g) {
                fetch(block.next_keys[g] + d * Pairs::kPairBytes);
                for (int r = 0; r < R; ++r) {
                    s[r][g] = Pairs::step(s[r][g], block.keys[g] + d * Pairs::kPairBytes, q[r * num_pairs + d]);
                }
            }
        }
    }

    template <int R>
    TAILRACE_INLINE void store_weights(const KeyBlock&, HeadDims, const KeyRange (&)[R], Vec (&p)[R][kKeyGroups],
                                       Weights* out) {
        for (int r = 0; r < R; ++r) {
            for (int g = 0; g < kKeyGroups; ++g) store_pairs(out[r].pairs + g * (kKeyGroup / 2), p[r][g]);
        }
    }

    // Adds the values of the first `num_keys` keys, times their weights, to the dimensions from `first_dim` on.
    template <int R, int C>
    TAILRACE_INLINE void add_values(const Values& values, const Weights* weights, int num_keys, int first_dim,
                                    Vec (&sums)[R][C]) {
        const size_t row_bytes = values.dims * kValueBytes;
        const size_t column = values.place + first_dim * kValueBytes;
        int pair = 0;
        for (; pair < num_keys / 2; ++pair) {
            const size_t place = column + pair % 8 * row_bytes;
            const uint8_t* v = values.groups[pair / 8] + place;
            for (int c = 0; c < C; ++c) fetch(values.next[pair / 8] + place + c * Pairs::kPairBytes);
            for (int r = 0; r < R; ++r) {
                const Operand x = weights[r].pairs[pair];
                for (int c = 0; c < C; ++c) sums[r][c] = Pairs::step(sums[r][c], v + c * Pairs::kPairBytes, x);
            }
        }
        if (num_keys % 2 == 0) return;
        // The partner of the last position may never have been written.
        const uint8_t* v = values.groups[pair / 8] + column + pair % 8 * row_bytes;
        for (int r = 0; r < R; ++r) {
            const Operand x = weights[r].pairs[pair];
            for (int c = 0; c < C; ++c) sums[r][c] = Pairs::step_even(sums[r][c], v + c * Pairs::kPairBytes, x);
        }
    }

  private:
    TAILRACE_INLINE void fetch(const uint8_t* pair) {
        for (size_t line = 0; line < Pairs::kPairBytes; line += 64) prefetch_later(pair + line);
    }
};

}  // namespace tailrace::TAILRACE_ISA
