#include "program/experts.h"

#include <algorithm>
#include <cstring>

#include "program/rows.h"

namespace tailrace {

namespace {

size_t num_bytes(const Matrix& matrix) { return matrix.tiles.size() * tile_bytes(matrix.format, matrix.inputs); }

int num_tiles(const Matrix& matrix) { return static_cast<int>(matrix.tiles.size()); }

// What follows a product stalls the stream of weights: have the processor begin with the next.
void prefetch_tile(const Tile& tile) {
    for (int line = 0; line < 64; ++line) __builtin_prefetch(tile.data + line * 64);
}

// Neighbouring rows times neighbouring tiles; column 0 of the first of these rows and tiles goes to `out`.
void multiply(const Worker& worker, const Matrix& matrix, const ExpertRows& x, RowRange rows, Range tiles, float* out,
              size_t stride) {
    const Tile* first = matrix.tiles.data() + tiles.first;
    const int count = tiles.last - tiles.first;
    // Row and column numbers count from the first of all.
    const GemmOutput target{out - rows.first * stride - static_cast<size_t>(first->column), stride, nullptr, nullptr,
                            0};
    if (is_quantized(matrix.format)) {
        worker.kernels.gemm_quantized(matrix.format, rows_of(worker, *x.codes, x.codes->max_rows), rows.first,
                                      rows.count, first, count, target);
    } else {
        worker.kernels.gemm_float(matrix.format, row_of(worker, *x.floats, 0), x.floats->cols, matrix.inputs,
                                  rows.first, rows.count, first, count, target);
    }
}

void copy_codes(const QuantizedRows& from, int row, const QuantizedRows& to, int place) {
    const size_t groups = from.groups, source = row * groups, target = place * groups;
    std::memcpy(to.codes + target * kGroup, from.codes + source * kGroup, groups * kGroup);
    std::memcpy(to.high + target * kGroup, from.high + source * kGroup, groups * kGroup);
    std::memcpy(to.scales + target, from.scales + source, groups * sizeof(float));
    std::memcpy(to.sums + target, from.sums + source, groups * sizeof(float));
    std::memcpy(to.shifts + target, from.shifts + source, groups * sizeof(int32_t));
    for (size_t g = 0; g < groups; ++g) {
        to.fine_quads[g * to.max_rows + place] = from.fine_quads[g * from.max_rows + row];
    }
}

}  // namespace

int Mixture::num_rows(const StepView& step) const { return count(step, rows); }

int RouteStage::num_pieces(const StepView& step) const {
    const int num_rows = mixture.num_rows(step);
    return num_rows > kFewRows ? row_pieces(step, num_rows) : std::min(num_rows, 1);
}

void RouteStage::run(const Worker& worker, int piece) const {
    const Routing& routing = mixture.routing;
    ExpertPlan& plan = *mixture.plan;
    const int num_rows = mixture.num_rows(worker), pieces = num_pieces(worker);
    const auto [first, last] = share(num_rows, piece, pieces);
    for (int row = first; row < last; ++row) {
        worker.kernels.route(routing, row_of(worker, logits, row), bias, worker.scratch, plan.choice_of(row, routing),
                             plan.weights_of(row, routing));
    }
    if (!plan.is_last_piece(pieces)) return;
    plan.build(num_rows, routing);
    for (int expert = 0; expert < routing.num_experts; ++expert) load->add(expert, plan.num_rows_of(expert));
    if (mixture.residency) mixture.residency->choose(mixture.number, plan);
}

int DispatchStage::num_pieces(const StepView& step) const {
    return mixture.is_laid_out(step) ? row_pieces(step, mixture.num_places(step)) : 0;
}

void DispatchStage::run(const Worker& worker, int piece) const {
    const ExpertPlan& plan = *mixture.plan;
    const auto [first, last] = share(mixture.num_places(worker), piece, num_pieces(worker));
    for (int place = first; place < last; ++place) {
        const int row = plan.row_at(place);
        if (x.floats) {
            std::memcpy(row_of(worker, *out.floats, place), row_of(worker, *x.floats, row),
                        x.floats->cols * sizeof(float));
        }
        if (x.codes) {
            copy_codes(rows_of(worker, *x.codes, x.codes->max_rows), row,
                       rows_of(worker, *out.codes, out.codes->max_rows), place);
        }
    }
}

int ExpertGatedStage::num_units() const { return (experts.front().gate->outputs + kGatedOutputs - 1) / kGatedOutputs; }

int ExpertGatedStage::num_pieces(const StepView& step) const {
    const int most = mixture.num_places(step) * num_units();
    if (mixture.is_laid_out(step)) return std::min(16 * step.limits.num_threads, most);
    const size_t bytes = num_bytes(*experts.front().gate) + num_bytes(*experts.front().up);
    return stream_pieces(step, mixture.num_places(step) * bytes, most);
}

bool ExpertGatedStage::wait() const { return mixture.residency && mixture.residency->wait(); }

void ExpertGatedStage::run(const Worker& worker, int piece) const {
    const int units = num_units();
    const auto [first, last] = mixture.plan->share_of(piece, num_pieces(worker), units);
    for (int unit = first; unit < last; ++unit) {
        run_unit(worker, unit, unit + 1 < last ? &first_tile(unit + 1) : nullptr);
    }
}

const Tile& ExpertGatedStage::first_tile(int unit) const {
    const RowBlock& block = mixture.plan->blocks()[unit / num_units()];
    return experts[block.expert].gate->tiles[unit % num_units() * kUnitTiles];
}

void ExpertGatedStage::run_unit(const Worker& worker, int unit, const Tile* next) const {
    const RowBlock& block = mixture.plan->blocks()[unit / num_units()];
    const auto& [gate, up] = experts[block.expert];
    const bool is_laid_out = mixture.is_laid_out(worker);
    const ExpertRows& from = is_laid_out ? places : x;
    const RowRange rows{is_laid_out ? block.first : mixture.plan->row_at(block.first), block.count};
    const int tile = unit % num_units() * kUnitTiles;
    const Range tiles{tile, std::min(tile + kUnitTiles, num_tiles(*gate))};
    const int column = tile * kTile, cols = std::min(kGatedOutputs, gate->outputs - column);
    multiply(worker, *gate, from, rows, tiles, worker.scratch, 2 * cols);
    multiply(worker, *up, from, rows, tiles, worker.scratch + cols, 2 * cols);
    if (next) prefetch_tile(*next);
    for (int i = 0; i < block.count; ++i) {
        float* products = worker.scratch + static_cast<size_t>(i) * 2 * cols;
        const int place = block.first + i;
        float* target = out.floats ? row_of(worker, *out.floats, place) + column : products;
        worker.kernels.swiglu(products, products + cols, cols, target);
        if (!out.codes) continue;
        worker.kernels.quantize(target, rows_of(worker, *out.codes, out.codes->max_rows), place, column / kGroup,
                                cols / kGroup, kFineShareOfGate);
    }
}

int ExpertDownStage::num_pieces(const StepView& step) const {
    const Matrix& matrix = *experts.front();
    const int num_rows = mixture.num_rows(step), tiles = num_tiles(matrix);
    if (num_rows == 0) return 0;
    // A piece reads a stream of each expert.
    if (!mixture.is_laid_out(step)) return stream_pieces(step, num_bytes(matrix), tiles);
    // All rows pass by in each piece: few wide ones, which are equal, so that threads end together all the same.
    const int at_once = std::clamp(tiles / (step.limits.num_threads * 4), 2, 16);
    return (tiles + at_once - 1) / at_once;
}

void ExpertDownStage::run(const Worker& worker, int piece) const {
    const auto [first, last] = share(num_tiles(*experts.front()), piece, num_pieces(worker));
    const int column = first * kTile, cols = std::min(last * kTile, out.cols) - column;
    for (int row = 0; row < mixture.num_rows(worker); ++row) {
        std::memcpy(row_of(worker, out, row) + column, row_of(worker, residual, row) + column, cols * sizeof(float));
    }
    const std::vector<RowBlock>& blocks = mixture.plan->blocks();
    for (size_t i = 0; i < blocks.size(); ++i) {
        const Tile* next = i + 1 < blocks.size() ? &experts[blocks[i + 1].expert]->tiles[first] : nullptr;
        run_block(worker, blocks[i], {first, last}, next);
    }
}

void ExpertDownStage::run_block(const Worker& worker, const RowBlock& block, Range tiles, const Tile* next) const {
    const Matrix& matrix = *experts[block.expert];
    const int at_once = std::max(static_cast<int>(kScratchFloats) / (kTile * block.count), 1);
    for (int first = tiles.first; first < tiles.last; first += at_once) {
        const int last = std::min(first + at_once, tiles.last);
        const int column = first * kTile, cols = std::min(last * kTile, out.cols) - column;
        multiply(worker, matrix, x, {block.first, block.count}, {first, last}, worker.scratch, cols);
        if (next && last == tiles.last) prefetch_tile(*next);
        for (int i = 0; i < block.count; ++i) {
            const int place = block.first + i;
            worker.kernels.add_scaled(worker.scratch + static_cast<size_t>(i) * cols, mixture.plan->weight_at(place),
                                      cols, row_of(worker, out, mixture.plan->row_at(place)) + column);
        }
    }
}

}  // namespace tailrace
