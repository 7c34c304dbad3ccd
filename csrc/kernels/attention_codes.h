// Keys and values as 8-bit codes: queries and weights become whole numbers of 16 bits, so that dots are exact.
#pragma once

#include "kernels/attention_tile.h"
#include "kernels/head.h"
#include "simd/words.h"

namespace tailrace::TAILRACE_ISA {

// Numbers that a value of one becomes. Where the largest is almost nothing, all become zero.
TAILRACE_INLINE float steps_for(float top) { return top > 1e-30f ? kWordMax / top : 0.0f; }

// What is no number becomes one.
TAILRACE_INLINE VecI to_numbers(Vec x) { return nearest(max(min(x, set1(kWordMax)), set1(-kWordMax))); }

// A query in its memory: whole numbers, what takes back the 128 that codes are stored with, and the scale.
struct CodeQuery {
    static constexpr int kSumDims = 256;  // whose products an integer is sure to hold: 256 * 255 * kWordMax

    Quad* quads;
    int32_t* shifts;  // for every kSumDims
    float* scale;

    CodeQuery(const uint8_t* memory, int dim)
        : quads(reinterpret_cast<Quad*>(const_cast<uint8_t*>(memory))),
          shifts(reinterpret_cast<int32_t*>(quads + dim / kQuad)),
          scale(reinterpret_cast<float*>(shifts + num_sums(dim))) {}

    static constexpr size_t num_bytes(int dim) {
        return dim / kQuad * sizeof(Quad) + (num_sums(dim) + 1) * sizeof(int32_t);
    }

    // Dimensions are padded to whole vectors.
    void store(const float* q, int head_dim, float scale_of_q) const {
        const int dim = padded_head(head_dim);
        float mixed[kMaxHeadDim];
        mix(q, head_dim, mixed);
        const float top = largest_of(mixed, dim);
        const Vec steps = set1(steps_for(top));
        for (int first = 0; first < dim; first += kSumDims) {
            VecI total = set1(int32_t{0});
            for (int d = first; d < dim && d < first + kSumDims; d += kLanes) {
                const VecI numbers = to_numbers(load(mixed + d) * steps);
                store_quads(quads + d / kQuad, numbers);
                total = total + numbers;
            }
            shifts[first / kSumDims] = -128 * sum(total);
        }
        *scale = top / kWordMax * scale_of_q;
    }

  private:
    static constexpr int num_sums(int dim) { return (dim + kSumDims - 1) / kSumDims; }
};

// Keys and values of a block as codes; where the scales of the keys lie, and how many there are, is said elsewhere.
class CodeDots {
  public:
    static constexpr KvFormat kFormat = KvFormat::kInt8;
    static constexpr size_t kValueBytes = kQuad;  // of a dimension, in a row of values

    template <int R>
    static constexpr int columns() {
        return kAccumulators / (2 * R) >= 4 ? 4 : kAccumulators / (2 * R) >= 2 ? 2 : 1;
    }

    // Of a row, for one key block: multiplied with the scales of the values, which their codes lack.
    struct Weights {
        Quad quads[kKeyBlock / kQuad];
        int32_t shift;
        float scale;
    };

    // A block as it is read: as it lies in the cache.
    TAILRACE_INLINE const KeyBlock& find_block(const KeyBlock& block, HeadDims, uint8_t*) { return block; }

    // Adds the values of the first `num_keys` keys, times their weights, to the dimensions from `first_dim` on.
    template <int R, int C>
    TAILRACE_INLINE void add_values(const Values& values, const Weights* weights, int num_keys, int first_dim,
                                    Vec (&sums)[R][C]) {
        const size_t column = values.place + first_dim * kValueBytes;
        VecI high[R][C], low[R][C];
        clear(high);
        clear(low);
        for (int g = 0; g * kKeyGroup < num_keys; ++g) {
            const uint8_t* places[C];
            const uint8_t* next[C];
            for (int c = 0; c < C; ++c) {
                places[c] = values.groups[g] + column + c * 64;
                next[c] = values.next[g] + column + c * 64;
            }
            add_dots<R, C>(places, next, values.dims * kValueBytes,
                           reinterpret_cast<const uint8_t*>(weights->quads + g * (kKeyGroup / kQuad)), sizeof(Weights),
                           kKeyGroup / kQuad, high, low);
        }
        for (int r = 0; r < R; ++r) {
            for (int c = 0; c < C; ++c) {
                sums[r][c] =
                    fma(to_float(join(high[r][c], low[r][c], weights[r].shift)), set1(weights[r].scale), sums[r][c]);
            }
        }
    }

  protected:
    // Dots of R queries of `dim` dimensions, `query_step` bytes from one to the next, with the keys' codes from
    // `offset` on.
    template <int R>
    TAILRACE_INLINE void key_dots(const KeyBlock& block, size_t offset, const uint8_t* queries, size_t query_step,
                                  int dim, Vec (&totals)[R][kKeyGroups]) {
        // As many groups of keys as there are registers for.
        constexpr int kRoom = kAccumulators / (2 * R);
        constexpr int kTogether = kRoom >= kKeyGroups ? kKeyGroups : kRoom >= 2 ? 2 : 1;
        for (int first = 0; first < kKeyGroups; first += kTogether) {
            dot_groups<R, kTogether>(block, first, offset, queries, query_step, dim, totals);
        }
    }

    // Turns the weights of R rows, times the scales of the values, into operands.
    template <int R>
    TAILRACE_INLINE void store_products(Vec (&p)[R][kKeyGroups], Weights* out) {
        Vec steps[R];
        for (int r = 0; r < R; ++r) {
            const float top = largest(max(max(p[r][0], p[r][1]), max(p[r][2], p[r][3])));
            steps[r] = set1(steps_for(top));
            out[r].scale = top * (1.0f / kWordMax);
        }
        for (int r = 0; r < R; ++r) {
            VecI total = set1(int32_t{0});
            for (int g = 0; g < kKeyGroups; ++g) {
                const VecI numbers = to_numbers(p[r][g] * steps[r]);
                store_quads(out[r].quads + g * (kKeyGroup / kQuad), numbers);
                total = total + numbers;
            }
            out[r].shift = -128 * sum(total);
        }
    }

    // What lies at positions that were never written need not be a number.
    TAILRACE_INLINE Vec only_seen(KeyRange seen, int group, Vec scales) {
        return seen.is_whole() ? scales : where_seen(seen, group, scales, zero());
    }

  private:
    template <int R, int G>
    TAILRACE_INLINE void dot_groups(const KeyBlock& block, int first, size_t offset, const uint8_t* queries,
                                    size_t query_step, int dim, Vec (&totals)[R][kKeyGroups]) {
        constexpr int kSumDims = CodeQuery::kSumDims;
        Vec total[R][G];
        for (int r = 0; r < R; ++r) {
            for (int g = 0; g < G; ++g) total[r][g] = zero();
        }
        for (int d = 0; d < dim; d += kSumDims) {
            const int num_quads = (dim - d < kSumDims ? dim - d : kSumDims) / kQuad;
            VecI high[R][G], low[R][G];
            clear(high);
            clear(low);
            const uint8_t* places[G];
            const uint8_t* next[G];
            for (int g = 0; g < G; ++g) {
                places[g] = block.keys[first + g] + offset + d * kKeyGroup;
                next[g] = block.next_keys[first + g] + offset + d * kKeyGroup;
            }
            add_dots<R, G>(places, next, 64, queries + d / kQuad * sizeof(Quad), query_step, num_quads, high, low);
            for (int r = 0; r < R; ++r) {
                const int32_t shift = CodeQuery(queries + r * query_step, dim).shifts[d / kSumDims];
                for (int g = 0; g < G; ++g) total[r][g] = total[r][g] + to_float(join(high[r][g], low[r][g], shift));
            }
        }
        for (int r = 0; r < R; ++r) {
            for (int g = 0; g < G; ++g) totals[r][first + g] = total[r][g];
        }
    }

    // Dots of R rows of quads with C vectors of codes, over `count` quads and as many steps of the codes.
    template <int R, int C>
    TAILRACE_INLINE void add_dots(const uint8_t* const (&codes)[C], const uint8_t* const (&next)[C], size_t codes_step,
                                  const uint8_t* quads, size_t row_step, int count, VecI (&high)[R][C],
                                  VecI (&low)[R][C]) {
        size_t offset = 0;
        // Accumulators that go around a loop are copied from register to register there.
#pragma GCC unroll 4
        for (int i = 0; i < count; ++i, offset += codes_step, quads += sizeof(Quad)) {
            for (int c = 0; c < C; ++c) {
                prefetch_later(next[c] + offset);
                const Bytes first = load_codes<0>(codes[c] + offset), second = load_codes<1>(codes[c] + offset);
                for (int r = 0; r < R; ++r) {
                    const auto* quad = reinterpret_cast<const Quad*>(quads + r * row_step);
                    high[r][c] = dot_words(high[r][c], first, quad->numbers[0]);
                    low[r][c] = dot_words(low[r][c], second, quad->numbers[1]);
                }
            }
        }
    }

    template <int R, int C>
    TAILRACE_INLINE void clear(VecI (&sums)[R][C]) {
        for (int r = 0; r < R; ++r) {
            for (int c = 0; c < C; ++c) sums[r][c] = set1(int32_t{0});
        }
    }
};

// A head's keys have one scale each, and its values one each.
class CodeCache : public CodeDots {
  public:
    static constexpr size_t query_bytes(HeadDims dims) { return CodeQuery::num_bytes(dims.padded_key()); }

    static void store_query(const float* q, HeadDims dims, float scale, uint8_t* out) {
        CodeQuery(out, dims.padded_key()).store(q, dims.key, scale);
    }

    template <int R>
    TAILRACE_INLINE void score(const KeyBlock& block, const uint8_t* queries, HeadDims dims, Vec (&s)[R][kKeyGroups]) {
        const int dim = dims.padded_key();
        key_dots<R>(block, 0, queries, query_bytes(dims), dim, s);
        for (int g = 0; g < kKeyGroups; ++g) {
            const Vec scales = load_scales(block.keys[g], dim);
            for (int r = 0; r < R; ++r) {
                s[r][g] = s[r][g] * (scales * set1(*CodeQuery(queries + r * query_bytes(dims), dim).scale));
            }
        }
    }

    template <int R>
    TAILRACE_INLINE void store_weights(const KeyBlock& block, HeadDims dims, const KeyRange (&seen)[R],
                                       Vec (&p)[R][kKeyGroups], Weights* out) {
        for (int g = 0; g < kKeyGroups; ++g) {
            const uint8_t* values = block.keys[g] + kv_tile_bytes(kFormat, dims.key);
            const Vec scales = load_scales(values, dims.padded_value());
            for (int r = 0; r < R; ++r) p[r][g] = p[r][g] * only_seen(seen[r], g, scales);
        }
        store_products(p, out);
    }

  private:
    TAILRACE_INLINE Vec load_scales(const uint8_t* tile, int dim) {
        return load(reinterpret_cast<const float*>(tile + static_cast<size_t>(dim) * kKeyGroup));
    }
};

}  // namespace tailrace::TAILRACE_ISA
