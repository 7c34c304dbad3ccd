// float32 activations times f32, f16 or bf16 weights, inputs added in ascending order into one float per output.
#include "kernels/functions.h"
#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

namespace {

#if defined(__AVX512F__)
constexpr int kFloatRows = 8;
#else
constexpr int kFloatRows = 4;
#endif

TAILRACE_INLINE void write_tile(const GemmOutput& out, size_t row, const Tile& tile, Vec value) {
    const int n = tile.width;
    if (out.bias) value = value + load_first(out.bias + tile.column, n);
    if (out.residual) value = value + load_first(out.residual + row * out.residual_stride + tile.column, n);
    store_first(out.out + row * out.stride + tile.column, value, n);
}

template <int R>
TAILRACE_INLINE void add_products(Vec (&acc)[R], Vec weights, const float* x, size_t stride) {
    for (int r = 0; r < R; ++r) acc[r] = fma(weights, set1(x[r * stride]), acc[r]);
}

template <Format kFormat, int R>
void tile_float(const float* x, size_t stride, int inputs, int row, const Tile& tile, const GemmOutput& out) {
    const float* first = x + row * stride;
    Vec acc[R];
    for (int r = 0; r < R; ++r) acc[r] = zero();
    if constexpr (kFormat == Format::kBf16) {
        int k = 0;
        Vec even, odd;
        for (; k + 2 <= inputs; k += 2) {
            load_bf16_pairs(tile.data + k * kTile * 2, &even, &odd);
            add_products(acc, even, first + k, stride);
            add_products(acc, odd, first + k + 1, stride);
        }
        if (k < inputs) {
            load_bf16_pairs(tile.data + k * kTile * 2, &even, &odd);
            add_products(acc, even, first + k, stride);
        }
    } else {
        for (int k = 0; k < inputs; ++k) {
            Vec weights;
            if constexpr (kFormat == Format::kF32) {
                weights = load(reinterpret_cast<const float*>(tile.data) + k * kTile);
            } else {
                weights = load_half(reinterpret_cast<const uint16_t*>(tile.data) + k * kTile);
            }
            add_products(acc, weights, first + k, stride);
        }
    }
    for (int r = 0; r < R; ++r) write_tile(out, row + r, tile, acc[r]);
}

template <Format kFormat>
void few_float_rows(int num_rows, const float* x, size_t stride, int inputs, int row, const Tile& tile,
                    const GemmOutput& out) {
    switch (num_rows) {
        case 1:
            return tile_float<kFormat, 1>(x, stride, inputs, row, tile, out);
        case 2:
            return tile_float<kFormat, 2>(x, stride, inputs, row, tile, out);
        case 3:
            return tile_float<kFormat, 3>(x, stride, inputs, row, tile, out);
        case 4:
            return tile_float<kFormat, 4>(x, stride, inputs, row, tile, out);
        case 5:
            return tile_float<kFormat, 5>(x, stride, inputs, row, tile, out);
        case 6:
            return tile_float<kFormat, 6>(x, stride, inputs, row, tile, out);
        case 7:
            return tile_float<kFormat, 7>(x, stride, inputs, row, tile, out);
        default:
            return tile_float<kFormat, 8>(x, stride, inputs, row, tile, out);
    }
}

}  // namespace

void gemm_float(Format format, const float* x, size_t stride, int inputs, int first_row, int num_rows,
                const Tile* tiles, int num_tiles, const GemmOutput& out) {
    const int last_row = first_row + num_rows;
    for (int t = 0; t < num_tiles; ++t) {
        for (int row = first_row; row < last_row; row += kFloatRows) {
            const int rows = last_row - row < kFloatRows ? last_row - row : kFloatRows;
            switch (format) {
                case Format::kF32:
                    few_float_rows<Format::kF32>(rows, x, stride, inputs, row, tiles[t], out);
                    break;
                case Format::kF16:
                    few_float_rows<Format::kF16>(rows, x, stride, inputs, row, tiles[t], out);
                    break;
                default:
                    few_float_rows<Format::kBf16>(rows, x, stride, inputs, row, tiles[t], out);
            }
        }
    }
}

}  // namespace tailrace::TAILRACE_ISA
