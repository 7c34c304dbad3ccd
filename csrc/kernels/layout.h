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

// How keys and values are kept.
enum class KvFormat : int32_t { kF32, kBf16, kInt8, kE4m3 };

// Keys and values of one KV head for 16 positions, one after the other:
//
//     bf16  keys    [D/2][16 positions][2]     a dot over dimensions, sixteen positions side by side
//           values  [8][D][2 positions]        a sum over positions, sixteen dimensions side by side
//     f32   the same with each pair split into two vectors [..][2][16]
//     int8  keys    codes [D/4][16 positions][4], scales [16 positions] in float32
//           values  codes [4][D][4 positions], scales [16 positions] in float32
//           value = scale * code, stored as code + 128; keys are mixed first (kernels/head.h)
//     e4m3  as int8, keys mixed too, but a code is a float of 8 bits (simd/e4m3.h) and a scale a power of two:
//           scale * code is then a bfloat16, without rounding
//
//     Scales are of one position and head: a position is written once and never again, whatever comes beside it later.
//     A latent cache has keys alone. In 8 bits its latent and its turned part have each their own scale: in the place
//     of the keys' [16 positions][2] in bfloat16.
//
// D is head_dim rounded up to 16. Keys and values are equally long and begin on multiples of 64 bytes.
// A block holds all caches: for each cache, [KV heads][block_tokens/16][keys, values], or keys alone.
constexpr int padded_head(int head_dim) { return (head_dim + 15) / 16 * 16; }

constexpr int kMaxHeadDim = 1024;

// Of one KV head's keys, or values, for 16 positions.
constexpr size_t kv_tile_bytes(KvFormat format, int head_dim) {
    const size_t values = static_cast<size_t>(padded_head(head_dim)) * kKeyGroup;
    switch (format) {
        case KvFormat::kF32:
            return values * 4;
        case KvFormat::kBf16:
            return values * 2;
        default:
            return values + kKeyGroup * sizeof(float);
    }
}

}  // namespace tailrace
