// The query rows of an attention task, and what they do with a key block: scores, weights, sums of values.
//
// Online softmax: a row keeps its largest score so far, and what it has summed up is faded when a larger one comes.
//
// A `Cache` says how keys and values lie in memory and how rows are multiplied with them:
//
//     kValueDims                    of values that all rows sum up before they look at the next
//     Weights                       of a row, for the values of one key block
//     columns<R>()                  vectors of a row's sum that R rows take at a time
//     find_block                    a key block as the others read it
//     query_bytes, store_query      a row's query as an operand
//     score                         dots of R queries with the keys of a block
//     store_weights                 what the scores have become, as operands
//     find_values                   where some dimensions of a block's values are
//     add_values                    sums of them
//     finish                        a row's sum, ready to be handed out
#pragma once

#include "kernels/attention_tile.h"

namespace tailrace::TAILRACE_ISA {

constexpr float kMinusInfinity = -__builtin_inff();

template <class Cache>
struct Scratch {
    using Weights = typename Cache::Weights;

    float* sums;       // [rows][dim]
    float* tops;       // [rows]
    float* fades;      // [rows], of the key block that is being met
    float* totals;     // [rows][16], added up at the end
    uint8_t* queries;  // [rows]
    Weights* weights;  // [rows]
    uint8_t* block;    // what find_block may put there
    uint8_t* values;   // what find_values may put there

    Scratch(void* memory, HeadDims dims)
        : sums(static_cast<float*>(memory)),
          tops(sums + kAttentionRows * dims.padded_value()),
          fades(tops + kAttentionRows),
          totals(fades + kAttentionRows),
          queries(reinterpret_cast<uint8_t*>(totals + kAttentionRows * kLanes)),
          weights(reinterpret_cast<Weights*>(queries + kAttentionRows * static_cast<size_t>(dims.padded_key()) * 4)),
          block(reinterpret_cast<uint8_t*>(weights) + kAttentionRows * kAttentionWeightBytes),
          values(block + widened_block_bytes(dims.key)) {
        static_assert(sizeof(Weights) <= kAttentionWeightBytes);
    }
};

// Neighbouring rows of the scratch and what they see. Rows of several sequences see whole blocks only.
struct Rows {
    int first, count;
    int position;  // of the first row
    int heads;
    int window;
    bool sees_all;

    // Keys of the block at `base` that row `row` of the scratch sees.
    KeyRange seen(int row, int base) const {
        if (sees_all) return {0, kKeyBlock};
        const int end = position + (row - first) / heads + 1 - base;
        return {window > 0 ? clamp(end - window) : 0, clamp(end)};
    }

  private:
    static int clamp(int n) { return n < 0 ? 0 : n > kKeyBlock ? kKeyBlock : n; }
};

// R rows that meet a key block together.
template <class Cache, int R>
struct RowTile {
    const Scratch<Cache>& scratch;
    const KeyBlock& keys;
    int row;
    HeadDims dims;
    KeyRange seen[R];

    RowTile(const Scratch<Cache>& scratch, const KeyBlock& keys, const Rows& rows, int row, HeadDims dims)
        : scratch(scratch), keys(keys), row(row), dims(dims) {
        for (int r = 0; r < R; ++r) seen[r] = rows.seen(row + r, keys.base);
    }

    void mask(Vec (&s)[R][kKeyGroups]) const {
        for (int r = 0; r < R; ++r) {
            if (seen[r].is_whole()) continue;
            for (int g = 0; g < kKeyGroups; ++g) s[r][g] = where_seen(seen[r], g, s[r][g], set1(kMinusInfinity));
        }
    }

    // Turns scores into weights; what is summed so far must be multiplied with the rows' fades.
    void weigh(Vec (&s)[R][kKeyGroups]) const {
        float* fade = scratch.fades + row;
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
            for (int g = 0; g < kKeyGroups; ++g) s[r][g] = exp2(s[r][g] - set1(base[r]));
            float* totals = scratch.totals + (row + r) * kLanes;
            store(totals, fma(load(totals), set1(fade[r]), (s[r][0] + s[r][1]) + (s[r][2] + s[r][3])));
        }
        Cache::store_weights(keys, dims, seen, s, scratch.weights + row);
    }

    void score() const {
        if (seen[R - 1].last == 0) return;
        Vec s[R][kKeyGroups];
        Cache::score(keys, scratch.queries + row * Cache::query_bytes(dims), dims, s);
        mask(s);
        weigh(s);
    }

    // Sums up some dimensions of the values.
    void add(const Values& values, ValueDims wanted) const {
        if (seen[R - 1].last == 0) return;
        constexpr int kColumns = Cache::template columns<R>() * kLanes;
        float* sums = scratch.sums + static_cast<size_t>(row) * dims.padded_value() + wanted.first;
        int d = 0;
        for (; d + kColumns <= wanted.count(); d += kColumns) add_columns<kColumns / kLanes>(values, d, sums + d);
        for (; d < wanted.count(); d += kLanes) add_columns<1>(values, d, sums + d);
    }

    template <int C>
    [[gnu::always_inline]] void add_columns(const Values& values, int first_dim, float* sums) const {
        const int dim = dims.padded_value();
        Vec acc[R][C];
        for (int r = 0; r < R; ++r) {
            const Vec fade = set1(scratch.fades[row + r]);
            for (int c = 0; c < C; ++c) acc[r][c] = load(sums + r * dim + c * kLanes) * fade;
        }
        Cache::add_values(values, scratch.weights + row, seen[R - 1].last, first_dim, acc);
        for (int r = 0; r < R; ++r) {
            for (int c = 0; c < C; ++c) store(sums + r * dim + c * kLanes, acc[r][c]);
        }
    }
};

// All rows of a task: sequence after sequence, token after token, head after head.
template <class Cache>
class QueryRows {
  public:
    QueryRows(const AttentionTask& task, HeadDims dims) : task_(task), dims_(dims), scratch_(task.scratch, dims) {}

    Rows of(int sequence) const {
        int first = 0;
        for (int i = 0; i < sequence; ++i) first += count(i);
        return {first, count(sequence), task_.sequences[sequence].position, task_.heads, task_.window, false};
    }

    Rows all() const {
        const Rows last = of(task_.num_sequences - 1);
        return {0, last.first + last.count, 0, task_.heads, 0, true};
    }

    uint8_t* scratch_values() const { return scratch_.values; }

    void load_queries() const {
        // exp2 instead of exp: its factor goes into the scale of the queries.
        const float scale = task_.scale * kLog2e;
        for (int n = 0; n < task_.num_sequences; ++n) {
            const float* q = task_.sequences[n].q;
            const Rows rows = of(n);
            for (int r = 0; r < rows.count; ++r) {
                const int row = rows.first + r;
                Cache::store_query(q + r / task_.heads * task_.q_stride + r % task_.heads * dims_.key, dims_, scale,
                                   scratch_.queries + row * Cache::query_bytes(dims_));
                for (int d = 0; d < dims_.value; d += kLanes) store(sums(row) + d, zero());
                scratch_.tops[row] = kMinusInfinity;
                store(scratch_.totals + row * kLanes, zero());
            }
        }
    }

    // First all scores, then the values.
    void attend(const KeyBlock& stored, const Rows& rows) const {
        const KeyBlock& keys = Cache::find_block(stored, dims_, scratch_.block);
        for_tiles(keys, rows, [](const auto& tile) { tile.score(); });
        const int dim = dims_.padded_value();
        for (int first = 0; first < dim; first += Cache::kValueDims) {
            const ValueDims wanted{first, dim - first < Cache::kValueDims ? dim : first + Cache::kValueDims};
            const Values values = Cache::find_values(keys, dims_, wanted, scratch_.values);
            for_tiles(keys, rows, [&](const auto& tile) { tile.add(values, wanted); });
        }
    }

    void store_result() const {
        for (int n = 0; n < task_.num_sequences; ++n) {
            const Rows rows = of(n);
            float* out = task_.sequences[n].out;
            for (int r = 0; r < rows.count; ++r) {
                store_row(rows.first + r, out + r / task_.heads * task_.out_stride + r % task_.heads * dims_.value);
            }
        }
    }

  private:
    int count(int sequence) const { return task_.sequences[sequence].num_tokens * task_.heads; }

    float* sums(int row) const { return scratch_.sums + static_cast<size_t>(row) * dims_.padded_value(); }

    // In tiles of about equal size.
    template <class Do>
    void for_tiles(const KeyBlock& keys, const Rows& rows, const Do& act) const {
        int row = rows.first, left = rows.count;
        for (int tiles = (left + kAttendRows - 1) / kAttendRows; tiles > 0; --tiles) {
            const int size = (left + tiles - 1) / tiles;
            for_tile<kAttendRows>(keys, rows, row, size, act);
            row += size;
            left -= size;
        }
    }

    // Of `size` rows, R at most.
    template <int R, class Do>
    [[gnu::always_inline]] void for_tile(const KeyBlock& keys, const Rows& rows, int row, int size,
                                         const Do& act) const {
        if (size == R) return act(RowTile<Cache, R>(scratch_, keys, rows, row, dims_));
        if constexpr (R > 1) for_tile<R - 1>(keys, rows, row, size, act);
    }

    void store_row(int row, float* out) const {
        float* sum_of = sums(row);
        Cache::finish(sum_of, dims_);
        const Vec total = set1(sum(load(scratch_.totals + row * kLanes)));
        for (int d = 0; d < dims_.value; d += kLanes) {
            const int left = dims_.value - d;
            store_first(out + d, load(sum_of + d) / total, left < kLanes ? left : kLanes);
        }
    }

    const AttentionTask& task_;
    const HeadDims dims_;
    const Scratch<Cache> scratch_;
};

}  // namespace tailrace::TAILRACE_ISA
