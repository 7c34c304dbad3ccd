// The kernels one instruction set offers, as a table of functions. Raw pointers and sizes: no Python, no threads.
//
// A kernel's result for one row never depends on the other rows of the call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/layout.h"

namespace tailrace {

// Activations in int8 per group of 32: value = scale * code. Four neighbours (a quad) with a value that stands out from
// its row, whose scale would drown the rest of the group in rounding noise, do not count for the scale and have eight
// bits more: value = scale * (256 * high + code). Which quads are fine is decided by the row alone. Rows follow each
// other without a gap.
struct QuantizedRows {
    int8_t* codes;  // [rows][row_groups * 32]
    int8_t* high;   // [rows][row_groups * 32], zero but in fine quads
    float* scales;  // [rows][row_groups]
    float* sums;    // [rows][row_groups], the sum of the values: what an offset of the weights is multiplied with
    int32_t*
        shifts;  // [rows][row_groups], -128 * sum(256 * high + code): takes back the 128 q8 weights are stored with
    uint8_t* fine_quads;  // [groups][max_rows], one bit a quad
    int groups;           // that these rows have
    int row_groups;       // from row to row in memory: more than `groups` where these are some columns of wider rows
    int max_rows;
};

// Sixteen (or, at the end of a matrix, fewer) neighbouring output columns.
struct Tile {
    const uint8_t* data;
    int32_t column;
    int32_t width;
};

// out = product + bias + residual, in this order.
struct GemmOutput {
    float* out;
    size_t stride;
    const float* bias;      // by column, or null
    const float* residual;  // or null
    size_t residual_stride;
};

// Neighbouring tokens of one sequence, with the query heads that read one KV head.
struct AttentionSequence {
    const float* q;  // the first of these heads, first token
    float* out;      // like q
    int num_tokens;
    int position;           // of the first token
    const int32_t* blocks;  // block table
};

struct AttentionTask {
    KvFormat format;
    const AttentionSequence* sequences;  // kAttentionRows rows (tokens x heads) together at most
    int num_sequences;
    int shared_tokens;  // at the start of all sequences, which lie in the same blocks; whatever it is for one sequence
    size_t q_stride;    // floats from token to token
    size_t out_stride;
    int heads;  // query heads that read this KV head
    int head_dim;
    int window;  // positions a token sees, its own included; 0: all
    float scale;
    const uint8_t* pool;  // at the keys of this head, in block 0, first 16 positions
    size_t block_stride;  // bytes from block to block
    size_t group_stride;  // bytes from 16 positions to the next, inside a block
    int block_groups;     // block_tokens / 16
    void* scratch;        // attention_scratch_bytes
};

// Attention over a latent cache: no values, those are the first `latent_dim` dimensions (a multiple of 16) of the keys.
struct LatentTask {
    AttentionTask attention;  // head_dim: of a key. out: latent_dim floats a head
    int latent_dim;
    const int32_t* selected;  // the positions that are seen, ascending, for one token; null: all up to a row's own
    int num_selected;
};

struct RotaryHead {
    const float* x;  // [head_dim]
    int head_dim;
    const float* norm;  // RMSNorm weight, or null
    float eps;
    const float* cosines;  // [rotary_dim / 2]
    const float* sines;
    int rotary_dim;
    bool interleaved;
};

// One row's query heads and a range of its sequence's positions, whose keys an index cache keeps.
struct IndexTask {
    KvFormat format;
    const float* q;             // [num_heads][head_dim], turned
    const float* head_weights;  // [num_heads]
    int num_heads;
    int head_dim;
    int first, last;        // positions [first, last), `first` a multiple of kKeyBlock
    const int32_t* blocks;  // block table
    const uint8_t* pool;    // at this cache's keys, in block 0, first 16 positions
    size_t block_stride;    // bytes from block to block
    size_t group_stride;    // bytes from 16 positions to the next, inside a block
    int block_groups;       // block_tokens / 16
    float* scores;          // [last - first, in whole key blocks], of position `first` on
    void* scratch;          // index_scratch_bytes
};

// How a row of router logits chooses experts (tailrace.ops.program.Routing).
struct Routing {
    int num_experts;
    int top_k;
    bool is_sigmoid;  // else softmax
    int num_groups;
    int top_groups;
    bool is_ranked_by_two;  // groups, by their two best; else by their best
    bool is_normalized;
    float scale;
};

constexpr size_t routing_scratch_floats(const Routing& routing) {
    return 2 * static_cast<size_t>(routing.num_experts) + 2 * static_cast<size_t>(routing.num_groups);
}

constexpr int kKeyBlock = 64;                  // positions whose keys a query row meets at once
constexpr int kAttentionRows = 64;             // query rows of a task at most
constexpr size_t kAttentionWeightBytes = 256;  // of a row that meets a key block, at most

// Keys and values of a key block in bfloat16, which codes of 8 bits are read as.
constexpr size_t widened_block_bytes(int head_dim) {
    return 2 * (kKeyBlock / kKeyGroup) * kv_tile_bytes(KvFormat::kBf16, head_dim);
}

constexpr size_t attention_scratch_bytes(int head_dim) {
    // Of each row: its query and its sums, its largest score, a fade, sixteen partial totals and weights.
    return kAttentionRows * (padded_head(head_dim) * 8 + 4 + 4 + 64 + kAttentionWeightBytes) +
           widened_block_bytes(head_dim);
}

constexpr size_t index_scratch_bytes(int num_heads, int head_dim) {
    // Of each head: its weight and its query.
    return static_cast<size_t>(padded_head(num_heads)) * (4 + 4 + padded_head(head_dim) * 4) +
           widened_block_bytes(head_dim);
}

constexpr int kTurnedDims = 64;  // of the values that latent attention makes of a key block: as many as stay near

// Addresses of the groups of a key block, then their values.
constexpr size_t kTurnedBytes = 64 + kKeyBlock * kTurnedDims * sizeof(float);

// `key_dim`: of latent and turned part together. Beside what attention needs, some values of a key block, and the keys
// of one that is gathered.
constexpr size_t latent_scratch_bytes(int key_dim) {
    return attention_scratch_bytes(key_dim) + kTurnedBytes + kKeyBlock * padded_head(key_dim) * sizeof(float);
}

constexpr int kSelectStep = 64;  // one in so many numbers is looked at first
constexpr int kSelectRoom = 4;   // times as many as are wanted can be looked at more closely

constexpr size_t select_scratch_floats(size_t n, size_t count) {
    const size_t num_sampled = n / kSelectStep + 1;
    return num_sampled > kSelectRoom * count ? num_sampled : kSelectRoom * count;
}

struct Kernels {
    void (*embed)(Format format, const Tile* tiles, int row, int cols, float* out);

    // out may be x.
    void (*rms_norm)(const float* x, const float* weight, int cols, float eps, float* out);
    void (*layer_norm)(const float* x, const float* weight, const float* bias, int cols, float eps, float* out);
    void (*swiglu)(const float* gate, const float* up, int cols, float* out);
    // Groups [first_group, first_group + num_groups) of a row. A quad is fine when the square of its largest value
    // exceeds `fine_share` of the average energy of these groups: rounding noise stays below a fixed share of it.
    void (*quantize)(const float* x, const QuantizedRows& out, int row, int first_group, int num_groups,
                     float fine_share);

    void (*gemm_quantized)(Format format, const QuantizedRows& x, int first_row, int num_rows, const Tile* tiles,
                           int num_tiles, const GemmOutput& out);
    void (*gemm_float)(Format format, const float* x, size_t stride, int inputs, int first_row, int num_rows,
                       const Tile* tiles, int num_tiles, const GemmOutput& out);

    void (*rotate)(const RotaryHead& head, float* out);
    // Put one position's key and value [head_dim] into their tiles; `lane` is the position modulo 16. Without a value
    // (null), the key alone.
    void (*store_kv)(KvFormat format, const float* key, const float* value, int head_dim, int lane, uint8_t* tile);
    void (*attention)(const AttentionTask& task);
    // Put one position's latent and turned part, side by side, into its tile, which has keys alone. The latent has a
    // multiple of 16 dimensions.
    void (*store_latent)(KvFormat format, const float* key, int latent_dim, int key_dim, int lane, uint8_t* tile);
    void (*latent_attention)(const LatentTask& task);
    // score = sum over heads of head_weight * max(0, q . key), in ascending order of the heads.
    void (*index_scores)(const IndexTask& task);

    // Chooses top_k different experts, whatever the logits [num_experts] are; puts them in ascending order, and what
    // each counts. `bias` [num_experts] or null; `scratch`: routing_scratch_floats.
    void (*route)(const Routing& routing, const float* logits, const float* bias, float* scratch, int32_t* experts,
                  float* weights);
    void (*add_scaled)(const float* x, float scale, int n, float* out);  // out += scale * x

    // out = x where the bit of a number is set, else -inf; out may be x.
    void (*forbid)(const float* x, const uint32_t* allowed, int n, float* out);
    int (*arg_max)(const float* x, int n);                       // the lowest index among equals
    int (*top)(const float* x, int n, int count, int32_t* ids);  // the `count` largest, the lower index among equals
    int (*collect)(const float* x, int n, float least, float below, int32_t* ids);  // least <= x < below, ascending
    // The `count` largest of n >= count numbers, the lower index among equals, in ascending order of the indices.
    // `scratch` has room for select_scratch_floats.
    int (*select)(const float* x, int n, int count, float* scratch, int32_t* ids);
    double (*sum_at_least)(const float* x, int n, float least);  // of x >= 0
    float (*sum_exp)(const float* x, int n, float max);          // sum of exp(x - max)
    // out = exp((x - max) / temperature).
    void (*exp_scaled)(const float* x, int n, float max, float temperature, float* out);

    // For measuring what the machine can do: the largest of n floats; the result of `count` dots of 64 codes each; of
    // `count` times 16 products of floats, and of bfloat16, which are added up as floats.
    float (*read_floats)(const float* x, size_t n);
    int32_t (*dot_codes)(int64_t count);
    float (*multiply_floats)(int64_t count);
    float (*multiply_halves)(int64_t count);
};

}  // namespace tailrace
