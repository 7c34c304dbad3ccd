// The weights of a model in the layout of the kernels (kernels/layout.h), packed once from whatever view they come in.
#pragma once

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
    std::vector<Tile> tiles;  // column counts from 0
};

class Weights {
  public:
    Weights() = default;
    Weights(const Weights&) = delete;
    Weights& operator=(const Weights&) = delete;

    // Each returns the number of the new matrix or vector.
    int add_q4(const View& codes, const View& scales, const View& offsets, int outputs, int groups, bool half);
    int add_q8(const View& codes, const View& scales, int outputs, int groups, bool half);
    int add_float(const View& values, int outputs, int inputs, Format format);
    int add_vector(const float* values, int count);

    // Lays the tiles of two matrices of one shape alternately, `run` of each, so that who multiplies with both reads
    // one stream. Call before anybody has taken tiles of them.
    void interleave(int first, int second, int run);

    const Matrix& matrix(int id) const { return matrices_.at(id); }
    const std::vector<float>& vector(int id) const { return vectors_.at(id); }
    size_t num_bytes() const { return num_bytes_; }

  private:
    Matrix& add_matrix(Format format, int outputs, int inputs);
    uint8_t* allocate(size_t bytes);

    std::vector<Matrix> matrices_;
    std::vector<std::vector<float>> vectors_;
    std::vector<Memory> chunks_;
    size_t used_ = 0;  // of the last chunk
    size_t num_bytes_ = 0;
};

}  // namespace tailrace
