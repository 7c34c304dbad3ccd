#include "program/weights.h"

#include <algorithm>
#include <cstring>

namespace tailrace {

namespace {

// Rows of a tile past the end of the matrix stay zero, as the memory came.
int rows_of(const Tile& tile) { return tile.width; }

uint8_t* bytes_of(const Tile& tile) { return const_cast<uint8_t*>(tile.data); }

const uint8_t* row_of(const View& view, const Tile& tile, int lane) {
    return view.data + (tile.column + lane) * view.row_stride;
}

// One scale (or offset) of each row, [groups] of them, `offset` bytes into each group of the tile.
void pack_scales(const View& scales, const Tile& tile, int groups, size_t value_bytes, size_t offset, size_t stride) {
    uint8_t* out = bytes_of(tile) + offset;
    for (int lane = 0; lane < rows_of(tile); ++lane) {
        const uint8_t* row = row_of(scales, tile, lane);
        for (int group = 0; group < groups; ++group) {
            std::memcpy(out + group * stride + lane * value_bytes, row + group * scales.group_stride, value_bytes);
        }
    }
}

// Words of four codes: word i of a group goes to vector i, into the place of its row.
template <int kWords>
void pack_codes(const View& codes, const Tile& tile, int groups, size_t stride, uint32_t flip) {
    for (int lane = 0; lane < rows_of(tile); ++lane) {
        const uint8_t* row = row_of(codes, tile, lane);
        for (int group = 0; group < groups; ++group) {
            uint32_t words[kWords];
            std::memcpy(words, row + group * codes.group_stride, sizeof words);
            uint8_t* out = bytes_of(tile) + group * stride + lane * 4;
            for (int i = 0; i < kWords; ++i) {
                const uint32_t word = words[i] ^ flip;
                std::memcpy(out + i * 64, &word, 4);
            }
        }
    }
}

template <class Value>
void pack_values(const View& values, const Tile& tile, int inputs) {
    for (int lane = 0; lane < rows_of(tile); ++lane) {
        const auto* row = reinterpret_cast<const Value*>(row_of(values, tile, lane));
        auto* out = reinterpret_cast<Value*>(bytes_of(tile)) + lane;
        for (int k = 0; k < inputs; ++k) out[static_cast<size_t>(k) * kTile] = row[k];
    }
}

void pack_pairs(const View& values, const Tile& tile, int inputs) {
    for (int lane = 0; lane < rows_of(tile); ++lane) {
        const auto* row = reinterpret_cast<const uint16_t*>(row_of(values, tile, lane));
        auto* out = reinterpret_cast<uint16_t*>(bytes_of(tile)) + lane * 2;
        for (int k = 0; k < inputs; ++k) out[static_cast<size_t>(k / 2) * kTile * 2 + k % 2] = row[k];
    }
}

}  // namespace

int Weights::add_q4(const View& codes, const View& scales, const View& offsets, int outputs, int groups, bool half) {
    const size_t value_bytes = half ? 2 : 4;
    const Matrix& matrix = add_matrix(half ? Format::kQ4Half : Format::kQ4, outputs, groups * kGroup);
    const size_t stride = group_bytes(matrix.format);
    for (const Tile& tile : matrix.tiles) {
        pack_codes<4>(codes, tile, groups, stride, 0);
        pack_scales(scales, tile, groups, value_bytes, 256, stride);
        pack_scales(offsets, tile, groups, value_bytes, 256 + kTile * value_bytes, stride);
    }
    return static_cast<int>(matrices_.size()) - 1;
}

int Weights::add_q8(const View& codes, const View& scales, int outputs, int groups, bool half) {
    const size_t value_bytes = half ? 2 : 4;
    const Matrix& matrix = add_matrix(half ? Format::kQ8Half : Format::kQ8, outputs, groups * kGroup);
    const size_t stride = group_bytes(matrix.format);
    for (const Tile& tile : matrix.tiles) {
        pack_codes<8>(codes, tile, groups, stride, 0x80808080);
        pack_scales(scales, tile, groups, value_bytes, 512, stride);
    }
    return static_cast<int>(matrices_.size()) - 1;
}

int Weights::add_float(const View& values, int outputs, int inputs, Format format) {
    for (const Tile& tile : add_matrix(format, outputs, inputs).tiles) {
        if (format == Format::kBf16) {
            pack_pairs(values, tile, inputs);
        } else if (format == Format::kF16) {
            pack_values<uint16_t>(values, tile, inputs);
        } else {
            pack_values<float>(values, tile, inputs);
        }
    }
    return static_cast<int>(matrices_.size()) - 1;
}

int Weights::add_vector(const float* values, int count) {
    vectors_.emplace_back(values, values + count);
    num_bytes_ += static_cast<size_t>(count) * sizeof(float);
    return static_cast<int>(vectors_.size()) - 1;
}

void Weights::interleave(int first, int second, int run) {
    Matrix* pair[] = {&matrices_.at(first), &matrices_.at(second)};
    const size_t size = tile_bytes(pair[0]->format, pair[0]->inputs), count = pair[0]->tiles.size();
    std::vector<uint8_t*> slots;
    std::vector<uint8_t> copy(2 * count * size);
    for (const Matrix* matrix : pair) {
        for (const Tile& tile : matrix->tiles) {
            std::memcpy(copy.data() + slots.size() * size, tile.data, size);
            slots.push_back(bytes_of(tile));
        }
    }
    auto slot = slots.begin();
    for (size_t start = 0; start < count; start += run) {
        for (int half = 0; half < 2; ++half) {
            for (size_t t = start; t < std::min(start + run, count); ++t, ++slot) {
                std::memcpy(*slot, copy.data() + (half * count + t) * size, size);
                pair[half]->tiles[t].data = *slot;
            }
        }
    }
}

Matrix& Weights::add_matrix(Format format, int outputs, int inputs) {
    const int num_tiles = (outputs + kTile - 1) / kTile;
    const size_t size = tile_bytes(format, inputs);
    const uint8_t* data = allocate(num_tiles * size);
    Matrix matrix{format, outputs, inputs, {}};
    for (int t = 0; t < num_tiles; ++t) {
        matrix.tiles.push_back({data + t * size, t * kTile, std::min(kTile, outputs - t * kTile)});
    }
    matrices_.push_back(std::move(matrix));
    return matrices_.back();
}

uint8_t* Weights::allocate(size_t bytes) {
    constexpr size_t kChunk = size_t{64} << 20;  // only what is written becomes resident
    constexpr size_t kSlack = 65536;             // kernels prefetch a little beyond the last tile
    if (chunks_.empty() || used_ + bytes + kSlack > chunks_.back().size()) {
        chunks_.emplace_back(std::max(kChunk, bytes + kSlack));
        used_ = 0;
    }
    uint8_t* data = chunks_.back().data() + used_;
    used_ += align64(bytes);
    num_bytes_ += bytes;
    return data;
}

}  // namespace tailrace
