// The stages a program is lowered to. Each cuts its work into pieces, which threads take as they come (team.h).
//
// Buffers are byte offsets into the program's one memory of activations; who may share memory is decided by the
// lowering (tailrace/ops/cpu/buffers.py).
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/kernels.h"
#include "program/sampler.h"
#include "program/step.h"
#include "program/team.h"
#include "program/weights.h"

namespace tailrace {

// The KV pool and where one cache lies in a block of it.
struct CacheView {
    uint8_t* pool;  // at this cache, in block 0
    size_t block_stride;
    size_t group_stride;
    size_t head_stride;
    int block_groups;
    int num_kv_heads;
    int head_dim;
    KvFormat format;
};

// A step, laid out for the stages.
struct StepView {
    const Limits& limits;
    const Step& step;
    const int32_t* row_sequences;  // [num_tokens]
    const std::vector<QueryTile>& query_tiles;
    const std::vector<QueryGroup>& query_groups;
    uint8_t* activations;
    bool is_decode;                 // each sequence computes one token at most
    std::atomic<Candidate>* bests;  // [num_samples], where the head is to pick the best tokens itself; else null

    float* floats(size_t offset) const { return reinterpret_cast<float*>(activations + offset); }
    int position_of(int row) const {
        const int sequence = row_sequences[row];
        return step.starts[sequence] + row - step.row_starts[sequence];
    }
    const int32_t* blocks_of(int sequence) const {
        return step.block_tables + static_cast<size_t>(step.slots[sequence]) * limits.max_blocks_per_sequence;
    }
};

// What a thread has in hand while it runs a piece.
struct Worker : StepView {
    const Kernels& kernels;
    uint8_t* copies;  // of small buffers, this thread's own
    float* scratch;   // this thread's own: kScratchFloats, a row of any buffer, or what attention needs
};

enum class Rows { kTokens, kSamples };

// Activations of one tensor: in float, in int8, or both.
struct FloatBuffer {
    size_t offset;
    int cols;
};
struct QuantizedBuffer {
    size_t offset;
    int cols;
    int max_rows;
    std::optional<size_t> private_offset;  // within each thread's own copy, for a step of at most kPrivateRows rows
};

size_t quantized_bytes(int max_rows, int cols);

struct RowRange {
    int first, count;
};
struct Range {
    int first, last;
};

constexpr int kPrivateRows = 2;            // cheaper for each thread to compute than to wait for another
constexpr int kFewRows = 4;                // as many as are bound by reading weights: long contiguous pieces read best
constexpr int kRowChunk = 120;             // rows whose activations stay in the cache
constexpr int kGatedOutputs = 4 * kGroup;  // neighbours that are computed, and judged for fineness, together
constexpr size_t kScratchFloats = size_t{kRowChunk} * 2 * kGatedOutputs;

class Stage {
  public:
    virtual ~Stage() = default;
    // 0: each thread prepares what it needs, before its first piece of the stage behind this one.
    virtual int num_pieces(const StepView& step) const = 0;
    virtual void run(const Worker& worker, int piece) const = 0;
    virtual void prepare(const Worker&) const {}
    // For what it reads besides its weights and the results of stages before it; whether it had to.
    virtual bool wait() const { return false; }
};

struct EmbedStage final : Stage {
    const Matrix* table;
    FloatBuffer out;

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;
};

struct NormStage final : Stage {
    Rows rows;
    FloatBuffer x;
    const float* weight;
    float eps;
    std::optional<FloatBuffer> out;
    std::optional<QuantizedBuffer> quantized;

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;
    void prepare(const Worker& worker) const override;

  private:
    bool is_private(const StepView& step) const;
    void run_rows(const Worker& worker, int first, int last) const;
};

struct QuantizeStage final : Stage {
    Rows rows;
    FloatBuffer x;
    QuantizedBuffer out;

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;
};

// Several matrices, each over its columns of the input, into its columns of the output.
struct GemmStage final : Stage {
    struct Part {
        Format format;
        int first_input;  // column of the input
        int inputs;
        std::vector<Tile> tiles;
    };
    Rows rows;
    std::optional<FloatBuffer> x;
    std::optional<QuantizedBuffer> quantized;
    std::vector<Part> parts;
    int num_tiles = 0;
    size_t num_bytes = 0;     // of all tiles
    std::vector<float> bias;  // empty: none
    std::optional<FloatBuffer> residual;
    FloatBuffer out;
    bool is_head = false;  // its results are the logits

    // A matrix that reads the inputs from `first_input` on and writes the outputs from `column` on.
    void add(const Matrix& matrix, int first_input, int column);
    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;

  private:
    int tile_parts(const StepView& step) const;
    void run_tiles(const Worker& worker, RowRange rows, Range tiles, float* out, size_t stride) const;
    void pick_best(const Worker& worker, RowRange rows, Range tiles) const;
};

// silu(x gate^T) * (x up^T), quantised on the spot: the wide products never leave the cache.
struct GatedStage final : Stage {
    struct Unit {
        std::vector<Tile> tiles;  // of gate, then of up; columns within the unit
        int first_group;
        int num_groups;
    };
    Rows rows;
    Format format;
    QuantizedBuffer x;
    std::vector<Unit> units;
    size_t num_bytes = 0;  // of all tiles
    QuantizedBuffer out;

    // The same tiles of both matrices side by side, kGatedOutputs at a time.
    void add_units(const Matrix& gate, const Matrix& up);
    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;

  private:
    int unit_parts(const StepView& step) const;
    void run_unit(const Worker& worker, const Unit& unit, int first_row, int num_rows) const;
};

struct SwiGluStage final : Stage {
    Rows rows;
    FloatBuffer x;
    std::optional<FloatBuffer> out;
    std::optional<QuantizedBuffer> quantized;
    int cols;

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;
};

// Cosines and sines of this step's positions, shared by all layers.
struct AnglesStage final : Stage {
    std::vector<float> inv_freq;
    float scale;
    FloatBuffer out;  // [tokens][cosines, sines]

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;
};

struct RopeStage final : Stage {
    FloatBuffer qkv;
    FloatBuffer angles;
    CacheView cache;
    int num_heads;
    bool is_interleaved;
    const float* q_norm;  // or null
    const float* k_norm;
    float eps;
    FloatBuffer out;
    bool is_linked = false;  // an attention stage follows that can do it

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;
    // Whether the attention stage behind this one does its work, each token's heads right before they are used.
    bool is_left_to_attention(const StepView& step) const { return is_linked && step.is_decode; }
    void run_heads(const Worker& worker, int row, int kv_head) const;
};

struct AttentionStage final : Stage {
    const RopeStage* rope = nullptr;  // where a token is alone, its heads are turned right before they are used
    FloatBuffer q;
    CacheView cache;
    int num_heads;
    float scale;
    int window;  // 0: all
    FloatBuffer out;
    std::optional<QuantizedBuffer> quantized;

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;

  private:
    void quantize_heads(const Worker& worker, const QueryTile& tile, int column, int cols) const;
};

struct GatherStage final : Stage {
    FloatBuffer x;
    FloatBuffer out;

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;
};

}  // namespace tailrace
