// int8 activations times 4-bit or 8-bit weights: for each group of 32 inputs an exact integer dot, then its scales.
//
// Each output adds its groups in ascending order into one float, then bias and residual: whatever the shape of the
// register tile. Within a group all is integer, and exact.
#include "kernels/functions.h"
#include "kernels/quantized.h"

namespace tailrace::TAILRACE_ISA {

namespace {

// Rows that are multiplied at once.
#if defined(__AVX512F__)
constexpr int kRows = 12;  // 12 sums and 12 products in 32 registers
#elif defined(__AVX2__) || defined(TAILRACE_NEON)
constexpr int kRows = 4;
#else
constexpr int kRows = 2;
#endif
constexpr int kFineRows = 4;  // that look for fine quads together: each of them pays for those of the others

// One bit a quad: whether it is fine in any of the rows.
TAILRACE_INLINE uint32_t fine_quads_of(const uint8_t* rows, int count) {
    uint32_t any = 0;
    for (int r = 0; r < count; ++r) any |= rows[r];
    return any;
}

template <int R>
TAILRACE_INLINE bool has_fine_quads(const uint8_t* rows) {
    static_assert(R <= 16);
    uint64_t first = 0, more = 0;
    std::memcpy(&first, rows, R < 8 ? R : 8);
    if constexpr (R > 8) std::memcpy(&more, rows + 8, R - 8);
    return (first | more) != 0;
}

// What the upper eight bits of R rows' fine quads add to the dots of group g.
template <class W, int R>
TAILRACE_INLINE void dot_high(const QuantizedRows& x, int row, int g, const uint8_t* w, VecI (&s)[R]) {
    const uint8_t* fine_quads = x.fine_quads + static_cast<size_t>(g) * x.max_rows + row;
    const size_t stride = static_cast<size_t>(x.row_groups) * kGroup;
    const int8_t* high = x.high + row * stride + static_cast<size_t>(g) * kGroup;
    for (int r = 0; r < R; ++r) s[r] = set1(int32_t{0});
    if (!has_fine_quads<R>(fine_quads)) return;
#pragma GCC unroll 4
    for (int first = 0; first < R; first += kFineRows) {
        const int last = first + kFineRows < R ? first + kFineRows : R;
        for (uint32_t quads = fine_quads_of(fine_quads + first, last - first); quads != 0; quads &= quads - 1) {
            const int i = __builtin_ctz(quads);
            const Bytes b = W::codes(w, i);
            for (int r = first; r < last; ++r) s[r] = W::dot(s[r], b, four_codes(high + r * stride + i * 4));
        }
        for (int r = first; r < last; ++r) s[r] = shift_left<8>(s[r]);
    }
}

// R rows times one tile; meanwhile fetches what lies `ahead` bytes behind it (0: nothing).
template <class W, int R>
void multiply_rows(const QuantizedRows& x, int row, const Tile& tile, ptrdiff_t ahead, const GemmOutput& out) {
    const int groups = x.groups, row_groups = x.row_groups;
    const size_t stride = static_cast<size_t>(row_groups) * kGroup;
    const uint8_t* w = tile.data;
    const int8_t* codes = x.codes + row * stride;
    size_t at = static_cast<size_t>(row) * row_groups;
    Vec acc[R];
    for (int r = 0; r < R; ++r) acc[r] = zero();
    for (int g = 0; g < groups; ++g, ++at, codes += kGroup, w += W::kGroupBytes) {
        VecI s[R];
        dot_high<W, R>(x, row, g, w, s);
        for (int r = 0; r < R; ++r) s[r] = s[r] + W::start(x.shifts[at + r * row_groups]);
#pragma GCC unroll 8
        for (int i = 0; i < kVectors; ++i) {
            const Bytes b = W::codes(w, i);
            for (int r = 0; r < R; ++r) s[r] = W::dot(s[r], b, four_codes(codes + r * stride + i * 4));
        }
        const Vec scale = W::scale(w);
        for (int r = 0; r < R; ++r) {
            acc[r] = fma(to_float(s[r]), scale * set1(x.scales[at + r * row_groups]), acc[r]);
            acc[r] = W::add_offset(acc[r], w, x.sums[at + r * row_groups]);
        }
        if (ahead != 0) {
            for (size_t line = 0; line < W::kGroupBytes; line += 64) prefetch(w + ahead + line);
        }
    }
    for (int r = 0; r < R; ++r) write(out, row + r, tile, acc[r]);
}

template <class W, int R>
void up_to_rows(int num_rows, const QuantizedRows& x, int row, const Tile& tile, ptrdiff_t ahead,
                const GemmOutput& out) {
    if constexpr (R > 1) {
        if (num_rows < R) return up_to_rows<W, R - 1>(num_rows, x, row, tile, ahead, out);
    }
    multiply_rows<W, R>(x, row, tile, ahead, out);
}

// One tile after the other, a single stream from memory. Only the first rows have something to fetch: the others find
// the tile in the cache; for one row the processor foresees the stream by itself.
template <class W>
void multiply(const QuantizedRows& x, int first_row, int num_rows, const Tile* tiles, int num_tiles,
              const GemmOutput& out) {
    for (int t = 0; t < num_tiles; ++t) {
        ptrdiff_t ahead = num_rows > 1 ? 4096 : 0;
        for (int row = 0; row < num_rows; row += kRows, ahead = 0) {
            const int left = num_rows - row;
            up_to_rows<W, kRows>(left < kRows ? left : kRows, x, first_row + row, tiles[t], ahead, out);
        }
    }
}

}  // namespace

void gemm_quantized(Format format, const QuantizedRows& x, int first_row, int num_rows, const Tile* tiles,
                    int num_tiles, const GemmOutput& out) {
    switch (format) {
        case Format::kQ4:
            return multiply<Q4<false>>(x, first_row, num_rows, tiles, num_tiles, out);
        case Format::kQ4Half:
            return multiply<Q4<true>>(x, first_row, num_rows, tiles, num_tiles, out);
        case Format::kQ8:
            return multiply<Q8<false>>(x, first_row, num_rows, tiles, num_tiles, out);
        default:
            return multiply<Q8<true>>(x, first_row, num_rows, tiles, num_tiles, out);
    }
}

int32_t dot_codes(int64_t count) {
    constexpr int kChains = 12;
    uint8_t bytes[kChains][64];
    std::memset(bytes, 1, sizeof bytes);
    __asm__ volatile("" : : "r"(bytes) : "memory");  // for all the compiler knows, they differ
    Bytes codes[kChains];
    VecI s[kChains];
    for (int k = 0; k < kChains; ++k) {
        codes[k] = load_bytes(bytes[k]);
        s[k] = set1(int32_t{0});
    }
    for (int64_t i = 0; i < count; i += kChains) {
#pragma GCC unroll 12
        for (int k = 0; k < kChains; ++k) s[k] = dot_q4(s[k], codes[k], static_cast<int32_t>(i));
    }
    for (int k = 1; k < kChains; ++k) s[0] = s[0] + s[k];
    return sum(s[0]);
}

}  // namespace tailrace::TAILRACE_ISA
