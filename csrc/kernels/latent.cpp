// Latent attention: all heads of a token read one key, whose first dimensions, the latent, are the value too.
//
// Scores use the keys as they lie in the cache; for the sums, the latents of a key block are turned into the layout of
// values, once for all rows of the task.
#include "kernels/attention_codes.h"
#include "kernels/attention_pairs.h"
#include "kernels/attention_walk.h"
#include "kernels/codes.h"
#include "kernels/functions.h"
#include "kernels/latent_values.h"
#include "kernels/widening.h"

namespace tailrace::TAILRACE_ISA {

namespace {

// Where values of a key block are put: addresses of the groups, then the groups. `dim_bytes`: of a dimension of sixteen
// positions, in either layout.
template <class Turn>
TAILRACE_INLINE Values turn_groups(const KeyBlock& block, ValueDims wanted, size_t dim_bytes, uint8_t* memory,
                                   const Turn& turn) {
    auto** groups = reinterpret_cast<const uint8_t**>(memory);
    for (int g = 0; g < kKeyGroups; ++g) {
        uint8_t* group = memory + 64 + g * wanted.count() * dim_bytes;
        if (g < block.num_groups) turn(block.keys[g] + wanted.first * dim_bytes, wanted.count(), group);
        groups[g] = group;
    }
    return {groups, groups, 0, wanted.count()};
}

struct LatentFloats : PairCache<FloatPairs> {
    static constexpr int kValueDims = kTurnedDims;

    TAILRACE_INLINE Values find_values(const KeyBlock& block, HeadDims, ValueDims wanted, uint8_t* memory) {
        return turn_groups(block, wanted, 4 * kKeyGroup, memory, turn_float_pairs);
    }
    TAILRACE_INLINE void finish(float*, HeadDims) {}
};

struct LatentHalves : PairCache<HalfPairs> {
    static constexpr int kValueDims = kTurnedDims;

    TAILRACE_INLINE Values find_values(const KeyBlock& block, HeadDims, ValueDims wanted, uint8_t* memory) {
        return turn_groups(block, wanted, 2 * kKeyGroup, memory, turn_half_pairs);
    }
    TAILRACE_INLINE void finish(float*, HeadDims) {}
};

// Of codes, latent and turned part are mixed, and scaled, each for itself: the one is normed, the other is not. Behind
// the codes lie both scales of a position, in bfloat16. What mixes takes itself back.
TAILRACE_INLINE void finish_latent(float* sums, HeadDims dims) { mix(sums, dims.value, sums); }

struct LatentE4m3 : LatentHalves {
    static constexpr KvFormat kFormat = KvFormat::kE4m3;

    static void store_query(const float* q, HeadDims dims, float scale, uint8_t* out) {
        auto* pairs = reinterpret_cast<Operand*>(out);
        store_mixed(q, dims.value, scale, pairs);
        store_mixed(q + dims.value, dims.key - dims.value, scale, pairs + dims.value / 2);
    }
    TAILRACE_INLINE KeyBlock find_block(const KeyBlock& block, HeadDims dims, uint8_t* memory) {
        const auto widen = [&](const uint8_t* keys, const uint8_t* next, uint8_t* out) {
            widen_latent(keys, dims.value, dims.padded_key(), next, out);
        };
        return widen_groups(block, kv_tile_bytes(KvFormat::kBf16, dims.key), memory, widen);
    }
    TAILRACE_INLINE void finish(float* sums, HeadDims dims) { finish_latent(sums, dims); }
};

class LatentCodes : public CodeDots {
  public:
    static constexpr int kValueDims = kTurnedDims;

    static constexpr size_t query_bytes(HeadDims dims) {
        return CodeQuery::num_bytes(dims.value) + CodeQuery::num_bytes(turned_dim(dims));
    }

    static void store_query(const float* q, HeadDims dims, float scale, uint8_t* out) {
        CodeQuery(out, dims.value).store(q, dims.value, scale);
        CodeQuery(out + CodeQuery::num_bytes(dims.value), turned_dim(dims))
            .store(q + dims.value, dims.key - dims.value, scale);
    }

    template <int R>
    TAILRACE_INLINE void score(const KeyBlock& block, const uint8_t* queries, HeadDims dims, Vec (&s)[R][kKeyGroups]) {
        const size_t step = query_bytes(dims);
        const uint8_t* turned = queries + CodeQuery::num_bytes(dims.value);
        Vec turned_dots[R][kKeyGroups];
        key_dots<R>(block, 0, queries, step, dims.value, s);
        key_dots<R>(block, dims.value * kKeyGroup, turned, step, turned_dim(dims), turned_dots);
        for (int g = 0; g < kKeyGroups; ++g) {
            Vec latent_scales, turned_scales;
            load_bf16_pairs(scales_of(block, g, dims), &latent_scales, &turned_scales);
            for (int r = 0; r < R; ++r) {
                const float of_latent = *CodeQuery(queries + r * step, dims.value).scale;
                const float of_turned = *CodeQuery(turned + r * step, turned_dim(dims)).scale;
                s[r][g] = fma(turned_dots[r][g], turned_scales * set1(of_turned),
                              s[r][g] * (latent_scales * set1(of_latent)));
            }
        }
    }

    TAILRACE_INLINE Values find_values(const KeyBlock& block, HeadDims, ValueDims wanted, uint8_t* memory) {
        return turn_groups(block, wanted, kKeyGroup, memory, turn_codes);
    }

    template <int R>
    TAILRACE_INLINE void store_weights(const KeyBlock& block, HeadDims dims, const KeyRange (&seen)[R],
                                       Vec (&p)[R][kKeyGroups], Weights* out) {
        for (int g = 0; g < kKeyGroups; ++g) {
            Vec latent_scales, turned_scales;
            load_bf16_pairs(scales_of(block, g, dims), &latent_scales, &turned_scales);
            for (int r = 0; r < R; ++r) p[r][g] = p[r][g] * only_seen(seen[r], g, latent_scales);
        }
        store_products(p, out);
    }

    TAILRACE_INLINE void finish(float* sums, HeadDims dims) { finish_latent(sums, dims); }

  private:
    static constexpr int turned_dim(HeadDims dims) { return dims.padded_key() - dims.value; }

    TAILRACE_INLINE const uint8_t* scales_of(const KeyBlock& block, int group, HeadDims dims) {
        return block.keys[group] + static_cast<size_t>(dims.padded_key()) * kKeyGroup;
    }
};

// A walk over the positions that one token has selected, gathered into key blocks: the n-th of them meets the row as
// the n-th position would where all are seen.
template <class Cache>
class SelectionWalk {
  public:
    SelectionWalk(const LatentTask& task, HeadDims dims)
        : task_(task), rows_(task.attention, dims), tile_bytes_(kv_tile_bytes(Cache::kFormat, dims.key)) {}

    void run() const {
        rows_.load_queries();
        for (int first = 0; first < task_.num_selected; first += kKeyBlock) meet(first);
        rows_.store_result();
    }

  private:
    void meet(int first) const {
        const int left = task_.num_selected - first, count = left < kKeyBlock ? left : kKeyBlock;
        KeyBlock block{};
        block.base = first;
        block.num_groups = (count + kKeyGroup - 1) / kKeyGroup;
        for (int g = 0; g < kKeyGroups; ++g) {
            block.keys[g] = block.next_keys[g] = gathered() + (g < block.num_groups ? g : 0) * tile_bytes_;
        }
        for (int i = 0; i < count; ++i) gather(task_.selected[first + i], i);
        Rows rows = rows_.of(0);
        rows.position = task_.num_selected - 1;
        rows_.attend(block, rows);
    }

    void gather(int position, int index) const {
        const AttentionTask& attention = task_.attention;
        const uint8_t* from = group_of(attention, attention.sequences[0], position / kKeyGroup);
        uint8_t* to = gathered() + index / kKeyGroup * tile_bytes_;
        const size_t lane = position % kKeyGroup * kLaneBytes, target = index % kKeyGroup * kLaneBytes;
        for (size_t line = 0; line < tile_bytes_; line += kKeyGroup * kLaneBytes) {
            std::memcpy(to + line + target, from + line + lane, kLaneBytes);
        }
    }

    uint8_t* gathered() const { return rows_.scratch_values() + kTurnedBytes; }

    // In every format a tile is lines of sixteen positions, and a position has four bytes of each.
    static constexpr size_t kLaneBytes = 4;

    const LatentTask& task_;
    const QueryRows<Cache> rows_;
    const size_t tile_bytes_;
};

template <class Cache>
void attend(const LatentTask& task) {
    const HeadDims dims{task.attention.head_dim, task.latent_dim};
    if (task.selected) {
        SelectionWalk<Cache>(task, dims).run();
    } else {
        AttentionWalk<Cache>(task.attention, dims).run();
    }
}

// The least bfloat16 that is no smaller.
uint16_t bf16_above(float x) { return static_cast<uint16_t>((float_bits(x) + 0xffff) >> 16); }

// Codes of a part of a key, from `first_dim` on; its scale.
template <class Codes>
uint16_t store_part(const float* part, int dim, int first_dim, int lane, uint8_t* tile) {
    float mixed[kMaxHeadDim];
    mix(part, dim, mixed);
    const uint16_t scale = bf16_above(Codes::scale_of(largest_of(mixed, padded_head(dim))));
    encode_key<Codes>(mixed, padded_head(dim), bf16_to_float(scale), lane,
                      tile + static_cast<size_t>(first_dim) * kKeyGroup);
    return scale;
}

template <class Codes>
void store_codes(const float* key, int latent_dim, int key_dim, int lane, uint8_t* tile) {
    auto* scales = reinterpret_cast<uint16_t*>(tile + static_cast<size_t>(padded_head(key_dim)) * kKeyGroup) + 2 * lane;
    scales[0] = store_part<Codes>(key, latent_dim, 0, lane, tile);
    scales[1] = store_part<Codes>(key + latent_dim, key_dim - latent_dim, latent_dim, lane, tile);
}

}  // namespace

void latent_attention(const LatentTask& task) {
    switch (task.attention.format) {
        case KvFormat::kF32:
            return attend<LatentFloats>(task);
        case KvFormat::kBf16:
            return attend<LatentHalves>(task);
        case KvFormat::kInt8:
            return attend<LatentCodes>(task);
        case KvFormat::kE4m3:
            return attend<LatentE4m3>(task);
    }
}

void store_latent(KvFormat format, const float* key, int latent_dim, int key_dim, int lane, uint8_t* tile) {
    switch (format) {
        case KvFormat::kInt8:
            return store_codes<Int8Codes>(key, latent_dim, key_dim, lane, tile);
        case KvFormat::kE4m3:
            return store_codes<E4m3Codes>(key, latent_dim, key_dim, lane, tile);
        default:
            return store_kv(format, key, nullptr, key_dim, lane, tile);
    }
}

}  // namespace tailrace::TAILRACE_ISA
