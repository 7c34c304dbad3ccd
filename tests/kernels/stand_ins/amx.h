// The tile instructions of AMX in plain C++, as Intel's manual describes them, for processors without. Compiled ahead
// of a kernel. What would be an invalid instruction ends the program.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbsud
#undef _tile_dpbf16ps
#define _tile_loadconfig ::tiles_in_software::load_config
#define _tile_release ::tiles_in_software::release
#define _tile_zero ::tiles_in_software::zero
#define _tile_loadd ::tiles_in_software::load
#define _tile_stored ::tiles_in_software::store
#define _tile_dpbsud ::tiles_in_software::dot_signed_unsigned
#define _tile_dpbf16ps ::tiles_in_software::dot_bf16

namespace tiles_in_software {

struct Tile {
    int rows = 0, row_bytes = 0;  // zero: not configured
    uint8_t bytes[16][64] = {};
};

inline thread_local Tile tiles[8];

inline void require(bool is_valid, const char* what) {
    if (is_valid) return;
    std::fprintf(stderr, "amx: %s\n", what);
    std::abort();
}

inline Tile& configured(int number) {
    require(tiles[number].rows > 0, "a tile is used that is not configured");
    return tiles[number];
}

inline void release() {
    for (Tile& tile : tiles) tile = Tile();
}

inline void load_config(const void* config) {
    uint8_t bytes[64];
    std::memcpy(bytes, config, sizeof bytes);
    require(bytes[0] == 1 && bytes[1] == 0, "not palette 1 from row 0 on");
    release();
    for (int i = 0; i < 8; ++i) {
        uint16_t row_bytes;
        std::memcpy(&row_bytes, bytes + 16 + 2 * i, 2);
        require(row_bytes <= 64 && bytes[48 + i] <= 16, "a tile is configured too large");
        require((row_bytes == 0) == (bytes[48 + i] == 0), "a tile is configured by half");
        tiles[i].row_bytes = row_bytes;
        tiles[i].rows = bytes[48 + i];
    }
}

inline void zero(int number) { std::memset(configured(number).bytes, 0, sizeof tiles[number].bytes); }

inline void load(int number, const void* start, int64_t stride) {
    Tile& tile = configured(number);
    zero(number);
    for (int r = 0; r < tile.rows; ++r) {
        std::memcpy(tile.bytes[r], static_cast<const uint8_t*>(start) + r * stride, tile.row_bytes);
    }
}

inline void store(int number, void* start, int64_t stride) {
    const Tile& tile = configured(number);
    for (int r = 0; r < tile.rows; ++r) {
        std::memcpy(static_cast<uint8_t*>(start) + r * stride, tile.bytes[r], tile.row_bytes);
    }
}

struct Operands {
    Tile& sum;
    const Tile& a;
    const Tile& b;

    Operands(int sum_number, int a_number, int b_number)
        : sum(configured(sum_number)), a(configured(a_number)), b(configured(b_number)) {
        require(sum.rows == a.rows && sum.row_bytes == b.row_bytes && a.row_bytes == 4 * b.rows, "tiles do not fit");
    }
};

// TDPBSUD: sum += signed bytes of a times unsigned bytes of b, whose rows hold four inputs of each output.
inline void dot_signed_unsigned(int sum_number, int a_number, int b_number) {
    const auto [sum, a, b] = Operands(sum_number, a_number, b_number);
    for (int m = 0; m < a.rows; ++m) {
        for (int n = 0; n < b.row_bytes / 4; ++n) {
            uint32_t total;
            std::memcpy(&total, &sum.bytes[m][4 * n], 4);
            for (int k = 0; k < a.row_bytes; ++k) {
                total += static_cast<uint32_t>(static_cast<int8_t>(a.bytes[m][k]) * b.bytes[k / 4][4 * n + k % 4]);
            }
            std::memcpy(&sum.bytes[m][4 * n], &total, 4);
        }
    }
}

inline float bf16_at(const uint8_t* bytes) {
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<uint8_t*>(&bits) + 2, bytes, 2);
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

// TDPBF16PS: sum += pairs of bfloat16 of a times pairs of b; even and odd ones are added up apart. (That the smallest
// numbers count as zero is left out.)
inline void dot_bf16(int sum_number, int a_number, int b_number) {
    const auto [sum, a, b] = Operands(sum_number, a_number, b_number);
    for (int m = 0; m < a.rows; ++m) {
        for (int n = 0; n < b.row_bytes / 4; ++n) {
            float parts[2] = {}, total;
            for (int k = 0; k < a.row_bytes / 2; ++k) {
                const float weight = bf16_at(&b.bytes[k / 2][4 * n + k % 2 * 2]);
                parts[k % 2] = __builtin_fmaf(bf16_at(&a.bytes[m][2 * k]), weight, parts[k % 2]);
            }
            std::memcpy(&total, &sum.bytes[m][4 * n], 4);
            total += parts[0] + parts[1];
            std::memcpy(&sum.bytes[m][4 * n], &total, 4);
        }
    }
}

}  // namespace tiles_in_software
