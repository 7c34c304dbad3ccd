// What all products with 4-bit and 8-bit weights share: how a group is read, and how a result is written.
#pragma once

#include "kernels/kernels.h"
#include "simd/bytes.h"

namespace tailrace::TAILRACE_ISA {

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

}  // namespace tailrace::TAILRACE_ISA
