#include "program/index.h"

#include <algorithm>
#include <numeric>

#include "program/rows.h"

namespace tailrace {

namespace {

int blocks_over(int num_positions) { return (num_positions + kKeyBlock - 1) / kKeyBlock; }

// Of all positions that a sequence can have, in whole key blocks.
size_t score_floats(const Limits& limits) {
    return static_cast<size_t>(blocks_over(limits.max_blocks_per_sequence * limits.block_tokens)) * kKeyBlock;
}

}  // namespace

int IndexKeyStage::num_pieces(const StepView& step) const { return row_pieces(step, step.step.num_tokens); }

void IndexKeyStage::run(const Worker& worker, int piece) const {
    const auto [first, last] = share(worker.step.num_tokens, piece, num_pieces(worker));
    float* key = worker.scratch;
    for (int row = first; row < last; ++row) {
        worker.kernels.layer_norm(row_of(worker, k, row), norm, norm_bias, cache.head_dim, eps, key);
        RotaryHead head = rotary_head(worker, angles, row, cache.head_dim, is_interleaved);
        head.x = key;
        worker.kernels.rotate(head, key);
        const int position = worker.position_of(row);
        uint8_t* tile = tile_of(cache, worker.blocks_of(worker.row_sequences[row]), position, 0);
        worker.kernels.store_kv(cache.format, key, nullptr, cache.head_dim, position % kKeyGroup, tile);
    }
}

// As many rows as decode at once, and as many as threads want to share out.
ScoreRows::ScoreRows(const Limits& limits)
    : count_(std::min(std::max(limits.max_sequences, 4 * limits.num_threads), limits.max_tokens)),
      stride_(score_floats(limits)),
      memory_(count_ * stride_ * sizeof(float)) {}

size_t PositionIndex::working_floats(const Limits& limits) const {
    const size_t scoring = query_floats() + index_scratch_bytes(num_heads, cache.head_dim) / sizeof(float);
    return std::max(scoring, select_scratch_floats(score_floats(limits), top_k));
}

size_t PositionIndex::scratch_bytes(const Limits& limits) const {
    return (working_floats(limits) + score_floats(limits)) * sizeof(float);
}

float* PositionIndex::own_scores(const Worker& worker) const { return worker.scratch + working_floats(worker.limits); }

int PositionIndex::num_scored(const StepView& step, int row) const {
    const int num_positions = step.position_of(row) + 1;
    return num_positions > top_k ? num_positions : 0;
}

void PositionIndex::score(const Worker& worker, int row, int first, int last, float* scores) const {
    float* queries = worker.scratch;
    turn(worker, row, queries);
    worker.kernels.index_scores({cache.format, queries, row_of(worker, head_weights, row), num_heads, cache.head_dim,
                                 first, last, worker.blocks_of(worker.row_sequences[row]), cache.pool,
                                 cache.block_stride, cache.group_stride, cache.block_groups, scores,
                                 queries + query_floats()});
}

void PositionIndex::turn(const Worker& worker, int row, float* queries) const {
    RotaryHead head = rotary_head(worker, angles, row, cache.head_dim, is_interleaved);
    head.x = row_of(worker, q, row);
    for (int h = 0; h < num_heads; ++h, head.x += cache.head_dim) {
        worker.kernels.rotate(head, queries + h * cache.head_dim);
    }
}

int IndexScoreStage::num_blocks(const StepView& step) const {
    int blocks = 0;
    for (int row = 0; row < step.step.num_tokens; ++row) blocks += blocks_over(index.num_scored(step, row));
    return blocks;
}

int IndexScoreStage::num_pieces(const StepView& step) const {
    constexpr int kPieceBlocks = 16;  // enough that what a piece does for its queries does not count
    if (!index.is_ahead(step)) return 0;
    return std::min((num_blocks(step) + kPieceBlocks - 1) / kPieceBlocks, 4 * step.limits.num_threads);
}

// Key blocks are counted through all rows: a piece is its share of them, whosever they are.
void IndexScoreStage::run(const Worker& worker, int piece) const {
    const auto [first, last] = share(num_blocks(worker), piece, num_pieces(worker));
    int base = 0;
    for (int row = 0; row < worker.step.num_tokens && base < last; ++row) {
        const int num_positions = index.num_scored(worker, row), blocks = blocks_over(num_positions);
        const int begin = std::max(first - base, 0) * kKeyBlock;
        const int end = std::min((last - base) * kKeyBlock, num_positions);
        if (begin < end) index.score(worker, row, begin, end, index.rows->row(row) + begin);
        base += blocks;
    }
}

int SelectStage::num_pieces(const StepView& step) const { return step.step.num_tokens; }

void SelectStage::run(const Worker& worker, int piece) const {
    const int row = worker.step.num_tokens - 1 - piece;  // the last of a prompt sees most: begin with the longest work
    auto* ids = reinterpret_cast<int32_t*>(row_of(worker, out, row));
    const int found = select(worker, row, ids);
    std::fill(ids + found, ids + index.top_k, -1);
}

int SelectStage::select(const Worker& worker, int row, int32_t* ids) const {
    const int num_positions = index.num_scored(worker, row);
    if (num_positions == 0) {
        const int seen = worker.position_of(row) + 1;
        std::iota(ids, ids + seen, 0);
        return seen;
    }
    float* scores = index.is_ahead(worker) ? index.rows->row(row) : index.own_scores(worker);
    if (!index.is_ahead(worker)) index.score(worker, row, 0, num_positions, scores);
    return worker.kernels.select(scores, num_positions, index.top_k, worker.scratch, ids);
}

}  // namespace tailrace
