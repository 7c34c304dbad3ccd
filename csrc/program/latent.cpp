#include "program/latent.h"

#include <algorithm>

#include "program/rows.h"

namespace tailrace {

int LatentStoreStage::num_pieces(const StepView& step) const { return row_pieces(step, step.step.num_tokens); }

void LatentStoreStage::run(const Worker& worker, int piece) const {
    const auto [first, last] = share(worker.step.num_tokens, piece, num_pieces(worker));
    for (int row = first; row < last; ++row) {
        const RotaryHead rotary = rotary_head(worker, angles, row, angles.cols, is_interleaved);
        keep(worker, row, rotary);
        turn_queries(worker, row, rotary);
    }
}

void LatentStoreStage::keep(const Worker& worker, int row, const RotaryHead& rotary) const {
    const float* source = row_of(worker, latent, row);
    float* key = worker.scratch;
    worker.kernels.rms_norm(source, norm, dims.latent, eps, key);
    std::fill(key + dims.latent, key + dims.padded(), 0.0f);
    RotaryHead turned = rotary;
    turned.x = source + dims.latent;
    worker.kernels.rotate(turned, key + dims.padded());
    const int position = worker.position_of(row);
    worker.kernels.store_latent(cache.format, key, dims.padded(), cache.head_dim, position % kKeyGroup,
                                tile_of(cache, worker.blocks_of(worker.row_sequences[row]), position, 0));
}

void LatentStoreStage::turn_queries(const Worker& worker, int row, RotaryHead rotary) const {
    const int groups = dims.plain / kGroup;
    for (int head = 0; head < num_heads; ++head) {
        const float* source = row_of(worker, q, row) + head * (dims.plain + rotary.head_dim);
        float* query = row_of(worker, queries, row) + head * cache.head_dim;
        std::fill(query + dims.latent, query + dims.padded(), 0.0f);
        rotary.x = source + dims.plain;
        worker.kernels.rotate(rotary, query + dims.padded());
        if (!plain) continue;
        worker.kernels.quantize(source, rows_of(worker, *plain, worker.step.num_tokens), row, head * groups, groups,
                                kFineShareOfAttention);
    }
}

// Heads are cut into parts where there are too few groups of tokens for the threads, but not into so small ones that
// all would be busy with turning the same keys into values.
int LatentAttentionStage::head_parts(const StepView& step) const {
    constexpr int kFewestHeads = 8;
    const int groups = std::max<int>(static_cast<int>(step.query_groups.size()), 1);
    const int wanted = (4 * step.limits.num_threads + groups - 1) / groups;
    const int least = (num_heads + kAttentionRows - 1) / kAttentionRows;
    return std::clamp(wanted, least, std::max(least, num_heads / kFewestHeads));
}

int LatentAttentionStage::num_pieces(const StepView& step) const {
    return static_cast<int>(step.query_groups.size()) * head_parts(step);
}

void LatentAttentionStage::run(const Worker& worker, int piece) const {
    const int parts = head_parts(worker);
    // The last tile of a prompt sees most: begin with the longest work.
    const QueryGroup& group = worker.query_groups[(num_pieces(worker) - 1 - piece) / parts];
    const auto [first, last] = share(num_heads, piece % parts, parts);
    const Heads heads{first, last - first};
    if (sees_all(worker, group)) {
        attend(worker, group, heads);
    } else {
        for (int i = 0; i < group.num_tiles; ++i) {
            attend_selected(worker, worker.query_tiles[group.first_tile + i], heads);
        }
    }
    if (!quantized) return;
    for (int i = 0; i < group.num_tiles; ++i) quantize(worker, worker.query_tiles[group.first_tile + i], heads);
}

// Whether no row of the group has more positions than are selected.
bool LatentAttentionStage::sees_all(const Worker& worker, const QueryGroup& group) const {
    if (!selection) return true;
    const auto tiles = worker.query_tiles.begin() + group.first_tile;
    return std::all_of(tiles, tiles + group.num_tiles, [&](const QueryTile& tile) {
        return worker.position_of(tile.first_row + tile.num_tokens - 1) < selection->cols;
    });
}

void LatentAttentionStage::attend(const Worker& worker, const QueryGroup& group, Heads heads) const {
    AttentionSequence sequences[kAttentionRows];
    for (int i = 0; i < group.num_tiles; ++i) {
        sequences[i] = sequence(worker, worker.query_tiles[group.first_tile + i], heads);
    }
    worker.kernels.latent_attention(task(worker, sequences, group, heads));
}

// Each token alone: no two see the same positions.
void LatentAttentionStage::attend_selected(const Worker& worker, const QueryTile& tile, Heads heads) const {
    for (int row = tile.first_row; row < tile.first_row + tile.num_tokens; ++row) {
        const AttentionSequence alone = sequence(worker, {tile.sequence, row, 1}, heads);
        LatentTask one = task(worker, &alone, {0, 1, 0}, heads);
        one.num_selected = selection->cols;
        if (alone.position >= one.num_selected) {  // otherwise all are selected
            one.selected = reinterpret_cast<const int32_t*>(row_of(worker, *selection, row));
        }
        worker.kernels.latent_attention(one);
    }
}

AttentionSequence LatentAttentionStage::sequence(const Worker& worker, const QueryTile& tile, Heads heads) const {
    return {row_of(worker, queries, tile.first_row) + heads.first * cache.head_dim,
            row_of(worker, out, tile.first_row) + heads.first * latent_dim, tile.num_tokens,
            worker.position_of(tile.first_row), worker.blocks_of(tile.sequence)};
}

LatentTask LatentAttentionStage::task(const Worker& worker, const AttentionSequence* sequences, const QueryGroup& group,
                                      Heads heads) const {
    const AttentionTask attention{cache.format,
                                  sequences,
                                  group.num_tiles,
                                  group.shared_tokens,
                                  static_cast<size_t>(queries.cols),
                                  static_cast<size_t>(out.cols),
                                  heads.count,
                                  cache.head_dim,
                                  0,
                                  scale,
                                  cache.pool,
                                  cache.block_stride,
                                  cache.group_stride,
                                  cache.block_groups,
                                  worker.scratch};
    return {attention, latent_dim, nullptr, 0};
}

// Each head by itself: it is the input of a matrix of its own.
void LatentAttentionStage::quantize(const Worker& worker, const QueryTile& tile, Heads heads) const {
    const QuantizedRows rows = rows_of(worker, *quantized, worker.step.num_tokens);
    const int groups = latent_dim / kGroup;
    for (int row = tile.first_row; row < tile.first_row + tile.num_tokens; ++row) {
        for (int head = heads.first; head < heads.first + heads.count; ++head) {
            worker.kernels.quantize(row_of(worker, out, row) + head * latent_dim, rows, row, head * groups, groups,
                                    kFineShareOfAttention);
        }
    }
}

}  // namespace tailrace
