// One row of a packed matrix as floats: a tied embedding is read from the very bytes the head multiplies with.
#include "kernels/functions.h"
#include "simd/half.h"

namespace tailrace::TAILRACE_ISA {

namespace {

const uint8_t* scales_of(Format format, const Tile& tile, int cols) {
    return tile.data + code_bytes(format, cols);
}

template <bool kHalf>
float read_scale(const uint8_t* scales, int index) {
    if constexpr (kHalf) return half_to_float(reinterpret_cast<const uint16_t*>(scales)[index]);
    return reinterpret_cast<const float*>(scales)[index];
}

template <bool kHalf>
void embed_q4(const Tile& tile, const uint8_t* scales, int lane, int cols, float* out) {
    for (int group = 0; group < cols / kGroup; ++group) {
        const float scale = read_scale<kHalf>(scales, group * 2 * kTile + lane);
        const float offset = read_scale<kHalf>(scales, group * 2 * kTile + kTile + lane);
        for (int i = 0; i < kGroup / 2; ++i) {
            const uint8_t pair = tile.data[group * 256 + i / 4 * 64 + lane * 4 + i % 4];
            out[group * kGroup + i] = scale * static_cast<float>(pair & 15) + offset;
            out[group * kGroup + 16 + i] = scale * static_cast<float>(pair >> 4) + offset;
        }
    }
}

template <bool kHalf>
void embed_q8(const Tile& tile, const uint8_t* scales, int lane, int cols, float* out) {
    for (int group = 0; group < cols / kGroup; ++group) {
        const float scale = read_scale<kHalf>(scales, group * kTile + lane);
        for (int i = 0; i < kGroup; ++i) {
            const int code = tile.data[group * 512 + i / 4 * 64 + lane * 4 + i % 4] - 128;
            out[group * kGroup + i] = scale * static_cast<float>(code);
        }
    }
}

}  // namespace

void embed(Format format, const Tile* tiles, int row, int cols, float* out) {
    const Tile& tile = tiles[row / kTile];
    const int lane = row % kTile;
    const uint8_t* scales = scales_of(format, tile, cols);
    const auto* halves = reinterpret_cast<const uint16_t*>(tile.data);
    switch (format) {
        case Format::kQ4:
            return embed_q4<false>(tile, scales, lane, cols, out);
        case Format::kQ4Half:
            return embed_q4<true>(tile, scales, lane, cols, out);
        case Format::kQ8:
            return embed_q8<false>(tile, scales, lane, cols, out);
        case Format::kQ8Half:
            return embed_q8<true>(tile, scales, lane, cols, out);
        case Format::kF32:
            for (int c = 0; c < cols; ++c) out[c] = reinterpret_cast<const float*>(tile.data)[c * kTile + lane];
            return;
        case Format::kF16:
            for (int c = 0; c < cols; ++c) out[c] = half_to_float(halves[c * kTile + lane]);
            return;
        case Format::kBf16:
            for (int c = 0; c < cols; ++c) out[c] = bf16_to_float(halves[(c / 2 * kTile + lane) * 2 + c % 2]);
            return;
    }
}

}  // namespace tailrace::TAILRACE_ISA
