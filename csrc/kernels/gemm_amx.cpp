// Products of many rows with 4-bit or 8-bit weights on the matrix tiles of AMX.
//
// A group of 32 inputs of a packed tile, its nibbles taken apart, is eight rows of 64 bytes: just what a tile register
// wants on the right. On the left it takes 32 codes of sixteen rows. The integer dots are exact and all that follows is
// what gemm_quantized.cpp does, in the same order: the same bits. A tile takes sixteen rows however many there are, so
// fewer are left to the vectors.
#include "kernels/functions.h"
#include "kernels/quantized.h"

namespace tailrace {

namespace avx512bf16 {
void gemm_quantized(Format format, const QuantizedRows& x, int first_row, int num_rows, const Tile* tiles,
                    int num_tiles, const GemmOutput& out);
}

namespace TAILRACE_ISA {

namespace {

constexpr int kBlock = 16;   // rows of a tile register
constexpr int kPanel = 128;  // rows whose sums, and whose codes of a group, stay in the nearest cache

// What _tile_loadconfig reads. Tile 0, 3, 4, 5: products, 1: codes of sixteen rows, 2: weights.
struct alignas(64) TileConfig {
    uint8_t palette = 1;
    uint8_t reserved[15] = {};
    uint16_t row_bytes[16] = {64, 32, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 8, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);
constexpr TileConfig kConfig;

// Tiles belong to a thread, and make it dearer to switch while they are in use.
struct TilesInUse {
    TilesInUse() { _tile_loadconfig(&kConfig); }
    ~TilesInUse() { _tile_release(); }
};

// Some compilers do not know that tiles are loaded from memory.
TAILRACE_INLINE void finish_stores() { __asm__ volatile("" : : : "memory"); }

template <class W>
TAILRACE_INLINE void load_weights(const uint8_t* group) {
    alignas(64) uint8_t codes[kVectors][64];
    for (int i = 0; i < kVectors; ++i) _mm512_store_si512(codes[i], W::codes(group, i));
    finish_stores();
    _tile_loadd(2, codes, 64);
}

// The dots of sixteen rows' codes with the weights in tile 2.
TAILRACE_INLINE void dots(const int8_t* codes, size_t stride, VecI (&products)[kBlock]) {
    _tile_zero(0);
    _tile_loadd(1, codes, stride);
    _tile_dpbsud(0, 1, 2);
    _tile_stored(0, products, 64);
}

// Sixteen rows' codes of one group, those of fine quads included: each row's dots with sixteen outputs.
template <class W>
TAILRACE_INLINE void multiply(const QuantizedRows& x, size_t row, int group, VecI (&products)[kBlock]) {
    const size_t stride = static_cast<size_t>(x.groups) * kGroup, first = row * stride + group * kGroup;
    dots(x.codes + first, stride, products);
    uint64_t fine[2];
    std::memcpy(fine, x.fine_quads + static_cast<size_t>(group) * x.max_rows + row, sizeof fine);
    if ((fine[0] | fine[1]) != 0) {
        VecI high[kBlock];
        dots(x.high + first, stride, high);
        for (int r = 0; r < kBlock; ++r) products[r] = products[r] + shift_left<8>(high[r]);
    }
    for (int r = 0; r < kBlock; ++r) {
        products[r] = products[r] + W::start(x.shifts[(row + r) * x.groups + group]);
    }
}

template <class W>
void multiply_panel(const QuantizedRows& x, int first_row, int num_rows, const Tile& tile, const GemmOutput& out) {
    Vec acc[kPanel];
    for (int r = 0; r < num_rows; ++r) acc[r] = zero();
    const uint8_t* w = tile.data;
    for (int g = 0; g < x.groups; ++g, w += W::kGroupBytes) {
        load_weights<W>(w);
        const Vec scale = W::scale(w);
        for (int done = 0; done < num_rows;) {
            // The last block begins early enough to be whole; what it repeats is not added again.
            const int block = done + kBlock <= num_rows ? done : num_rows - kBlock;
            VecI products[kBlock];
            multiply<W>(x, first_row + block, g, products);
            for (; done < block + kBlock; ++done) {
                const size_t at = static_cast<size_t>(first_row + done) * x.groups + g;
                acc[done] = fma(to_float(products[done - block]), scale * set1(x.scales[at]), acc[done]);
                acc[done] = W::add_offset(acc[done], w, x.sums[at]);
            }
        }
    }
    for (int r = 0; r < num_rows; ++r) write(out, first_row + r, tile, acc[r]);
}

template <class W>
void multiply_tiles(const QuantizedRows& x, int first_row, int num_rows, const Tile* tiles, int num_tiles,
                    const GemmOutput& out) {
    const TilesInUse in_use;
    for (int t = 0; t < num_tiles; ++t) multiply_panel<W>(x, first_row, num_rows, tiles[t], out);
}

}  // namespace

void gemm_quantized(Format format, const QuantizedRows& x, int first_row, int num_rows, const Tile* tiles,
                    int num_tiles, const GemmOutput& out) {
    if (num_rows < kBlock) return avx512bf16::gemm_quantized(format, x, first_row, num_rows, tiles, num_tiles, out);
    const int rows = num_rows < kPanel ? num_rows : kPanel;
    switch (format) {
        case Format::kQ4:
            multiply_tiles<Q4<false>>(x, first_row, rows, tiles, num_tiles, out);
            break;
        case Format::kQ4Half:
            multiply_tiles<Q4<true>>(x, first_row, rows, tiles, num_tiles, out);
            break;
        case Format::kQ8:
            multiply_tiles<Q8<false>>(x, first_row, rows, tiles, num_tiles, out);
            break;
        default:
            multiply_tiles<Q8<true>>(x, first_row, rows, tiles, num_tiles, out);
    }
    if (num_rows > rows) gemm_quantized(format, x, first_row + rows, num_rows - rows, tiles, num_tiles, out);
}

int32_t dot_codes(int64_t count) {
    constexpr int64_t kDots = 128;  // of 64 codes, in one instruction
    static constexpr uint8_t kCodes[kBlock][64] = {};
    const TilesInUse in_use;
    _tile_zero(0);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_loadd(1, kCodes, 64);
    _tile_loadd(2, kCodes, 64);
    for (int64_t i = 0; i < count; i += 4 * kDots) {
        _tile_dpbsud(0, 1, 2);
        _tile_dpbsud(3, 1, 2);
        _tile_dpbsud(4, 1, 2);
        _tile_dpbsud(5, 1, 2);
    }
    VecI products[kBlock];
    _tile_stored(0, products, 64);
    return sum(products[0]);
}

}  // namespace TAILRACE_ISA

}  // namespace tailrace
