// Attention of a few tokens' query heads over one KV head's paged cache.
//
// Online softmax over key blocks of 64 positions that are anchored at position 0: which blocks a row meets, and in
// which order, depends on its own position alone. A row's masked positions add exact zeros. Rows of several sequences
// meet the blocks that these share together, which changes when a row meets a block but not what it does with it.
#include "kernels/attention_codes.h"
#include "kernels/attention_pairs.h"
#include "kernels/functions.h"

namespace tailrace::TAILRACE_ISA {

namespace {

constexpr float kMinusInfinity = -__builtin_inff();

template <class Cache>
struct Scratch {
    using Weights = typename Cache::Weights;

    float* sums;       // [rows][dim]
    float* tops;       // [rows]
    float* totals;     // [rows][16], added up at the end
    uint8_t* queries;  // [rows]
    Weights* weights;  // [kAttendRows]

    Scratch(void* memory, int dim)
        : sums(static_cast<float*>(memory)),
          tops(sums + kAttentionRows * dim),
          totals(tops + kAttentionRows),
          queries(reinterpret_cast<uint8_t*>(totals + kAttentionRows * kLanes)),
          weights(reinterpret_cast<Weights*>(queries + kAttentionRows * static_cast<size_t>(dim) * 4)) {
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

template <class Cache, int R>
struct RowTile {
    const Scratch<Cache>& scratch;
    const KeyBlock& keys;
    int row;
    int dim;
    KeyRange seen[R];

    RowTile(const Scratch<Cache>& scratch, const KeyBlock& keys, const Rows& rows, int row, int dim)
        : scratch(scratch), keys(keys), row(row), dim(dim) {
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
        Cache::store_weights(keys, dim, seen, s, scratch.weights);
    }

    template <int C>
    void add_values(int first_dim, const float (&fade)[R]) const {
        float* sums = scratch.sums + static_cast<size_t>(row) * dim + first_dim;
        Vec acc[R][C];
        for (int r = 0; r < R; ++r) {
            for (int c = 0; c < C; ++c) acc[r][c] = load(sums + r * dim + c * kLanes) * set1(fade[r]);
        }
        Cache::add_values(keys, scratch.weights, seen[R - 1].last, dim, first_dim, acc);
        for (int r = 0; r < R; ++r) {
            for (int c = 0; c < C; ++c) store(sums + r * dim + c * kLanes, acc[r][c]);
        }
    }

    void run() const {
        if (seen[R - 1].last == 0) return;
        Vec s[R][kKeyGroups];
        float fade[R];
        Cache::score(keys, scratch.queries + row * Cache::query_bytes(dim), dim, s);
        mask(s);
        weigh(s, fade);
        constexpr int kColumns = Cache::template columns<R>();
        int d = 0;
        for (; d + kColumns * kLanes <= dim; d += kColumns * kLanes) add_values<kColumns>(d, fade);
        for (; d < dim; d += kLanes) add_values<1>(d, fade);
    }
};

template <class Cache>
class Attention {
  public:
    explicit Attention(const AttentionTask& task)
        : task_(task), dim_(padded_head(task.head_dim)), scratch_(task.scratch, dim_) {}

    void run() {
        const auto [first, last] = shared_blocks();
        load_queries();
        for (int n = 0; n < task_.num_sequences; ++n) walk(n, 0, first);
        for (int index = first; index < last; ++index) visit(task_.sequences[0], all_rows(), index);
        for (int n = 0; n < task_.num_sequences; ++n) walk(n, last, last_block(task_.sequences[n]) + 1);
        flush();
        store_result();
    }

  private:
    // Key blocks [first, last).
    struct Blocks {
        int first, last;
    };

    // A key block that some rows are about to meet.
    struct Visit {
        KeyBlock keys;
        Rows rows;
    };

    static int last_block(const AttentionSequence& sequence) {
        return (sequence.position + sequence.num_tokens - 1) / kKeyBlock;
    }

    int first_block(const AttentionSequence& sequence) const {
        const int first = task_.window > 0 ? sequence.position - task_.window + 1 : 0;
        return (first > 0 ? first : 0) / kKeyBlock;
    }

    // The blocks that lie in the same memory for all sequences and that every row sees whole.
    Blocks shared_blocks() const {
        Blocks blocks{0, task_.shared_tokens / kKeyBlock};
        for (int n = 0; n < task_.num_sequences; ++n) {
            const AttentionSequence& sequence = task_.sequences[n];
            const int last_first = sequence.position + sequence.num_tokens - task_.window;  // seen by the last row
            const int whole = (sequence.position + 1) / kKeyBlock;
            if (task_.window > 0 && last_first > blocks.first * kKeyBlock) {
                blocks.first = (last_first + kKeyBlock - 1) / kKeyBlock;
            }
            if (whole < blocks.last) blocks.last = whole;
        }
        return blocks.first < blocks.last ? blocks : Blocks{0, 0};
    }

    int num_rows(int n) const { return task_.sequences[n].num_tokens * task_.heads; }

    Rows rows_of(int n) const {
        int first = 0;
        for (int i = 0; i < n; ++i) first += num_rows(i);
        return {first, num_rows(n), task_.sequences[n].position, task_.heads, task_.window, false};
    }

    Rows all_rows() const {
        const Rows last = rows_of(task_.num_sequences - 1);
        return {0, last.first + last.count, 0, task_.heads, 0, true};
    }

    // Blocks [first, last) of one sequence, from the first that it sees.
    void walk(int n, int first, int last) {
        const AttentionSequence& sequence = task_.sequences[n];
        const Rows rows = rows_of(n);
        const int seen = first_block(sequence);
        for (int index = first > seen ? first : seen; index < last; ++index) visit(sequence, rows, index);
    }

    // Computes the visit before this one, now that it is known what to fetch meanwhile.
    void visit(const AttentionSequence& sequence, const Rows& rows, int index) {
        Visit visit{{{}, {}, index * kKeyBlock}, rows};
        const int last_position = sequence.position + sequence.num_tokens - 1;
        for (int g = 0; g < kKeyGroups; ++g) {
            // Groups past the end are masked; they are read from the first one, which exists.
            const bool exists = visit.keys.base + g * kKeyGroup <= last_position;
            visit.keys.groups[g] = group_of(sequence, index * kKeyGroups + (exists ? g : 0));
        }
        if (has_pending_) attend(pending_, visit.keys);
        pending_ = visit;
        has_pending_ = true;
    }

    void flush() { attend(pending_, pending_.keys); }

    const uint8_t* group_of(const AttentionSequence& sequence, int group) const {
        return task_.pool + sequence.blocks[group / task_.block_groups] * task_.block_stride +
               group % task_.block_groups * task_.group_stride;
    }

    void attend(Visit& visit, const KeyBlock& next) const {
        for (int g = 0; g < kKeyGroups; ++g) visit.keys.next[g] = next.groups[g];
        const Rows& rows = visit.rows;
        const int end = rows.first + rows.count;
        for (int row = rows.first; row < end; row += kAttendRows) {
            attend_rows(visit, row, end - row < kAttendRows ? end - row : kAttendRows);
        }
    }

    void attend_rows(const Visit& visit, int row, int count) const {
        switch (count) {
            case 1:
                return RowTile<Cache, 1>(scratch_, visit.keys, visit.rows, row, dim_).run();
            case 2:
                return RowTile<Cache, 2>(scratch_, visit.keys, visit.rows, row, dim_).run();
#if defined(__AVX512F__)
            case 3:
                return RowTile<Cache, 3>(scratch_, visit.keys, visit.rows, row, dim_).run();
            case 4:
                return RowTile<Cache, 4>(scratch_, visit.keys, visit.rows, row, dim_).run();
            case 5:
                return RowTile<Cache, 5>(scratch_, visit.keys, visit.rows, row, dim_).run();
            default:
                return RowTile<Cache, 6>(scratch_, visit.keys, visit.rows, row, dim_).run();
#endif
        }
    }

    void load_queries() const {
        // exp2 instead of exp: its factor goes into the scale of the queries.
        const float scale = task_.scale * kLog2e;
        for (int n = 0; n < task_.num_sequences; ++n) {
            const float* q = task_.sequences[n].q;
            const Rows rows = rows_of(n);
            for (int r = 0; r < rows.count; ++r) {
                const int row = rows.first + r;
                Cache::store_query(q + r / task_.heads * task_.q_stride + r % task_.heads * task_.head_dim,
                                   task_.head_dim, scale, scratch_.queries + row * Cache::query_bytes(dim_));
                float* sums = scratch_.sums + static_cast<size_t>(row) * dim_;
                for (int d = 0; d < dim_; d += kLanes) store(sums + d, zero());
                scratch_.tops[row] = kMinusInfinity;
                store(scratch_.totals + row * kLanes, zero());
            }
        }
    }

    void store_result() const {
        for (int n = 0; n < task_.num_sequences; ++n) {
            const Rows rows = rows_of(n);
            for (int r = 0; r < rows.count; ++r) {
                float* out =
                    task_.sequences[n].out + r / task_.heads * task_.out_stride + r % task_.heads * task_.head_dim;
                store_row(rows.first + r, out);
            }
        }
    }

    void store_row(int row, float* out) const {
        const float* sums = scratch_.sums + static_cast<size_t>(row) * dim_;
        const Vec total = set1(sum(load(scratch_.totals + row * kLanes)));
        for (int d = 0; d < task_.head_dim; d += kLanes) {
            const int left = task_.head_dim - d;
            store_first(out + d, load(sums + d) / total, left < kLanes ? left : kLanes);
        }
    }

    const AttentionTask& task_;
    const int dim_;
    const Scratch<Cache> scratch_;
    Visit pending_{};
    bool has_pending_ = false;
};

}  // namespace

void attention(const AttentionTask& task) {
    switch (task.format) {
        case KvFormat::kF32:
            return Attention<PairCache<FloatPairs>>(task).run();
        case KvFormat::kBf16:
            return Attention<PairCache<HalfPairs>>(task).run();
        case KvFormat::kInt8:
            return Attention<CodeCache>(task).run();
    }
}

}  // namespace tailrace::TAILRACE_ISA
