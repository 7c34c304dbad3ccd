// Products on the matrix tiles of AMX.
//
// 4-bit and 8-bit weights: a group of 32 inputs of a packed tile, its nibbles taken apart, is eight rows of 64 bytes:
// just what a tile register wants on the right. On the left it takes 32 codes of sixteen rows. The integer dots are
// exact and all that follows is what gemm_quantized.cpp does, in the same order: the same bits. A tile takes sixteen
// rows however many there are, so fewer are left to the vectors.
//
// bfloat16 weights: pairs of inputs lie as tiles want them too. An activation is split in two bfloat16, which together
// keep 16 of its 24 bits; what either is multiplied to is added up apart. The order of additions is the tile's own, so
// these products are made here however few rows there are.
#include "kernels/functions.h"
#include "kernels/quantized.h"

namespace tailrace {

namespace avx512bf16 {
void gemm_quantized(Format format, const QuantizedRows& x, int first_row, int num_rows, const Tile* tiles,
                    int num_tiles, const GemmOutput& out);
void gemm_float(Format format, const float* x, size_t stride, int inputs, int first_row, int num_rows,
                const Tile* tiles, int num_tiles, const GemmOutput& out);
}  // namespace avx512bf16

namespace TAILRACE_ISA {

namespace {

constexpr int kBlock = 16;   // rows of a tile register
constexpr int kPanel = 128;  // rows whose sums, and whose codes of a group, stay in the nearest cache

// What _tile_loadconfig reads.
struct alignas(64) TileConfig {
    uint8_t palette = 1;
    uint8_t reserved[15] = {};
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

// Tiles 0, 3, 4, 5: products; 1: codes of sixteen rows; 2: weights.
constexpr TileConfig kOfCodes = {.row_bytes = {64, 32, 64, 64, 64, 64}, .rows = {16, 16, 8, 16, 16, 16}};
// Tiles 0 to 3: products; 4, 5: the two parts of sixteen rows; 6, 7: weights.
constexpr TileConfig kOfPairs = {.row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                 .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

// Tiles belong to a thread, and make it dearer to switch while they are in use.
struct TilesInUse {
    explicit TilesInUse(const TileConfig& config) { _tile_loadconfig(&config); }
    ~TilesInUse() { _tile_release(); }
};

// Some compilers do not know that tiles are loaded from memory: no store may move across this.
TAILRACE_INLINE void keep_order() { __asm__ volatile("" : : : "memory"); }

template <class W>
TAILRACE_INLINE void load_weights(const uint8_t* group) {
    alignas(64) uint8_t codes[kVectors][64];
    for (int i = 0; i < kVectors; ++i) _mm512_store_si512(codes[i], W::codes(group, i));
    keep_order();
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
    const size_t stride = static_cast<size_t>(x.row_groups) * kGroup, first = row * stride + group * kGroup;
    dots(x.codes + first, stride, products);
    uint64_t fine[2];
    std::memcpy(fine, x.fine_quads + static_cast<size_t>(group) * x.max_rows + row, sizeof fine);
    if ((fine[0] | fine[1]) != 0) {
        VecI high[kBlock];
        dots(x.high + first, stride, high);
        for (int r = 0; r < kBlock; ++r) products[r] = products[r] + shift_left<8>(high[r]);
    }
    for (int r = 0; r < kBlock; ++r) {
        products[r] = products[r] + W::start(x.shifts[(row + r) * x.row_groups + group]);
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
                const size_t at = static_cast<size_t>(first_row + done) * x.row_groups + g;
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
    const TilesInUse in_use(kOfCodes);
    for (int t = 0; t < num_tiles; ++t) multiply_panel<W>(x, first_row, num_rows, tiles[t], out);
}

constexpr int kPairInputs = 32;  // of sixteen rows in a tile

struct SplitRows {
    alignas(64) uint16_t high[kBlock][kPairInputs];
    alignas(64) uint16_t low[kBlock][kPairInputs];
};

// Rows and inputs past the end count as zeros.
void split(const float* x, size_t stride, int num_rows, int num_inputs, SplitRows& out) {
    for (int r = 0; r < kBlock; ++r) {
        for (int k = 0; k < kPairInputs; k += kLanes) {
            const int left = r < num_rows ? num_inputs - k : 0;
            const Vec v = left <= 0 ? zero() : load_first(x + r * stride + k, left < kLanes ? left : kLanes);
            store_bf16(out.high[r] + k, v);
            const __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(out.high[r] + k));
            store_bf16(out.low[r] + k,
                       v - Vec{_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16))});
        }
    }
    keep_order();
}

// Inputs of a tile as a tile register wants them; those past the end, which only the last ones have, as zeros.
struct PairedWeights {
    alignas(64) uint8_t copy[kPairInputs / 2][64];

    const void* of(const Tile& tile, int k, int num_inputs) {
        const uint8_t* pairs = tile.data + static_cast<size_t>(k) * kTile * 2;
        if (num_inputs >= kPairInputs) return pairs;
        std::memset(copy, 0, sizeof copy);
        std::memcpy(copy, pairs, static_cast<size_t>(num_inputs + 1) / 2 * 64);
        keep_order();
        return copy;
    }
};

// Sixteen rows or fewer times two tiles, which may be the same.
void multiply_pairs(const float* x, size_t stride, int inputs, int num_rows, const Tile& first, const Tile& second,
                    Vec (&products)[4][kBlock]) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int k = 0; k < inputs; k += kPairInputs) {
        SplitRows rows;
        PairedWeights one, other;
        split(x + k, stride, num_rows, inputs - k, rows);
        _tile_loadd(4, rows.high, 64);
        _tile_loadd(5, rows.low, 64);
        _tile_loadd(6, one.of(first, k, inputs - k), 64);
        _tile_loadd(7, other.of(second, k, inputs - k), 64);
        keep_order();
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 5, 6);
        _tile_dpbf16ps(2, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, products[0], 64);
    _tile_stored(1, products[1], 64);
    _tile_stored(2, products[2], 64);
    _tile_stored(3, products[3], 64);
}

}  // namespace

void gemm_float(Format format, const float* x, size_t stride, int inputs, int first_row, int num_rows,
                const Tile* tiles, int num_tiles, const GemmOutput& out) {
    if (format != Format::kBf16) {
        return avx512bf16::gemm_float(format, x, stride, inputs, first_row, num_rows, tiles, num_tiles, out);
    }
    const TilesInUse in_use(kOfPairs);
    for (int row = first_row; row < first_row + num_rows; row += kBlock) {
        const int left = first_row + num_rows - row, rows = left < kBlock ? left : kBlock;
        for (int t = 0; t < num_tiles; t += 2) {
            const int last = t + 1 < num_tiles ? t + 1 : t;
            Vec products[4][kBlock];
            multiply_pairs(x + row * stride, stride, inputs, rows, tiles[t], tiles[last], products);
            for (int r = 0; r < rows; ++r) {
                write(out, row + r, tiles[t], products[0][r] + products[1][r]);
                if (last > t) write(out, row + r, tiles[last], products[2][r] + products[3][r]);
            }
        }
    }
}

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
    const TilesInUse in_use(kOfCodes);
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

float multiply_halves(int64_t count) {
    // Sixteen rows times sixteen outputs of 32 inputs, in sixteens. An activation is two bfloat16: that takes two
    // instructions, and is one product.
    constexpr int64_t kProducts = kBlock * kTile * kPairInputs / 16;
    uint16_t ones[kBlock][kPairInputs];
    for (auto& row : ones) {
        for (uint16_t& number : row) number = 0x3f80;
    }
    keep_order();
    const TilesInUse in_use(kOfPairs);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, ones, 64);
    _tile_loadd(5, ones, 64);
    _tile_loadd(6, ones, 64);
    _tile_loadd(7, ones, 64);
    for (int64_t i = 0; i < count; i += 2 * kProducts) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 5, 6);
        _tile_dpbf16ps(2, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
    }
    Vec products[4][kBlock];
    _tile_stored(0, products[0], 64);
    _tile_stored(1, products[1], 64);
    _tile_stored(2, products[2], 64);
    _tile_stored(3, products[3], 64);
    float total = 0.0f;
    for (const auto& tile : products) {
        for (const Vec& row : tile) total += sum(row);
    }
    return total / 2;
}

}  // namespace TAILRACE_ISA

}  // namespace tailrace
