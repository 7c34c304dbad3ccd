// The query rows of an attention task, and what they do with a key block: scores, weights, sums of values.
//
// Online softmax: a row keeps its largest score so far, and what it has summed up is faded when a larger one comes.
//
// A `Cache` says how keys and values lie in memory and how rows are multiplied with them:
//
//     Weights                            of a row, for the values of one key block
//     columns<R>()                       vectors of a row's sum that R rows take at a time
//     query_bytes, store_query           a row's query as an operand
//     score                              dots of R queries with the keys of a block
//     find_values                        where the values of a block are
//     store_weights, add_values          sums of a block's values
//     finish                             a row's sum, ready to be handed out
#pragma once

#include "kernels/attention_tile.h"

namespace tailrace::TAILRACE_ISA {

constexpr float kMinusInfinity = -__builtin_inff();

template <class Cache>
struct Scratch {
    using Weights = typename Cache::Weights;

    float* sums;       // [rows][dim]
    float* tops;       // [rows]
    float* totals;     // [rows][16], added up at the end
    uint8_t* queries;  // [rows]
    Weights* weights;  // [kAttendRows]
    uint8_t* values;   // what find_values may put there

    Scratch(void* memory, HeadDims dims)
        : sums(static_cast<float*>(memory)),
          tops(sums + kAttentionRows * dims.padded_value()),
          totals(tops + kAttentionRows),
          queries(reinterpret_cast<uint8_t*>(totals + kAttentionRows * kLanes)),
          weights(reinterpret_cast<Weights*>(queries + kAttentionRows * static_cast<size_t>(dims.padded_key()) * 4)),
          values(reinterpret_cast<uint8_t*>(weights) + kAttentionWeightBytes) {
        static_assert(sizeof(Weights) * kAttendRows <= kAttentionWeightBytes);
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
            for (int g = 0; g < kKeyGroups; ++g) s[r][g] = exp2(s[r][g] - set1(base[r]));
            float* totals = scratch.totals + (row + r) * kLanes;
            store(totals, fma(load(totals), set1(fade[r]), (s[r][0] + s[r][1]) + (s[r][2] + s[r][3])));
        }
        Cache::store_weights(keys, dims, seen, s, scratch.weights);
    }

    template <int C>
    void add_values(int first_dim, const float (&fade)[R]) const {
        const int dim = dims.padded_value();
        float* sums = scratch.sums + static_cast<size_t>(row) * dim + first_dim;
        Vec acc[R][C];
        for (int r = 0; r < R; ++r) {
            for (int c = 0; c < C; ++c) acc[r][c] = load(sums + r * dim + c * kLanes) * set1(fade[r]);
        }
        Cache::add_values(keys, scratch.weights, seen[R - 1].last, dims, first_dim, acc);
        for (int r = 0; r < R; ++r) {
            for (int c = 0; c < C; ++c) store(sums + r * dim + c * kLanes, acc[r][c]);
        }
    }

    void run() const {
        if (seen[R - 1].last == 0) return;
        Vec s[R][kKeyGroups];
        float fade[R];
        Cache::score(keys, scratch.queries + row * Cache::query_bytes(dims), dims, s);
        mask(s);
        weigh(s, fade);
        constexpr int kColumns = Cache::template columns<R>();
        const int dim = dims.padded_value();
        int d = 0;
        for (; d + kColumns * kLanes <= dim; d += kColumns * kLanes) add_values<kColumns>(d, fade);
        for (; d < dim; d += kLanes) add_values<1>(d, fade);
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

    void attend(KeyBlock& keys, const Rows& rows) const {
        Cache::find_values(keys, dims_, scratch_.values);
        const int end = rows.first + rows.count;
        for (int row = rows.first; row < end; row += kAttendRows) {
            attend(keys, rows, row, end - row < kAttendRows ? end - row : kAttendRows);
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

    void attend(const KeyBlock& keys, const Rows& rows, int row, int num_rows) const {
        switch (num_rows) {
            case 1:
                return RowTile<Cache, 1>(scratch_, keys, rows, row, dims_).run();
            case 2:
                return RowTile<Cache, 2>(scratch_, keys, rows, row, dims_).run();
#if defined(__AVX512F__)
            case 3:
                return RowTile<Cache, 3>(scratch_, keys, rows, row, dims_).run();
            case 4:
                return RowTile<Cache, 4>(scratch_, keys, rows, row, dims_).run();
            case 5:
                return RowTile<Cache, 5>(scratch_, keys, rows, row, dims_).run();
            default:
                return RowTile<Cache, 6>(scratch_, keys, rows, row, dims_).run();
#endif
        }
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
