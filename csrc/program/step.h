// What a step computes (tailrace.ops.api.StepInputs) and what its bounds are (Limits), as plain pointers and counts.
#pragma once

#include <cstdint>

namespace tailrace {

struct Limits {
    int max_tokens;
    int max_samples;
    int max_sequences;
    int max_blocks_per_sequence;
    int num_blocks;
    int block_tokens;
    int num_threads;
};

struct Step {
    const int32_t* token_ids;
    int num_tokens;
    const int32_t* row_starts;
    const int32_t* starts;
    const int32_t* slots;
    int num_sequences;
    const int32_t* block_tables;
    const int32_t* sample_rows;
    int num_samples;
};

// Neighbouring tokens of one sequence.
struct QueryTile {
    int sequence;
    int first_row;
    int num_tokens;
};

// Neighbouring tiles whose sequences begin with the same `shared_tokens` tokens in the same blocks: the unit in which
// attention is shared out.
struct QueryGroup {
    int first_tile;
    int num_tiles;
    int shared_tokens;  // 0: none
};

}  // namespace tailrace
