// What attention's walk over the cache and the caches it reads have in common.
#pragma once

#include "kernels/kernels.h"
#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

constexpr int kKeyGroups = kKeyBlock / kKeyGroup;

// Vectors that a tile of rows keeps in registers at most, and its rows: more of these would cost more registers than
// they save loads.
#if defined(__AVX512F__)
constexpr int kAccumulators = 24;
constexpr int kAttendRows = 4;
#else
constexpr int kAccumulators = 4;
constexpr int kAttendRows = 2;
#endif

// Dimensions of a head's keys and of its values.
struct HeadDims {
    int key, value;

    constexpr int padded_key() const { return padded_head(key); }
    constexpr int padded_value() const { return padded_head(value); }
};

// The four groups of 16 positions that a key block is read from. What is read after this block is fetched meanwhile.
struct KeyBlock {
    const uint8_t* keys[kKeyGroups];
    const uint8_t* next_keys[kKeyGroups];
    int base;        // position of the first key
    int num_groups;  // that exist: behind them stands the first one again, which nobody sees there
};

// Dimensions of values: [first, last), whole vectors.
struct ValueDims {
    int first, last;

    constexpr int count() const { return last - first; }
};

// Where the values of a key block are, group by group, from some dimension on.
struct Values {
    const uint8_t* const* groups;
    const uint8_t* const* next;  // fetched meanwhile
    size_t place;                // in each group
    int dims;                    // from a row of values to the next
};

// Keys of a block that a row sees: [first, last).
struct KeyRange {
    int first, last;

    bool is_whole() const { return first == 0 && last == kKeyBlock; }
};

TAILRACE_INLINE int clamp_lane(int n) { return n < 0 ? 0 : n > kLanes ? kLanes : n; }

// The lanes of one group of keys that are seen, the others of `outside`.
TAILRACE_INLINE Vec where_seen(KeyRange seen, int group, Vec x, Vec outside) {
    const int lane = group * kKeyGroup;
    return where_between(clamp_lane(seen.first - lane), clamp_lane(seen.last - lane), x, outside);
}

}  // namespace tailrace::TAILRACE_ISA
