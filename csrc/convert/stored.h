// Rows of a matrix as files hold them, and the groups of 32 codes that they are narrowed to. No instruction set here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tailrace {

constexpr int kGroupValues = 32;  // that share a scale

enum class Stored : int32_t { kF32, kF16, kBf16, kE4m3, kQ8_0, kQ5_0, kQ5_1, kIq4Nl, kQ2K, kQ3K, kQ4K, kQ5K, kQ6K };

// `num_bytes` bytes hold `num_values` neighbours of one row.
struct StoredForm {
    Stored stored;
    const char* name;
    int num_values;
    int num_bytes;
};

constexpr StoredForm kStoredForms[] = {
    {Stored::kF32, "f32", 32, 128},   {Stored::kF16, "f16", 32, 64},      {Stored::kBf16, "bf16", 32, 64},
    {Stored::kE4m3, "e4m3", 32, 32},  {Stored::kQ8_0, "Q8_0", 32, 34},    {Stored::kQ5_0, "Q5_0", 32, 22},
    {Stored::kQ5_1, "Q5_1", 32, 24},  {Stored::kIq4Nl, "IQ4_NL", 32, 18}, {Stored::kQ2K, "Q2_K", 256, 84},
    {Stored::kQ3K, "Q3_K", 256, 110}, {Stored::kQ4K, "Q4_K", 256, 144},   {Stored::kQ5K, "Q5_K", 256, 176},
    {Stored::kQ6K, "Q6_K", 256, 210},
};

constexpr const StoredForm& form_of(Stored stored) { return kStoredForms[static_cast<int>(stored)]; }

// Scales in float32 beside the codes, one for each block of rows and columns: what e4m3 has.
struct ScaleGrid {
    const float* scales;  // or null: the form has its own
    int64_t stride;       // floats from one row of blocks to the next
    int64_t block_rows;
    int64_t block_cols;  // a multiple of 32, or all columns
    int64_t first_row;   // of the rows at hand, as the grid counts them
};

struct StoredRows {
    Stored stored;
    const uint8_t* data;
    int64_t stride;  // bytes from row to row; nothing need be aligned
    int64_t num_rows;
    int64_t num_cols;  // a multiple of the form's num_values
    ScaleGrid grid;
};

// Rows without a gap, as tailrace.ops.packed.PackedTensor has them.
struct NarrowRows {
    uint8_t* codes;     // 32 bytes a group, or 16 where there are offsets
    uint16_t* scales;   // float16
    uint16_t* offsets;  // float16; null: q8, else q4
};

// Sums of squares. Not finite when a value, a scale or an offset is not.
struct Squares {
    double lost;  // of what narrowing changed
    double values;
};

}  // namespace tailrace
