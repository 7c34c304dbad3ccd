// Which tokens may be drawn: a row of bits for each sequence that has a guide. Somebody else writes a row while a step
// runs, and whoever draws with it waits until it holds for the position that is drawn.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "program/memory.h"

namespace tailrace {

class Masks {
  public:
    // No row holds for any position. Throws std::bad_alloc.
    Masks(int num_rows, int vocab);

    int num_rows() const { return num_rows_; }
    int num_words() const { return num_words_; }
    uint32_t* words() const { return reinterpret_cast<uint32_t*>(words_.data()); }  // [num_rows][num_words]

    // What was written into the row before holds from now on, for this position. Called by any thread.
    void tell(int row, int64_t position);
    // The row, once it holds for this position.
    const uint32_t* wait_for(int row, int64_t position);
    // What all waits together have taken.
    double waited_s() const { return static_cast<double>(waited_ns_.load(std::memory_order_relaxed)) * 1e-9; }

  private:
    const int num_rows_;
    const int num_words_;
    const Memory words_;
    const std::unique_ptr<std::atomic<int64_t>[]> positions_;
    std::atomic<int64_t> waited_ns_{0};
};

}  // namespace tailrace
