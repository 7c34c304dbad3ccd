// One row of a packed matrix as floats: a tied embedding is read from the very bytes the head multiplies with.
#include "kernels/functions.h"
#include "simd/half.h"

namespace tailrace::TAILRACE_ISA {

namespace {

template <bool kHalf>
float read_scale(const uint8_t* scales, int index) {
    if constexpr (kHalf) return half_to_float(reinterpret_cast<const uint16_t*>(scales)[index]);
    return reinterpret_cast<const float*>(scales)[index];
}

template <bool kHalf>
void embed_q4(const uint8_t* group, int lane, int num_groups, float* out) {
    for (int g = 0; g < num_groups; ++g, out += kGroup) {
        const float scale = read_scale<kHalf>(group + 256, lane);
        const float offset = read_scale<kHalf>(group + 256, kTile + lane);
        for (int i = 0; i < kGroup / 2; ++i) {
            const uint8_t pair = group[i / 4 * 64 + lane * 4 + i % 4];
            out[i] = scale * static_cast<float>(pair & 15) + offset;
            out[16 + i] = scale * static_cast<float>(pair >> 4) + offset;
        }
        group += group_bytes(kHalf ? Format::kQ4Half : Format::kQ4);
    }
}

template <bool kHalf>
void embed_q8(const uint8_t* group, int lane, int num_groups, float* out) {
    for (int g = 0; g < num_groups; ++g, out += kGroup) {
        const float scale = read_scale<kHalf>(group + 512, lane);
        for (int i = 0; i < kGroup; ++i) {
            out[i] = scale * static_cast<float>(group[i / 4 * 64 + lane * 4 + i % 4] - 128);
        }
        group += group_bytes(kHalf ? Format::kQ8Half : Format::kQ8);
    }
}

}  // namespace

void embed(Format format, const Tile* tiles, int row, int cols, float* out) {
    const Tile& tile = tiles[row / kTile];
    const int lane = row % kTile;
    const int groups = cols / kGroup;
    const auto* halves = reinterpret_cast<const uint16_t*>(tile.data);
    switch (format) {
        case Format::kQ4:
            return embed_q4<false>(tile.data, lane, groups, out);
        case Format::kQ4Half:
            return embed_q4<true>(tile.data, lane, groups, out);
        case Format::kQ8:
            return embed_q8<false>(tile.data, lane, groups, out);
        case Format::kQ8Half:
            return embed_q8<true>(tile.data, lane, groups, out);
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
