// The KV pool: addresses for all its blocks, memory for those that are committed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/memory.h"

namespace tailrace {

//   pages   |--------------|--------------|--------------|
//   blocks  |----|----|----|----|----|----|----|----|----|--
//
// A page goes back to the system when no block that touches it is committed any more. Blocks that are not committed may
// be used too: the system gives them memory as they are touched, and may take it when their neighbours are released.
class Pool {
  public:
    Pool() = default;
    // Throws std::bad_alloc.
    Pool(int num_blocks, size_t block_bytes);

    uint8_t* data() const { return memory_.data(); }  // [num_blocks][block_bytes]
    void commit(int first, int count);
    void release(int first, int count);
    // Gets the memory of blocks now, rather than as they are touched. Throws std::bad_alloc.
    void populate(int first, int count) { memory_.populate(first * block_bytes_, (first + count) * block_bytes_); }
    size_t resident_bytes() const { return memory_.resident_bytes(); }

  private:
    bool has_committed(size_t begin, size_t end) const;

    Memory memory_;
    size_t block_bytes_ = 0;
    std::vector<bool> is_committed_;
};

}  // namespace tailrace
