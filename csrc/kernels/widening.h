// Tiles of e4m3 as the tiles of bfloat16 that hold the same numbers (layout.h): scales are powers of two, so that
// nothing is rounded. A tile is widened once for all rows that meet it. What is read next is fetched meanwhile.
#pragma once

#include "kernels/attention_pairs.h"
#include "simd/e4m3.h"

namespace tailrace::TAILRACE_ISA {

// Pairs of scales for sixteen lanes.
struct PairScales {
    uint16_t lanes[kLanes][2];

    Words load() const { return load_words(lanes); }
};

// What widen adds for each of sixteen positions.
struct PositionScales {
    uint16_t positions[kKeyGroup];

    explicit PositionScales(const uint8_t* scales) {
        for (int i = 0; i < kKeyGroup; ++i) {
            uint32_t bits;
            std::memcpy(&bits, scales + i * sizeof bits, sizeof bits);
            positions[i] = widening(static_cast<uint16_t>(bits >> 16));
        }
    }

    // For keys: both of a pair belong to one position.
    Words of_keys() const {
        PairScales pairs;
        for (int i = 0; i < kLanes; ++i) pairs.lanes[i][0] = pairs.lanes[i][1] = positions[i];
        return pairs.load();
    }

    // For values: lanes are dimensions, and all have the pair of positions `first` and the next.
    Words of_values(int first) const {
        PairScales pairs;
        for (auto& lane : pairs.lanes) std::memcpy(lane, positions + first, sizeof lane);
        return pairs.load();
    }
};

// Keys are stored mixed (head.h), so queries are mixed too.
template <class Operand>
static inline void store_mixed(const float* q, int head_dim, float scale, Operand* out) {
    float mixed[kMaxHeadDim];
    mix(q, head_dim, mixed);
    for (int d = 0; d < padded_head(head_dim); d += kLanes) store_pairs(out + d / 2, load(mixed + d) * set1(scale));
}

// Codes [dim/4][16][4] to pairs [dim/2][16][2]; from `low` to `high`, the upper two codes of a quad.
TAILRACE_INLINE void widen_line(const uint8_t* quads, const Words& low_scales, const Words& high_scales, uint8_t* low,
                                uint8_t* high) {
    const Words codes = load_words(quads);
    store_words(low, widen<0>(codes, low_scales));
    store_words(high, widen<1>(codes, high_scales));
}

// Dimensions of keys that share their scales: `dim`, a multiple of 16.
TAILRACE_INLINE void widen_dims(const uint8_t* quads, int dim, const Words& scales, const uint8_t* next,
                                uint8_t* pairs) {
    for (int line = 0; line < dim / 4; ++line) {
        prefetch_later(next + line * 64);
        widen_line(quads + line * 64, scales, scales, pairs + line * 128, pairs + line * 128 + 64);
    }
}

static inline void widen_keys(const uint8_t* tile, int dim, const uint8_t* next, uint8_t* out) {
    widen_dims(tile, dim, PositionScales(tile + dim * kKeyGroup).of_keys(), next, out);
}

static inline void widen_values(const uint8_t* tile, int dim, const uint8_t* next, uint8_t* out) {
    const PositionScales scales(tile + dim * kKeyGroup);
    const size_t row_bytes = static_cast<size_t>(dim) * 4;
    for (int row = 0; row < 4; ++row) {
        const Words low = scales.of_values(4 * row), high = scales.of_values(4 * row + 2);
        for (size_t column = 0; column < row_bytes; column += 64) {
            const size_t place = row * row_bytes + column;
            uint8_t* pairs = out + 2 * row * row_bytes + column;
            prefetch_later(next + place);
            widen_line(tile + place, low, high, pairs, pairs + row_bytes);
        }
    }
}

// Of a latent cache: behind the codes lie, for each position, the scales of its latent and of its turned part.
static inline void widen_latent(const uint8_t* tile, int latent_dim, int dim, const uint8_t* next, uint8_t* out) {
    const uint8_t* scales = tile + static_cast<size_t>(dim) * kKeyGroup;
    PairScales latent, turned;
    for (int i = 0; i < kKeyGroup; ++i) {
        uint16_t pair[2];
        std::memcpy(pair, scales + i * sizeof pair, sizeof pair);
        latent.lanes[i][0] = latent.lanes[i][1] = widening(pair[0]);
        turned.lanes[i][0] = turned.lanes[i][1] = widening(pair[1]);
    }
    const size_t codes = static_cast<size_t>(latent_dim) * kKeyGroup;
    widen_dims(tile, latent_dim, latent.load(), next, out);
    widen_dims(tile + codes, dim - latent_dim, turned.load(), next + codes, out + 2 * codes);
}

// A key block of widened tiles. Groups that do not exist stay the first one's again.
template <class Widen>
TAILRACE_INLINE KeyBlock widen_groups(const KeyBlock& block, size_t tile_bytes, uint8_t* memory, const Widen& widen) {
    KeyBlock widened = block;
    for (int g = 0; g < kKeyGroups; ++g) {
        uint8_t* tile = memory + (g < block.num_groups ? g * tile_bytes : 0);
        if (g < block.num_groups) widen(block.keys[g], block.next_keys[g], tile);
        widened.keys[g] = widened.next_keys[g] = tile;
    }
    return widened;
}

}  // namespace tailrace::TAILRACE_ISA
