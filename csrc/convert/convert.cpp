// Rows of any stored form narrowed to groups of 32 codes, or widened to float32: a block at a time, so that float32
// values never leave the nearest cache.
#include "convert/conversions.h"
#include "convert/decode.h"
#include "convert/groups.h"

namespace tailrace::TAILRACE_ISA {

namespace {

// Of one row of a grid, by column.
struct RowScales {
    const float* scales;
    int64_t block_cols;

    RowScales(const ScaleGrid& grid, int64_t row)
        : scales(grid.scales == nullptr ? nullptr
                                        : grid.scales + (grid.first_row + row) / grid.block_rows * grid.stride),
          block_cols(grid.block_cols) {}

    float at(int64_t col) const { return scales[col / block_cols]; }
};

// Values of `count` columns of a row, from `col` on.
using Decode = void (*)(const uint8_t* row, const RowScales& scales, int64_t col, int64_t count, float* out);

template <class Values>
void decode(const uint8_t* row, const RowScales& scales, int64_t col, int64_t count, float* out) {
    constexpr StoredForm kForm = form_of(Values::kStored);
    const uint8_t* block = row + col / kForm.num_values * kForm.num_bytes;
    for (int64_t i = 0; i < count; i += kForm.num_values, block += kForm.num_bytes) {
        Values::decode(block, Values::kStored == Stored::kE4m3 ? scales.at(col + i) : 1.0f, out + i);
    }
}

Decode decode_of(Stored stored) {
    switch (stored) {
        case Stored::kF32:
            return decode<F32Values>;
        case Stored::kF16:
            return decode<F16Values>;
        case Stored::kBf16:
            return decode<Bf16Values>;
        case Stored::kE4m3:
            return decode<E4m3Values>;
        case Stored::kQ8_0:
            return decode<Q8_0Values>;
        case Stored::kQ5_0:
            return decode<Q5_0Values>;
        case Stored::kQ5_1:
            return decode<Q5_1Values>;
        case Stored::kIq4Nl:
            return decode<Iq4NlValues>;
        case Stored::kQ2K:
            return decode<Q2KValues>;
        case Stored::kQ3K:
            return decode<Q3KValues>;
        case Stored::kQ4K:
            return decode<Q4KValues>;
        case Stored::kQ5K:
            return decode<Q5KValues>;
        default:
            return decode<Q6KValues>;
    }
}

template <class Groups>
Squares narrow_to(const StoredRows& from, const NarrowRows& to) {
    constexpr int64_t kBatchValues = kBatch * kGroupValues;
    const Decode decode = decode_of(from.stored);
    Squares squares{};
    for (int64_t row = 0; row < from.num_rows; ++row) {
        const RowScales scales(from.grid, row);
        SquareLanes lanes;
        for (int64_t col = 0; col < from.num_cols; col += kBatchValues) {
            const int64_t count = from.num_cols - col < kBatchValues ? from.num_cols - col : kBatchValues;
            float values[kBatchValues];
            decode(from.data + row * from.stride, scales, col, count, values);
            Groups::narrow(values, static_cast<int>(count / kGroupValues), to,
                           (row * from.num_cols + col) / kGroupValues, &lanes);
        }
        squares.lost += sum(lanes.lost);
        squares.values += sum(lanes.values);
    }
    return squares;
}

Squares narrow(const StoredRows& from, const NarrowRows& to) {
    return to.offsets == nullptr ? narrow_to<Q8Groups>(from, to) : narrow_to<Q4Groups>(from, to);
}

void widen(const StoredRows& from, float* out) {
    const Decode decode = decode_of(from.stored);
    for (int64_t row = 0; row < from.num_rows; ++row) {
        const RowScales scales(from.grid, row);
        decode(from.data + row * from.stride, scales, 0, from.num_cols, out + row * from.num_cols);
    }
}

}  // namespace

extern const Conversions conversions;
const Conversions conversions = {narrow, widen};

}  // namespace tailrace::TAILRACE_ISA
