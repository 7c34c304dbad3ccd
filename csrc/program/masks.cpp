#include "program/masks.h"

#include <chrono>

namespace tailrace {

Masks::Masks(int num_rows, int vocab)
    : num_rows_(num_rows),
      num_words_((vocab + 31) / 32),
      words_(Memory::of_small_pages(static_cast<size_t>(num_rows) * num_words_ * sizeof(uint32_t))),
      positions_(new std::atomic<int64_t>[num_rows]) {
    for (int row = 0; row < num_rows; ++row) positions_[row].store(-1, std::memory_order_relaxed);
}

void Masks::tell(int row, int64_t position) {
    positions_[row].store(position, std::memory_order_release);
    positions_[row].notify_all();
}

const uint32_t* Masks::wait_for(int row, int64_t position) {
    const std::atomic<int64_t>& told = positions_[row];
    int64_t seen = told.load(std::memory_order_acquire);
    if (seen != position) {
        const auto began = std::chrono::steady_clock::now();
        for (; seen != position; seen = told.load(std::memory_order_acquire))
            told.wait(seen, std::memory_order_acquire);
        waited_ns_.fetch_add(std::chrono::nanoseconds(std::chrono::steady_clock::now() - began).count(),
                             std::memory_order_relaxed);
    }
    return words() + static_cast<size_t>(row) * num_words_;
}

}  // namespace tailrace
