// Attention of a few tokens' query heads over one KV head's paged cache.
//
// Online softmax over key blocks of 64 positions that are anchored at position 0: which blocks a row meets, and in
// which order, depends on its own position alone. A row's masked positions add exact zeros.
#include "kernels/functions.h"
#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

namespace {

constexpr int kKeyBlock = 64;
constexpr int kKeyGroups = kKeyBlock / kKeyGroup;
constexpr float kMinusInfinity = -__builtin_inff();

#if defined(__AVX512F__)
constexpr int kAttendRows = 6;  // x 4 accumulators: 24 of 32 registers
#else
constexpr int kAttendRows = 2;
#endif

struct FloatPair {
    float even, odd;
};

TAILRACE_INLINE void store_pairs(FloatPair* out, Vec x) { store(reinterpret_cast<float*>(out), x); }

// A cache of float32: a pair of values is two vectors.
struct FloatCache {
    static constexpr size_t kValueBytes = 4;
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

// A cache of bfloat16 where a pair is the operand of one instruction; queries and weights are rounded alike.
struct HalfCache {
    static constexpr size_t kValueBytes = 2;
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

struct HalfCache {
    static constexpr size_t kValueBytes = 2;
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

template <class Cache>
struct Scratch {
    using Operand = typename Cache::Operand;

    Operand* queries;  // [rows][dim / 2]
    float* sums;       // [rows][dim]
    float* tops;       // [rows]
    float* totals;     // [rows][16], added up at the end
    Operand* weights;  // [kAttendRows][32]

    Scratch(void* memory, int dim) {
        auto* p = static_cast<float*>(memory);
        sums = p;
        p += kAttentionRows * dim;
        queries = reinterpret_cast<Operand*>(p);
        p += kAttentionRows * dim;
        weights = reinterpret_cast<Operand*>(p);
        p += kAttendRows * kKeyBlock;
        tops = p;
        totals = p + kAttentionRows;
    }
};

// The four groups of 16 positions that a key block is read from.
struct KeyBlock {
    const uint8_t* groups[kKeyGroups];
    int base;  // position of the first key

    KeyBlock(const AttentionTask& task, int index, int last_position) : base(index * kKeyBlock) {
        for (int g = 0; g < kKeyGroups; ++g) {
            // Groups past the end are masked; they are read from the first one, which exists.
            const int group = base + g * kKeyGroup <= last_position ? index * kKeyGroups + g : index * kKeyGroups;
            groups[g] = task.pool + task.blocks[group / task.block_groups] * task.block_stride +
                        group % task.block_groups * task.group_stride;
        }
    }
};

TAILRACE_INLINE int clamp_lane(int n) { return n < 0 ? 0 : n > kLanes ? kLanes : n; }

template <class Cache, int R>
struct RowTile {
    const AttentionTask& task;
    const Scratch<Cache>& scratch;
    const KeyBlock& keys;
    int row;
    int dim;

    int position_of(int r) const { return task.position + (row + r) / task.heads; }

    void score(Vec (&s)[R][kKeyGroups]) const {
        for (int r = 0; r < R; ++r) {
            for (int g = 0; g < kKeyGroups; ++g) s[r][g] = zero();
        }
        const auto* q = scratch.queries + static_cast<size_t>(row) * (dim / 2);
        constexpr size_t kPair = kLanes * 2 * Cache::kValueBytes;
        for (int d = 0; d < dim / 2; ++d) {
            for (int g = 0; g < kKeyGroups; ++g) {
                for (int r = 0; r < R; ++r) {
                    s[r][g] = Cache::step(s[r][g], keys.groups[g] + d * kPair, q[r * (dim / 2) + d]);
                }
            }
        }
    }

    void mask(Vec (&s)[R][kKeyGroups]) const {
        for (int r = 0; r < R; ++r) {
            const int last = position_of(r) + 1 - keys.base;
            const int first = task.window > 0 ? last - task.window : 0;
            if (first <= 0 && last >= kKeyBlock) continue;
            for (int g = 0; g < kKeyGroups; ++g) {
                const int lane = g * kKeyGroup;
                s[r][g] =
                    where_between(clamp_lane(first - lane), clamp_lane(last - lane), s[r][g], set1(kMinusInfinity));
            }
        }
    }

    // Turns scores into weights; what is summed so far must be multiplied with `fade`.
    void weigh(Vec (&s)[R][kKeyGroups], float (&fade)[R]) const {
        float base[R];
        for (int r = 0; r < R; ++r) {
            const float old_top = scratch.tops[row + r];
            const float block_top = largest(max(max(s[r][0], s[r][1]), max(s[r][2], s[r][3])));
            const float top = old_top > block_top ? old_top : block_top;
            // A row that has seen nothing yet has no largest score to take away.
            base[r] = top == kMinusInfinity ? 0.0f : top;
            fade[r] = 1.0f;
            if (top != old_top) {
                float lane[kLanes];
                store(lane, exp2(set1(old_top) - set1(base[r])));
                fade[r] = lane[0];
            }
            scratch.tops[row + r] = top;
        }
        for (int r = 0; r < R; ++r) {
            for (int g = 0; g < kKeyGroups; ++g) {
                s[r][g] = exp2(s[r][g] - set1(base[r]));
                store_pairs(scratch.weights + r * (kKeyBlock / 2) + g * (kKeyGroup / 2), s[r][g]);
            }
            float* totals = scratch.totals + (row + r) * kLanes;
            store(totals, fma(load(totals), set1(fade[r]), (s[r][0] + s[r][1]) + (s[r][2] + s[r][3])));
        }
    }

    template <int C>
    void add_values(int first_dim, const float (&fade)[R]) const {
        constexpr size_t kPair = kLanes * 2 * Cache::kValueBytes;
        const size_t row_bytes = static_cast<size_t>(dim) * 2 * Cache::kValueBytes;
        const size_t values = kv_tile_bytes(dim, Cache::kValueBytes) + first_dim * 2 * Cache::kValueBytes;
        const int limit = position_of(R - 1) + 1 - keys.base;
        const int num_keys = limit < kKeyBlock ? limit : kKeyBlock;
        float* sums = scratch.sums + static_cast<size_t>(row) * dim + first_dim;
        Vec acc[R][C];
        for (int r = 0; r < R; ++r) {
            for (int c = 0; c < C; ++c) acc[r][c] = load(sums + r * dim + c * kLanes) * set1(fade[r]);
        }
        int pair = 0;
        for (; pair < num_keys / 2; ++pair) {
            const uint8_t* v = keys.groups[pair / 8] + values + pair % 8 * row_bytes;
            for (int r = 0; r < R; ++r) {
                const auto x = scratch.weights[r * (kKeyBlock / 2) + pair];
                for (int c = 0; c < C; ++c) acc[r][c] = Cache::step(acc[r][c], v + c * kPair, x);
            }
        }
        if (num_keys % 2) {  // the partner of the last position may never have been written
            const uint8_t* v = keys.groups[pair / 8] + values + pair % 8 * row_bytes;
            for (int r = 0; r < R; ++r) {
                const auto x = scratch.weights[r * (kKeyBlock / 2) + pair];
                for (int c = 0; c < C; ++c) acc[r][c] = Cache::step_even(acc[r][c], v + c * kPair, x);
            }
        }
        for (int r = 0; r < R; ++r) {
            for (int c = 0; c < C; ++c) store(sums + r * dim + c * kLanes, acc[r][c]);
        }
    }

    void run() const {
        if (position_of(R - 1) < keys.base) return;
        Vec s[R][kKeyGroups];
        float fade[R];
        score(s);
        mask(s);
        weigh(s, fade);
        int d = 0;
        for (; d + 64 <= dim; d += 64) add_values<4>(d, fade);
        for (; d < dim; d += kLanes) add_values<1>(d, fade);
    }
};

template <class Cache>
void attend_rows(const AttentionTask& task, const Scratch<Cache>& scratch, const KeyBlock& keys, int row, int rows,
                 int dim) {
    switch (rows) {
        case 1:
            return RowTile<Cache, 1>{task, scratch, keys, row, dim}.run();
        case 2:
            return RowTile<Cache, 2>{task, scratch, keys, row, dim}.run();
#if defined(__AVX512F__)
        case 3:
            return RowTile<Cache, 3>{task, scratch, keys, row, dim}.run();
        case 4:
            return RowTile<Cache, 4>{task, scratch, keys, row, dim}.run();
        case 5:
            return RowTile<Cache, 5>{task, scratch, keys, row, dim}.run();
        default:
            return RowTile<Cache, 6>{task, scratch, keys, row, dim}.run();
#endif
    }
}

template <class Cache>
void load_queries(const AttentionTask& task, const Scratch<Cache>& scratch, int dim) {
    // exp2 instead of exp: its factor goes into the scale of the queries.
    const Vec scale = set1(task.scale * kLog2e);
    for (int row = 0; row < task.num_tokens * task.heads; ++row) {
        const float* q = task.q + row / task.heads * task.q_stride + row % task.heads * task.head_dim;
        auto* out = scratch.queries + static_cast<size_t>(row) * (dim / 2);
        for (int d = 0; d < dim; d += kLanes) {
            const int left = task.head_dim - d;
            store_pairs(out + d / 2, (left >= kLanes ? load(q + d) : load_first(q + d, left)) * scale);
        }
        for (int d = 0; d < dim; d += kLanes) store(scratch.sums + static_cast<size_t>(row) * dim + d, zero());
        scratch.tops[row] = kMinusInfinity;
        store(scratch.totals + row * kLanes, zero());
    }
}

template <class Cache>
void store_result(const AttentionTask& task, const Scratch<Cache>& scratch, int dim) {
    for (int row = 0; row < task.num_tokens * task.heads; ++row) {
        float* out = task.out + row / task.heads * task.out_stride + row % task.heads * task.head_dim;
        const float* sums = scratch.sums + static_cast<size_t>(row) * dim;
        const Vec total = set1(sum(load(scratch.totals + row * kLanes)));
        for (int d = 0; d < task.head_dim; d += kLanes) {
            const int left = task.head_dim - d;
            store_first(out + d, load(sums + d) / total, left < kLanes ? left : kLanes);
        }
    }
}

template <class Cache>
void attend(const AttentionTask& task) {
    const int dim = padded_head(task.head_dim);
    const Scratch<Cache> scratch(task.scratch, dim);
    load_queries(task, scratch, dim);
    const int rows = task.num_tokens * task.heads;
    const int last_position = task.position + task.num_tokens - 1;
    const int first_position = task.window > 0 ? task.position - task.window + 1 : 0;
    for (int index = (first_position > 0 ? first_position : 0) / kKeyBlock; index <= last_position / kKeyBlock;
         ++index) {
        const KeyBlock keys(task, index, last_position);
        for (int row = 0; row < rows; row += kAttendRows) {
            attend_rows(task, scratch, keys, row, rows - row < kAttendRows ? rows - row : kAttendRows, dim);
        }
    }
    store_result(task, scratch, dim);
}

}  // namespace

void attention_bf16(const AttentionTask& task) { attend<HalfCache>(task); }

void attention_f32(const AttentionTask& task) { attend<FloatCache>(task); }

}  // namespace tailrace::TAILRACE_ISA
