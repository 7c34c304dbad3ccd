// What stages have in common: how work is cut into pieces, and where the rows of a buffer lie.
#pragma once

#include <algorithm>

#include "program/stage.h"

namespace tailrace {

// The share of one piece when n things are cut into equal pieces.
inline Range share(int n, int piece, int num_pieces) {
    return {static_cast<int>(static_cast<int64_t>(n) * piece / num_pieces),
            static_cast<int>(static_cast<int64_t>(n) * (piece + 1) / num_pieces)};
}

inline int count(const StepView& step, Rows rows) {
    return rows == Rows::kTokens ? step.step.num_tokens : step.step.num_samples;
}

// Of work that is the same for each row: a few for each thread, so that all end together.
inline int row_pieces(const StepView& step, int num_rows) { return std::min(num_rows, 4 * step.limits.num_threads); }

// Of matrices that few rows are multiplied with: large enough to be one stream from memory, and as many for each
// thread.
inline int stream_pieces(const StepView& step, size_t num_bytes, int most) {
    constexpr size_t kPieceBytes = 512 * 1024;
    const int threads = step.limits.num_threads;
    const int rounds = static_cast<int>(num_bytes / (kPieceBytes * threads)) + 1;
    return std::min(rounds * threads, most);
}

inline float* row_of(const StepView& step, const FloatBuffer& buffer, int row) {
    return step.floats(buffer.offset) + static_cast<size_t>(row) * buffer.cols;
}

// The parts of a quantised buffer, one behind the other.
struct QuantizedLayout {
    size_t codes, numbers, flags;

    QuantizedLayout(size_t max_rows, size_t cols)
        : codes(align64(max_rows * cols)),
          numbers(align64(max_rows * (cols / kGroup) * 4)),
          flags(align64(max_rows * (cols / kGroup))) {}

    size_t num_bytes() const { return 2 * codes + 3 * numbers + flags; }
};

inline bool is_private(const QuantizedBuffer& buffer, int num_rows) {
    return buffer.private_offset && num_rows <= kPrivateRows;
}

// The rows of a buffer in a step that has `num_rows` of them.
inline QuantizedRows rows_of(const Worker& worker, const QuantizedBuffer& buffer, int num_rows) {
    const bool is_own = is_private(buffer, num_rows);
    const int max_rows = is_own ? kPrivateRows : buffer.max_rows;
    const QuantizedLayout layout(max_rows, buffer.cols);
    uint8_t* codes = is_own ? worker.copies + *buffer.private_offset : worker.activations + buffer.offset;
    uint8_t* numbers = codes + 2 * layout.codes;
    const auto floats = [&](int i) { return reinterpret_cast<float*>(numbers + i * layout.numbers); };
    return {reinterpret_cast<int8_t*>(codes),
            reinterpret_cast<int8_t*>(codes + layout.codes),
            floats(0),
            floats(1),
            reinterpret_cast<int32_t*>(numbers + 2 * layout.numbers),
            numbers + 3 * layout.numbers,
            buffer.cols / kGroup,
            buffer.cols / kGroup,
            max_rows};
}

// Columns [first, first + count) of these rows; both are multiples of kGroup.
inline QuantizedRows columns_of(QuantizedRows rows, int first, int count) {
    const int group = first / kGroup;
    rows.codes += first;
    rows.high += first;
    rows.scales += group;
    rows.sums += group;
    rows.shifts += group;
    rows.fine_quads += static_cast<size_t>(group) * rows.max_rows;
    rows.groups = count / kGroup;
    return rows;
}

// What a norm feeds carries the few large values of the residual stream; the results of gates and of attention are
// even. Chosen on real text (tests/oracle/test_cpu_quality.py): without fine quads the best token is that of float32
// activations in 95.9 percent of the places, with these in 98 and more, and log probabilities are nearer by a third.
constexpr float kFineShareOfNorm = 0.3f;
constexpr float kFineShareOfHead = 0.1f;
constexpr float kFineShareOfGate = 0.6f;
constexpr float kFineShareOfAttention = 0.5f;

inline float fine_share(Rows rows) { return rows == Rows::kTokens ? kFineShareOfNorm : kFineShareOfHead; }

inline void quantize_row(const Worker& worker, const float* x, const QuantizedRows& out, int row, float fine_share) {
    worker.kernels.quantize(x, out, row, 0, out.groups, fine_share);
}

// A head that turns by the angles of its row.
inline RotaryHead rotary_head(const Worker& worker, const FloatBuffer& angles, int row, int head_dim,
                              bool is_interleaved) {
    const float* cosines = row_of(worker, angles, row);
    const int half = angles.cols / 2;
    return {nullptr, head_dim, nullptr, 0.0f, cosines, cosines + half, 2 * half, is_interleaved};
}

inline int row_chunks(int num_rows) { return (num_rows + kRowChunk - 1) / kRowChunk; }

inline uint8_t* tile_of(const CacheView& cache, const int32_t* blocks, int position, int head) {
    const int group = position / kKeyGroup;
    return cache.pool + blocks[group / cache.block_groups] * cache.block_stride +
           group % cache.block_groups * cache.group_stride + head * cache.head_stride;
}

}  // namespace tailrace
