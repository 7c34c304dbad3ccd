// How packed weights and the KV pool lie in memory. Every instruction set reads the same bytes.
//
// A weight matrix [N, K] is cut into tiles of 16 output rows, one after the other, so that sixteen lanes of a vector
// are sixteen outputs and one broadcast activation serves them all:
//
//     q4   [K/32] x { codes [4][64], scale[16], offset[16] }
//          byte r*4+j of vector i: row r, input 4i+j in the low nibble and 16+4i+j in the high one
//     q8   [K/32] x { codes [8][64], scale[16] }
//          byte r*4+j of vector i: row r, input 4i+j, stored as code + 128
//     f32  [K][16]      f16  [K][16]      bf16  [K/2][16][2], the last odd input paired with zero
//
// Codes and scales of a group are neighbours: a row of activations then reads one ascending stream of memory, which
// is twice as fast here as reading two.
// Scales and offsets are float16 when that loses nothing, else float32. A tile ends on a multiple of 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tailrace {

constexpr int kTile = 16;      // output rows side by side
constexpr int kGroup = 32;     // inputs that share one scale
constexpr int kKeyGroup = 16;  // positions whose keys (and values) lie together

enum class Format : int32_t { kF32, kF16, kBf16, kQ8, kQ8Half, kQ4, kQ4Half };  // ...Half: scales in float16

constexpr bool is_quantized(Format format) { return format >= Format::kQ8; }

constexpr size_t align64(size_t bytes) { return (bytes + 63) / 64 * 64; }

// A group of 32 inputs of one tile, codes and scales.
constexpr size_t group_bytes(Format format) {
    switch (format) {
        case Format::kQ8:
            return 512 + kTile * 4;
        case Format::kQ8Half:
            return 512 + kTile * 2;
        case Format::kQ4:
            return 256 + kTile * 8;
        case Format::kQ4Half:
            return 256 + kTile * 4;
        default:
            return 0;
    }
}

constexpr size_t tile_bytes(Format format, size_t inputs) {
    switch (format) {
        case Format::kF32:
            return align64(inputs * kTile * 4);
        case Format::kF16:
            return align64(inputs * kTile * 2);
        case Format::kBf16:
            return align64((inputs + 1) / 2 * kTile * 4);
        default:
            return align64(inputs / kGroup * group_bytes(format));
    }
}

// Keys and values of one KV head for 16 positions, as one tile each:
//
//     keys    [D/2][16 positions][2]     a dot over dimensions, sixteen positions side by side
//     values  [8][D][2 positions]        a sum over positions, sixteen dimensions side by side
//
// in bfloat16, or the same with the pair split into two float32 vectors [..][2][16]. D is head_dim rounded up to 16.
// A block holds all caches: for each cache, [KV heads][block_tokens/16][keys, values].
constexpr int padded_head(int head_dim) { return (head_dim + 15) / 16 * 16; }

constexpr size_t kv_tile_bytes(int head_dim, size_t value_bytes) {
    return padded_head(head_dim) * kKeyGroup * value_bytes;
}

}  // namespace tailrace
