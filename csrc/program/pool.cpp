#include "program/pool.h"

#include <algorithm>

namespace tailrace {

Pool::Pool(int num_blocks, size_t block_bytes)
    : memory_(block_bytes * num_blocks), block_bytes_(block_bytes), is_committed_(num_blocks) {}

void Pool::commit(int first, int count) { std::fill_n(is_committed_.begin() + first, count, true); }

void Pool::release(int first, int count) {
    std::fill_n(is_committed_.begin() + first, count, false);
    const size_t page = memory_.page_bytes();
    size_t begin = first * block_bytes_, end = (first + count) * block_bytes_;
    const size_t page_begin = begin / page * page, page_end = std::min((end + page - 1) / page * page, memory_.size());
    if (!has_committed(page_begin, begin)) begin = page_begin;
    if (!has_committed(end, page_end)) end = page_end;
    memory_.release(begin, end);
}

bool Pool::has_committed(size_t begin, size_t end) const {
    if (begin >= end || block_bytes_ == 0) return false;
    const size_t last = std::min((end - 1) / block_bytes_ + 1, is_committed_.size());
    for (size_t block = begin / block_bytes_; block < last; ++block) {
        if (is_committed_[block]) return true;
    }
    return false;
}

}  // namespace tailrace
