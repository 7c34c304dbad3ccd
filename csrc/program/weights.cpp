#include "program/weights.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace tailrace {

namespace {

// Rows of a tile past the end of the matrix stay zero, as the memory came.
int rows_of(const Tile& tile) { return tile.width; }

uint8_t* bytes_of(const Tile& tile) { return const_cast<uint8_t*>(tile.data); }

// Rows that are to be filled, of one array, the first of them being some tile's.
struct Rows {
    View view;
    int first;

    const uint8_t* row(const Tile& tile, int lane) const {
        return view.data + (tile.column + lane - first) * view.row_stride;
    }
};

// One scale (or offset) of each row, [groups] of them, `offset` bytes into each group of the tile.
void pack_scales(const Rows& scales, const Tile& tile, int groups, size_t value_bytes, size_t offset, size_t stride) {
    uint8_t* out = bytes_of(tile) + offset;
    for (int lane = 0; lane < rows_of(tile); ++lane) {
        const uint8_t* row = scales.row(tile, lane);
        for (int group = 0; group < groups; ++group) {
            std::memcpy(out + group * stride + lane * value_bytes, row + group * scales.view.group_stride, value_bytes);
        }
    }
}

// Words of four codes: word i of a group goes to vector i, into the place of its row.
template <int kWords>
void pack_codes(const Rows& codes, const Tile& tile, int groups, size_t stride, uint32_t flip) {
    for (int lane = 0; lane < rows_of(tile); ++lane) {
        const uint8_t* row = codes.row(tile, lane);
        for (int group = 0; group < groups; ++group) {
            uint32_t words[kWords];
            std::memcpy(words, row + group * codes.view.group_stride, sizeof words);
            uint8_t* out = bytes_of(tile) + group * stride + lane * 4;
            for (int i = 0; i < kWords; ++i) {
                const uint32_t word = words[i] ^ flip;
                std::memcpy(out + i * 64, &word, 4);
            }
        }
    }
}

template <class Value>
void pack_values(const Rows& values, const Tile& tile, int inputs) {
    for (int lane = 0; lane < rows_of(tile); ++lane) {
        const auto* row = reinterpret_cast<const Value*>(values.row(tile, lane));
        auto* out = reinterpret_cast<Value*>(bytes_of(tile)) + lane;
        for (int k = 0; k < inputs; ++k) out[static_cast<size_t>(k) * kTile] = row[k];
    }
}

void pack_pairs(const Rows& values, const Tile& tile, int inputs) {
    for (int lane = 0; lane < rows_of(tile); ++lane) {
        const auto* row = reinterpret_cast<const uint16_t*>(values.row(tile, lane));
        auto* out = reinterpret_cast<uint16_t*>(bytes_of(tile)) + lane * 2;
        for (int k = 0; k < inputs; ++k) out[static_cast<size_t>(k / 2) * kTile * 2 + k % 2] = row[k];
    }
}

}  // namespace

Weights::Weights() : ready_(Memory::shared(sizeof(std::atomic<uint32_t>))) {}

int Weights::add_matrix(Format format, int outputs, int inputs, bool is_lazy) {
    Room& room = is_lazy ? lazy_room_ : room_;
    const int num_tiles = (outputs + kTile - 1) / kTile;
    const size_t size = tile_bytes(format, inputs);
    Matrix matrix{format, outputs, inputs, {}};
    std::vector<size_t> places;
    for (int t = 0; t < num_tiles; ++t) {
        matrix.tiles.push_back({nullptr, t * kTile, std::min(kTile, outputs - t * kTile)});
        places.push_back(room.end + t * size);
    }
    matrices_.push_back(std::move(matrix));
    is_lazy_.push_back(is_lazy);
    places_.push_back(std::move(places));
    room.end += align64(num_tiles * size);
    num_bytes_ += num_tiles * size;
    return static_cast<int>(matrices_.size()) - 1;
}

int Weights::add_vector(const float* values, int count) {
    vectors_.emplace_back(values, values + count);
    num_bytes_ += static_cast<size_t>(count) * sizeof(float);
    return static_cast<int>(vectors_.size()) - 1;
}

void Weights::interleave(int first, int second, int run) {
    std::vector<size_t>* pair[] = {&places_.at(first), &places_.at(second)};
    std::vector<size_t> places = *pair[0];
    places.insert(places.end(), pair[1]->begin(), pair[1]->end());
    const size_t count = pair[0]->size();
    auto place = places.begin();
    for (size_t start = 0; start < count; start += run) {
        for (std::vector<size_t>* half : pair) {
            for (size_t t = start; t < std::min(start + run, count); ++t) (*half)[t] = *place++;
        }
    }
}

size_t Weights::Room::planned_bytes() const {
    constexpr size_t kSlack = 65536;  // kernels prefetch a little beyond the last tile
    return end + kSlack;
}

size_t Weights::planned_bytes() const { return room_.planned_bytes(); }

size_t Weights::bytes_of(int id) const {
    const Matrix& matrix = matrices_.at(id);
    return matrix.tiles.size() * tile_bytes(matrix.format, matrix.inputs);
}

void Weights::place(Memory memory) {
    room_.memory = std::move(memory);
    if (is_placed()) place_tiles(false);
}

void Weights::place_lazy() {
    lazy_room_.memory = Memory::of_small_pages(lazy_room_.planned_bytes());
    place_tiles(true);
}

void Weights::place_tiles(bool is_lazy) {
    const uint8_t* first = (is_lazy ? lazy_room_ : room_).memory.data();
    for (size_t id = 0; id < matrices_.size(); ++id) {
        std::vector<Tile>& tiles = matrices_[id].tiles;
        for (size_t t = 0; is_lazy_[id] == is_lazy && t < tiles.size(); ++t) tiles[t].data = first + places_[id][t];
    }
}

void Weights::populate(const std::vector<int>& ids) {
    for (const auto& [begin, end] : spans_of(ids)) lazy_room_.memory.populate(begin, end);
}

void Weights::release(const std::vector<int>& ids) {
    for (const auto& [begin, end] : spans_of(ids)) lazy_room_.memory.release(begin, end);
}

std::vector<Weights::Span> Weights::spans_of(const std::vector<int>& ids) const {
    std::vector<Span> tiles, spans;
    for (int id : ids) {
        if (!is_lazy_.at(id)) throw std::invalid_argument("weights: not a lazy matrix");
        const size_t bytes = tile_bytes(matrices_[id].format, matrices_[id].inputs);
        for (size_t place : places_[id]) tiles.push_back({place, place + bytes});
    }
    std::sort(tiles.begin(), tiles.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    for (const Span& tile : tiles) {
        if (!spans.empty() && align64(spans.back().end) == tile.begin) {
            spans.back().end = tile.end;
        } else {
            spans.push_back(tile);
        }
    }
    return spans;
}

void Weights::fill_q4(int id, int first_row, const View& codes, const View& scales, const View& offsets, bool half) {
    const size_t value_bytes = half ? 2 : 4;
    const Format format = half ? Format::kQ4Half : Format::kQ4;
    const size_t stride = group_bytes(format);
    const int groups = matrix(id).inputs / kGroup;
    const Tile* tile = tiles_of(id, first_row, codes, format);
    for (int row = 0; row < codes.rows; row += kTile, ++tile) {
        pack_codes<4>({codes, first_row}, *tile, groups, stride, 0);
        pack_scales({scales, first_row}, *tile, groups, value_bytes, 256, stride);
        pack_scales({offsets, first_row}, *tile, groups, value_bytes, 256 + kTile * value_bytes, stride);
    }
}

void Weights::fill_q8(int id, int first_row, const View& codes, const View& scales, bool half) {
    const Format format = half ? Format::kQ8Half : Format::kQ8;
    const size_t stride = group_bytes(format);
    const int groups = matrix(id).inputs / kGroup;
    const Tile* tile = tiles_of(id, first_row, codes, format);
    for (int row = 0; row < codes.rows; row += kTile, ++tile) {
        pack_codes<8>({codes, first_row}, *tile, groups, stride, 0x80808080);
        pack_scales({scales, first_row}, *tile, groups, half ? 2 : 4, 512, stride);
    }
}

void Weights::fill_float(int id, int first_row, const View& values, Format format) {
    const int inputs = matrix(id).inputs;
    const Tile* tile = tiles_of(id, first_row, values, format);
    for (int row = 0; row < values.rows; row += kTile, ++tile) {
        if (format == Format::kBf16) {
            pack_pairs({values, first_row}, *tile, inputs);
        } else if (format == Format::kF16) {
            pack_values<uint16_t>({values, first_row}, *tile, inputs);
        } else {
            pack_values<float>({values, first_row}, *tile, inputs);
        }
    }
}

const Tile* Weights::tiles_of(int id, int first_row, const View& view, Format format) const {
    const Matrix& matrix = matrices_.at(id);
    if (!matrix.tiles.front().data) throw std::invalid_argument("weights: there is no memory to fill");
    if (matrix.format != format) throw std::invalid_argument("weights: planned in another format");
    const int64_t end = first_row + view.rows;
    if (first_row < 0 || first_row % kTile || end > matrix.outputs || (end % kTile && end != matrix.outputs)) {
        throw std::invalid_argument("weights: rows that are no whole tiles of their matrix");
    }
    return matrix.tiles.data() + first_row / kTile;
}

void Weights::wait_for(uint32_t count) const {
    // Only while a model is loading, and then once a stage: not worth a wake-up between processes.
    while (num_ready() < count) std::this_thread::sleep_for(std::chrono::microseconds(200));
}

}  // namespace tailrace
