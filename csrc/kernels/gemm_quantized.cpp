// int8 activations times 4-bit or 8-bit weights: for each group of 32 inputs an exact integer dot, then its scales.
//
// Each output adds its groups in ascending order into one float, then bias and residual, then the fine codes of its
// row's fine groups, again in ascending order: whatever the shape of the register tile.
#include "kernels/functions.h"
#include "simd/bytes.h"

namespace tailrace::TAILRACE_ISA {

namespace {

// Rows that are multiplied at once with one tile, and with two.
#if defined(__AVX512F__)
constexpr int kRows = 12;  // 12 sums and 12 products in 32 registers
constexpr int kPairRows = 6;
#elif defined(__AVX2__)
constexpr int kRows = 4;
constexpr int kPairRows = 2;
#else
constexpr int kRows = 2;
constexpr int kPairRows = 1;
#endif

template <bool kHalf>
TAILRACE_INLINE Vec load_scales(const uint8_t* p) {
    if constexpr (kHalf) return load_half(reinterpret_cast<const uint16_t*>(p));
    return load(reinterpret_cast<const float*>(p));
}

template <bool kHalf>
constexpr size_t kScaleBytes = kTile * (kHalf ? 2 : 4);

// Nearly every tile is full, and masked stores are slow to be read again.
TAILRACE_INLINE Vec load_columns(const float* row, const Tile& tile) {
    return tile.width == kTile ? load(row + tile.column) : load_first(row + tile.column, tile.width);
}
TAILRACE_INLINE void store_columns(float* row, const Tile& tile, Vec value) {
    if (tile.width == kTile) {
        store(row + tile.column, value);
    } else {
        store_first(row + tile.column, value, tile.width);
    }
}

TAILRACE_INLINE void write(const GemmOutput& out, size_t row, const Tile& tile, Vec value) {
    if (out.bias) value = value + load_columns(out.bias, tile);
    if (out.residual) value = value + load_columns(out.residual + row * out.residual_stride, tile);
    store_columns(out.out + row * out.stride, tile, value);
}

// The formats: how a group of 32 inputs of one tile is read and multiplied.
template <bool kHalf>
struct Q4 {
    static constexpr size_t kGroupBytes = group_bytes(kHalf ? Format::kQ4Half : Format::kQ4);

    // Vector i belongs to the inputs 4i, 4i+1, 4i+2, 4i+3 of the group.
    TAILRACE_INLINE Bytes codes(const uint8_t* group, int i) {
        return i < 4 ? low_nibbles(load_bytes(group + i * 64)) : high_nibbles(load_bytes(group + (i - 4) * 64));
    }
    TAILRACE_INLINE VecI start(int32_t) { return set1(int32_t{0}); }
    TAILRACE_INLINE VecI dot(VecI s, Bytes w, int32_t a) { return dot_q4(s, w, a); }
    TAILRACE_INLINE Vec scale(const uint8_t* group) { return load_scales<kHalf>(group + 256); }
    TAILRACE_INLINE Vec add_offset(Vec acc, const uint8_t* group, float sum) {
        return fma(load_scales<kHalf>(group + 256 + kScaleBytes<kHalf>), set1(sum), acc);
    }
};

template <bool kHalf>
struct Q8 {
    static constexpr size_t kGroupBytes = group_bytes(kHalf ? Format::kQ8Half : Format::kQ8);

    TAILRACE_INLINE Bytes codes(const uint8_t* group, int i) { return load_bytes(group + i * 64); }
    TAILRACE_INLINE VecI start(int32_t shift) { return start_q8(shift); }
    TAILRACE_INLINE VecI dot(VecI s, Bytes w, int32_t a) { return dot_q8(s, w, a); }
    TAILRACE_INLINE Vec scale(const uint8_t* group) { return load_scales<kHalf>(group + 512); }
    TAILRACE_INLINE Vec add_offset(Vec acc, const uint8_t*, float) { return acc; }
};

constexpr int kVectors = 8;  // of codes in a group

// R rows times C tiles; meanwhile fetches what lies `ahead` bytes behind each tile (0: nothing).
template <class W, int R, int C>
void tile(const QuantizedRows& x, int row, const Tile* tiles, ptrdiff_t ahead, const GemmOutput& out) {
    const int groups = x.groups;
    const size_t stride = static_cast<size_t>(groups) * kGroup;
    const uint8_t* w[C];
    for (int c = 0; c < C; ++c) w[c] = tiles[c].data;
    const int8_t* codes = x.codes + row * stride;
    const size_t first = static_cast<size_t>(row) * groups;
    Vec acc[R][C];
    for (int r = 0; r < R; ++r) {
        for (int c = 0; c < C; ++c) acc[r][c] = zero();
    }
    for (int g = 0; g < groups; ++g, codes += kGroup) {
        const size_t at = first + g;
        VecI s[R][C];
        for (int r = 0; r < R; ++r) {
            for (int c = 0; c < C; ++c) s[r][c] = W::start(x.shifts[at + r * groups]);
        }
#pragma GCC unroll 8
        for (int i = 0; i < kVectors; ++i) {
            Bytes b[C];
            for (int c = 0; c < C; ++c) b[c] = W::codes(w[c], i);
            for (int r = 0; r < R; ++r) {
                const int32_t four = four_codes(codes + r * stride + i * 4);
                for (int c = 0; c < C; ++c) s[r][c] = W::dot(s[r][c], b[c], four);
            }
        }
        for (int c = 0; c < C; ++c) {
            const Vec scale = W::scale(w[c]);
            for (int r = 0; r < R; ++r) {
                acc[r][c] = fma(to_float(s[r][c]), scale * set1(x.scales[at + r * groups]), acc[r][c]);
                acc[r][c] = W::add_offset(acc[r][c], w[c], x.sums[at + r * groups]);
            }
            if (ahead != 0) {
                for (size_t line = 0; line < W::kGroupBytes; line += 64) prefetch(w[c] + ahead + line);
            }
            w[c] += W::kGroupBytes;
        }
    }
    for (int r = 0; r < R; ++r) {
        for (int c = 0; c < C; ++c) write(out, row + r, tiles[c], acc[r][c]);
    }
}

// Adds the fine codes of one row of one group to the result.
template <class W, int C>
TAILRACE_INLINE void add_fine(const QuantizedRows& x, size_t row, int g, const Bytes (&b)[C][kVectors],
                              const Vec (&scale)[C], const Tile* tiles, const GemmOutput& out) {
    const size_t at = row * x.groups + g;
    const int8_t* fine = x.fine + at * kGroup;
    VecI s[C];
    for (int c = 0; c < C; ++c) s[c] = W::start(x.fine_shifts[at]);
    for (int i = 0; i < kVectors; ++i) {
        const int32_t four = four_codes(fine + i * 4);
        for (int c = 0; c < C; ++c) s[c] = W::dot(s[c], b[c][i], four);
    }
    const Vec unit = set1(x.scales[at] * (1.0f / 256.0f));
    float* y = out.out + row * out.stride;
    for (int c = 0; c < C; ++c) {
        store_columns(y, tiles[c], fma(to_float(s[c]), scale[c] * unit, load_columns(y, tiles[c])));
    }
}

// The rows of a call, and which groups are fine in any of them: looked up once, used for every tile.
struct Block {
    const QuantizedRows& x;
    int first_row;
    int num_rows;
    uint64_t fine[kMaxGroups / 64];

    Block(const QuantizedRows& rows, int first, int count) : x(rows), first_row(first), num_rows(count) {
        for (int word = 0; word * 64 < x.groups; ++word) fine[word] = 0;
        for (int g = 0; g < x.groups; ++g) {
            uint64_t any = 0;
            for (int part = 0; part < num_rows; part += 64) any |= fine_rows(g, part);
            fine[g / 64] |= static_cast<uint64_t>(any != 0) << (g % 64);
        }
    }

    // Bit i: whether group g of row first_row + part + i is fine.
    uint64_t fine_rows(int g, int part) const {
        const uint8_t* flags = x.is_fine + static_cast<size_t>(g) * x.max_rows + first_row + part;
        return nonzero_bytes(flags, num_rows - part < 64 ? num_rows - part : 64);
    }
};

template <class W, int C>
void fine_group(const Block& block, int g, const Tile* tiles, const GemmOutput& out) {
    Bytes b[C][kVectors];
    Vec scale[C];
    for (int c = 0; c < C; ++c) {
        const uint8_t* w = tiles[c].data + g * W::kGroupBytes;
        for (int i = 0; i < kVectors; ++i) b[c][i] = W::codes(w, i);
        scale[c] = W::scale(w);
    }
    for (int part = 0; part < block.num_rows; part += 64) {
        for (uint64_t rows = block.fine_rows(g, part); rows != 0; rows &= rows - 1) {
            add_fine<W>(block.x, block.first_row + part + __builtin_ctzll(rows), g, b, scale, tiles, out);
        }
    }
}

// The fine groups of all rows, in ascending order for each row, on top of what is there.
template <class W, int C>
void fine_groups(const Block& block, const Tile* tiles, const GemmOutput& out) {
    for (int word = 0; word * 64 < block.x.groups; ++word) {
        for (uint64_t groups = block.fine[word]; groups != 0; groups &= groups - 1) {
            fine_group<W, C>(block, word * 64 + __builtin_ctzll(groups), tiles, out);
        }
    }
}

template <class W, int C, int R>
void up_to_rows(int num_rows, const QuantizedRows& x, int row, const Tile* tiles, ptrdiff_t ahead,
                const GemmOutput& out) {
    if constexpr (R > 1) {
        if (num_rows < R) return up_to_rows<W, C, R - 1>(num_rows, x, row, tiles, ahead, out);
    }
    tile<W, R, C>(x, row, tiles, ahead, out);
}

// Only the first rows have something to fetch: the others find their tiles in the cache.
template <class W, int C, int R>
void all_rows(const Block& block, const Tile* tiles, ptrdiff_t ahead, const GemmOutput& out) {
    for (int row = 0; row < block.num_rows; row += R) {
        const int left = block.num_rows - row;
        up_to_rows<W, C, R>(left < R ? left : R, block.x, block.first_row + row, tiles, ahead, out);
        ahead = 0;
    }
}

// Few rows take one tile after the other, a single stream from memory; for one row the processor foresees it by itself.
// Many rows take two tiles at once, which share each broadcast activation.
template <class W>
void multiply(const Block& block, const Tile* tiles, int num_tiles, const GemmOutput& out) {
    constexpr int kManyRows = 60;
    const ptrdiff_t ahead = block.num_rows > 1 ? 4096 : 0;
    int t = 0;
    for (; t + 2 <= num_tiles; t += 2) {
        if (block.num_rows >= kManyRows) {
            const ptrdiff_t next = t + 4 <= num_tiles ? tiles[t + 2].data - tiles[t].data : 0;
            all_rows<W, 2, kPairRows>(block, tiles + t, next, out);
        } else {
            all_rows<W, 1, kRows>(block, tiles + t, ahead, out);
            all_rows<W, 1, kRows>(block, tiles + t + 1, ahead, out);
        }
        fine_groups<W, 2>(block, tiles + t, out);
    }
    if (t < num_tiles) {
        all_rows<W, 1, kRows>(block, tiles + t, ahead, out);
        fine_groups<W, 1>(block, tiles + t, out);
    }
}

}  // namespace

void gemm_quantized(Format format, const QuantizedRows& x, int first_row, int num_rows, const Tile* tiles,
                    int num_tiles, const GemmOutput& out) {
    const Block block(x, first_row, num_rows);
    switch (format) {
        case Format::kQ4:
            return multiply<Q4<false>>(block, tiles, num_tiles, out);
        case Format::kQ4Half:
            return multiply<Q4<true>>(block, tiles, num_tiles, out);
        case Format::kQ8:
            return multiply<Q8<false>>(block, tiles, num_tiles, out);
        default:
            return multiply<Q8<true>>(block, tiles, num_tiles, out);
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
