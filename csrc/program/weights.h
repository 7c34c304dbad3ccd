// The weights of a model in the layout of the kernels (kernels/layout.h). First all are planned, then they get memory,
// then they are filled, in any order and by any thread, or process that shares the memory; who reads waits for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "program/memory.h"

namespace tailrace {

// A two- or three-dimensional view of someone else's array; strides in bytes.
struct View {
    const uint8_t* data;
    int64_t rows;
    int64_t row_stride;
    int64_t group_stride;  // from group to group within a row; values inside a group are neighbours
};

struct Matrix {
    Format format;
    int outputs;
    int inputs;
    std::vector<Tile> tiles;  // column counts from 0; without data until there is memory
};

class Weights {
  public:
    Weights();
    Weights(const Weights&) = delete;
    Weights& operator=(const Weights&) = delete;

    // Planning: each returns the number of the new matrix or vector. What is lazy has memory of its own, this
    // process's, into which single matrices come, and from which they go.
    int add_matrix(Format format, int outputs, int inputs, bool is_lazy = false);
    int add_vector(const float* values, int count);
    // Lays the tiles of two matrices of one shape alternately, `run` of each, so that who multiplies with both reads
    // one stream.
    void interleave(int first, int second, int run);
    // What all matrices but lazy ones take, and a little more, which kernels prefetch.
    size_t planned_bytes() const;
    size_t bytes_of(int id) const;

    // Ends planning. The memory has the planned bytes at least.
    void place(Memory memory);
    bool is_placed() const { return room_.memory.size() > 0; }
    const Memory& memory() const { return room_.memory; }
    // Takes memory for lazy matrices, in the process that computes; none of it is resident. Throws std::bad_alloc.
    void place_lazy();
    // Makes lazy matrices resident, before they are filled, or gives back what they take, as far as it is whole pages.
    // Those that are interleaved go together.
    void populate(const std::vector<int>& ids);
    void release(const std::vector<int>& ids);

    // Filling: rows [first_row, first_row + view.rows) of a matrix; `first_row` begins a tile. Throws
    // std::invalid_argument for what does not fit.
    void fill_q4(int id, int first_row, const View& codes, const View& scales, const View& offsets, bool half);
    void fill_q8(int id, int first_row, const View& codes, const View& scales, bool half);
    void fill_float(int id, int first_row, const View& values, Format format);
    // Whoever fills says how many of the weights are whole, counted in an order that it shares with who reads.
    void set_ready(uint32_t count) { ready()->store(count, std::memory_order_release); }
    uint32_t num_ready() const { return ready()->load(std::memory_order_acquire); }
    // Blocks until so many are.
    void wait_for(uint32_t count) const;

    const Matrix& matrix(int id) const { return matrices_.at(id); }
    const std::vector<float>& vector(int id) const { return vectors_.at(id); }
    size_t num_bytes() const { return num_bytes_; }

  private:
    struct Room {
        Memory memory;
        size_t end = 0;

        size_t planned_bytes() const;
    };
    struct Span {
        size_t begin, end;
    };

    std::atomic<uint32_t>* ready() const { return reinterpret_cast<std::atomic<uint32_t>*>(ready_.data()); }
    void place_tiles(bool is_lazy);
    // Where these matrices lie, neighbours together.
    std::vector<Span> spans_of(const std::vector<int>& ids) const;
    // The tiles that hold these rows.
    const Tile* tiles_of(int id, int first_row, const View& view, Format format) const;

    std::vector<Matrix> matrices_;
    std::vector<bool> is_lazy_;
    std::vector<std::vector<size_t>> places_;  // of each matrix's tiles, in the memory
    std::vector<std::vector<float>> vectors_;
    Room room_;
    Room lazy_room_;
    Memory ready_;  // shared, whatever the weights are
    size_t num_bytes_ = 0;
};

}  // namespace tailrace
