// How far the two ends of a ring are: the first two cache lines of its memory. All zeros are an empty ring.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace tailrace {

// What lies in the memory of a ring cannot have been written by its other end.
struct RingDamage : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Both only grow. The writer stores head behind what it has written, so that a writer that dies before leaves nothing
// to be seen; the reader stores tail when it has copied. Nothing of them is remembered between calls: whoever takes the
// place of a dead end goes on where that one stopped.
struct Positions {
    alignas(64) std::atomic<uint64_t> head;
    alignas(64) std::atomic<uint64_t> tail;

    // Written and not yet read, for either end. Both are checked, since the other end may write anything.
    uint64_t used(uint64_t capacity) const {
        const uint64_t used = head.load(std::memory_order_acquire) - tail.load(std::memory_order_acquire);
        if (used > capacity) throw RingDamage("the positions of its ends contradict each other");
        return used;
    }
};

static_assert(sizeof(Positions) == 128 && std::atomic<uint64_t>::is_always_lock_free);

// Behind a copy of what the other end may still be writing to: what is checked then is what is used.
inline void copied() { std::atomic_signal_fence(std::memory_order_seq_cst); }

// Throws std::invalid_argument, saying what for.
Positions* positions_at(void* memory, size_t num_bytes, size_t least_bytes);

}  // namespace tailrace
