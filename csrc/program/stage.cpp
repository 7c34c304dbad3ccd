#include "program/stage.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "program/rows.h"

namespace tailrace {

namespace {

// Keeps the better of what is there and what comes.
void offer(std::atomic<Candidate>& best, Candidate other) {
    Candidate seen = best.load(std::memory_order_relaxed);
    while (other < seen && !best.compare_exchange_weak(seen, other, std::memory_order_relaxed)) {
    }
}

}  // namespace

size_t quantized_bytes(int max_rows, int cols) { return QuantizedLayout(max_rows, cols).num_bytes(); }

int EmbedStage::num_pieces(const StepView& step) const { return row_pieces(step, step.step.num_tokens); }

void EmbedStage::run(const Worker& worker, int piece) const {
    const auto [first, last] = share(worker.step.num_tokens, piece, num_pieces(worker));
    for (int row = first; row < last; ++row) {
        worker.kernels.embed(table->format, table->tiles.data(), worker.step.token_ids[row], table->inputs,
                             row_of(worker, out, row));
    }
}

bool NormStage::is_private(const StepView& step) const {
    return !out && quantized && tailrace::is_private(*quantized, count(step, rows));
}

int NormStage::num_pieces(const StepView& step) const {
    return is_private(step) ? 0 : row_pieces(step, count(step, rows));
}

void NormStage::run(const Worker& worker, int piece) const {
    const auto [first, last] = share(count(worker, rows), piece, num_pieces(worker));
    run_rows(worker, first, last);
}

void NormStage::prepare(const Worker& worker) const {
    if (is_private(worker)) run_rows(worker, 0, count(worker, rows));
}

void NormStage::run_rows(const Worker& worker, int first, int last) const {
    for (int row = first; row < last; ++row) {
        float* target = out ? row_of(worker, *out, row) : worker.scratch;
        worker.kernels.rms_norm(row_of(worker, x, row), weight, x.cols, eps, target);
        if (quantized) {
            quantize_row(worker, target, rows_of(worker, *quantized, count(worker, rows)), row, fine_share(rows));
        }
    }
}

int QuantizeStage::num_pieces(const StepView& step) const { return row_pieces(step, count(step, rows)); }

void QuantizeStage::run(const Worker& worker, int piece) const {
    const int num_rows = count(worker, rows);
    const auto [first, last] = share(num_rows, piece, num_pieces(worker));
    for (int row = first; row < last; ++row) {
        quantize_row(worker, row_of(worker, x, row), rows_of(worker, out, num_rows), row, fine_share(rows));
    }
}

int SwiGluStage::num_pieces(const StepView& step) const { return row_pieces(step, count(step, rows)); }

void SwiGluStage::run(const Worker& worker, int piece) const {
    const int num_rows = count(worker, rows);
    const auto [first, last] = share(num_rows, piece, num_pieces(worker));
    for (int row = first; row < last; ++row) {
        float* target = out ? row_of(worker, *out, row) : worker.scratch;
        const float* gate = row_of(worker, x, row);
        worker.kernels.swiglu(gate, gate + cols, cols, target);
        if (quantized) {
            quantize_row(worker, target, rows_of(worker, *quantized, num_rows), row, kFineShareOfGate);
        }
    }
}

void GemmStage::add(const Matrix& matrix, int first_input, int column) {
    parts.push_back({matrix.format, first_input, matrix.inputs, matrix.tiles});
    for (Tile& tile : parts.back().tiles) tile.column += column;
    num_tiles += static_cast<int>(matrix.tiles.size());
    num_bytes += matrix.tiles.size() * tile_bytes(matrix.format, matrix.inputs);
}

void GemmStage::run_tiles(const Worker& worker, RowRange range, Range wanted, float* out_rows, size_t stride) const {
    const GemmOutput target{out_rows, stride, bias.empty() ? nullptr : bias.data(),
                            residual ? row_of(worker, *residual, 0) : nullptr,
                            residual ? static_cast<size_t>(residual->cols) : 0};
    int base = 0;  // number of the part's first tile
    for (const Part& part : parts) {
        const int size = static_cast<int>(part.tiles.size());
        const int first = std::max(wanted.first - base, 0), last = std::min(wanted.last - base, size);
        base += size;
        if (first >= last) continue;
        const Tile* tiles = part.tiles.data() + first;
        if (is_quantized(part.format)) {
            const QuantizedRows all = rows_of(worker, *quantized, count(worker, rows));
            worker.kernels.gemm_quantized(part.format, columns_of(all, part.first_input, part.inputs), range.first,
                                          range.count, tiles, last - first, target);
        } else {
            worker.kernels.gemm_float(part.format, row_of(worker, *x, 0) + part.first_input, x->cols, part.inputs,
                                      range.first, range.count, tiles, last - first, target);
        }
    }
}

// Logits that only the best token is wanted of never leave the cache.
void GemmStage::pick_best(const Worker& worker, RowRange range, Range tiles) const {
    const int at_once = std::max(static_cast<int>(kScratchFloats) / (kTile * range.count), 1);
    for (int first = tiles.first; first < tiles.last; first += at_once) {
        const int last = std::min(first + at_once, tiles.last);
        const int column = first * kTile, cols = std::min(last * kTile, out.cols) - column;
        // Row and column numbers count from the first of all, the scratch from the first of these.
        run_tiles(worker, range, {first, last}, worker.scratch - static_cast<ptrdiff_t>(range.first) * cols - column,
                  cols);
        for (int i = 0; i < range.count; ++i) {
            const float* logits = worker.scratch + static_cast<size_t>(i) * cols;
            const int best = worker.kernels.arg_max(logits, cols);
            offer(worker.bests[range.first + i], candidate(logits[best], column + best));
        }
    }
}

int GemmStage::tile_parts(const StepView& step) const {
    const int num_rows = count(step, rows);
    if (num_rows <= kFewRows) return stream_pieces(step, num_bytes, num_tiles);
    // Small enough that threads end together, large enough that taking one costs nothing.
    const int least = num_rows > 12 ? 2 : 4;
    const int tiles = std::clamp(num_tiles / (step.limits.num_threads * 16), least, 8);
    return (num_tiles + tiles - 1) / tiles;
}

int GemmStage::num_pieces(const StepView& step) const { return tile_parts(step) * row_chunks(count(step, rows)); }

void GemmStage::run(const Worker& worker, int piece) const {
    const int num_parts = tile_parts(worker), row = piece / num_parts * kRowChunk;
    const auto [first, last] = share(num_tiles, piece % num_parts, num_parts);
    const RowRange range{row, std::min(kRowChunk, count(worker, rows) - row)};
    if (is_head && worker.bests) return pick_best(worker, range, {first, last});
    run_tiles(worker, range, {first, last}, row_of(worker, out, 0), out.cols);
}

void GatedStage::add_units(const Matrix& gate, const Matrix& up) {
    constexpr int kTiles = kGatedOutputs / kTile;
    const int num_tiles = static_cast<int>(gate.tiles.size());
    for (int first = 0; first < num_tiles; first += kTiles) {
        const int count = std::min(kTiles, num_tiles - first);
        Unit unit{{}, first * kTile / kGroup, count * kTile / kGroup};
        for (const Matrix* matrix : {&gate, &up}) {
            for (int t = 0; t < count; ++t) {
                const int column = static_cast<int>(unit.tiles.size()) * kTile;
                unit.tiles.push_back({matrix->tiles[first + t].data, column, kTile});
            }
        }
        num_bytes += unit.tiles.size() * tile_bytes(gate.format, gate.inputs);
        units.push_back(std::move(unit));
    }
}

void GatedStage::run_unit(const Worker& worker, const Unit& unit, int first_row, int num_rows) const {
    const int cols = unit.num_groups * kGroup;
    const size_t stride = 2 * cols;
    // Row numbers count from the first row of the step, the scratch from the first row of this piece.
    float* products = worker.scratch - first_row * stride;
    const int step_rows = count(worker, rows);
    worker.kernels.gemm_quantized(format, rows_of(worker, x, step_rows), first_row, num_rows, unit.tiles.data(),
                                  static_cast<int>(unit.tiles.size()), {products, stride, nullptr, nullptr, 0});
    // What follows stalls the stream of weights: have the processor begin with the next unit, which lies behind this
    // one.
    const uint8_t* next = unit.tiles.back().data + tile_bytes(format, x.cols);
    for (int line = 0; line < 64; ++line) __builtin_prefetch(next + line * 64);
    for (int row = first_row; row < first_row + num_rows; ++row) {
        float* gate = products + row * stride;
        worker.kernels.swiglu(gate, gate + cols, cols, gate);
        worker.kernels.quantize(gate, rows_of(worker, out, step_rows), row, unit.first_group, unit.num_groups,
                                kFineShareOfGate);
    }
}

int GatedStage::unit_parts(const StepView& step) const {
    const int num_units = static_cast<int>(units.size());
    return count(step, rows) <= kFewRows ? stream_pieces(step, num_bytes, num_units) : num_units;
}

int GatedStage::num_pieces(const StepView& step) const { return unit_parts(step) * row_chunks(count(step, rows)); }

void GatedStage::run(const Worker& worker, int piece) const {
    const int num_parts = unit_parts(worker), row = piece / num_parts * kRowChunk;
    const auto [first, last] = share(static_cast<int>(units.size()), piece % num_parts, num_parts);
    for (int unit = first; unit < last; ++unit) {
        run_unit(worker, units[unit], row, std::min(kRowChunk, count(worker, rows) - row));
    }
}

int AnglesStage::num_pieces(const StepView& step) const { return row_pieces(step, step.step.num_tokens); }

void AnglesStage::run(const Worker& worker, int piece) const {
    const size_t half = inv_freq.size();
    const auto [first, last] = share(worker.step.num_tokens, piece, num_pieces(worker));
    for (int row = first; row < last; ++row) {
        float* cosines = row_of(worker, out, row);
        float* sines = cosines + half;
        const double position = worker.position_of(row);
        for (size_t i = 0; i < half; ++i) {
            const double angle = position * inv_freq[i];
            cosines[i] = static_cast<float>(std::cos(angle)) * scale;
            sines[i] = static_cast<float>(std::sin(angle)) * scale;
        }
    }
}

int RopeStage::num_pieces(const StepView& step) const {
    return is_left_to_attention(step) ? 0 : row_pieces(step, step.step.num_tokens * cache.num_kv_heads);
}

void RopeStage::run(const Worker& worker, int piece) const {
    const auto [first, last] = share(worker.step.num_tokens * cache.num_kv_heads, piece, num_pieces(worker));
    for (int i = first; i < last; ++i) run_heads(worker, i / cache.num_kv_heads, i % cache.num_kv_heads);
}

// Turns and stores what belongs to one KV head: its key and value, and the queries that will read it.
void RopeStage::run_heads(const Worker& worker, int row, int kv_head) const {
    const int dim = cache.head_dim, kv_heads = cache.num_kv_heads, group = num_heads / kv_heads;
    const float* source = row_of(worker, qkv, row);
    RotaryHead head = rotary_head(worker, angles, row, dim, is_interleaved);
    head.norm = q_norm;
    head.eps = eps;
    for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        head.x = source + h * dim;
        worker.kernels.rotate(head, row_of(worker, out, row) + h * dim);
    }
    head.x = source + (num_heads + kv_head) * dim;
    head.norm = k_norm;
    worker.kernels.rotate(head, worker.scratch);
    const int position = worker.position_of(row);
    uint8_t* tile = tile_of(cache, worker.blocks_of(worker.row_sequences[row]), position, kv_head);
    worker.kernels.store_kv(cache.format, worker.scratch, source + (num_heads + kv_heads + kv_head) * dim, dim,
                            position % kKeyGroup, tile);
}

int AttentionStage::num_pieces(const StepView& step) const {
    return static_cast<int>(step.query_groups.size()) * cache.num_kv_heads;
}

void AttentionStage::run(const Worker& worker, int piece) const {
    const int dim = cache.head_dim, kv_heads = cache.num_kv_heads, heads = num_heads / kv_heads;
    // The last tile of a prompt sees most: begin with the longest work.
    const QueryGroup& group = worker.query_groups[(num_pieces(worker) - 1 - piece) / kv_heads];
    const int kv_head = piece % kv_heads, column = kv_head * heads * dim;
    AttentionSequence sequences[kAttentionRows];
    for (int i = 0; i < group.num_tiles; ++i) {
        const QueryTile& tile = worker.query_tiles[group.first_tile + i];
        if (rope && rope->is_left_to_attention(worker)) rope->run_heads(worker, tile.first_row, kv_head);
        sequences[i] = {row_of(worker, q, tile.first_row) + column, row_of(worker, out, tile.first_row) + column,
                        tile.num_tokens, worker.position_of(tile.first_row), worker.blocks_of(tile.sequence)};
    }
    worker.kernels.attention({cache.format, sequences, group.num_tiles, group.shared_tokens,
                              static_cast<size_t>(q.cols), static_cast<size_t>(out.cols), heads, dim, window, scale,
                              cache.pool + kv_head * cache.head_stride, cache.block_stride, cache.group_stride,
                              cache.block_groups, worker.scratch});
    if (!quantized) return;
    for (int i = 0; i < group.num_tiles; ++i) {
        quantize_heads(worker, worker.query_tiles[group.first_tile + i], column, heads * dim);
    }
}

void AttentionStage::quantize_heads(const Worker& worker, const QueryTile& tile, int column, int cols) const {
    const QuantizedRows rows = rows_of(worker, *quantized, worker.step.num_tokens);
    for (int row = tile.first_row; row < tile.first_row + tile.num_tokens; ++row) {
        worker.kernels.quantize(row_of(worker, out, row) + column, rows, row, column / kGroup, cols / kGroup,
                                kFineShareOfAttention);
    }
}

int GatherStage::num_pieces(const StepView& step) const { return row_pieces(step, step.step.num_samples); }

void GatherStage::run(const Worker& worker, int piece) const {
    const auto [first, last] = share(worker.step.num_samples, piece, num_pieces(worker));
    for (int row = first; row < last; ++row) {
        std::memcpy(row_of(worker, out, row), row_of(worker, x, worker.step.sample_rows[row]), x.cols * sizeof(float));
    }
}

}  // namespace tailrace
