// The largest of many, exactly: their least is found by halving, on a scale where floats are whole numbers.
#include "kernels/functions.h"
#include "kernels/scan.h"
#include "simd/half.h"

namespace tailrace::TAILRACE_ISA {

namespace {

// Floats as whole numbers in the same order, and back.
int32_t rank_of(float x) {
    const auto bits = static_cast<int32_t>(float_bits(x));
    return bits < 0 ? bits ^ 0x7fffffff : bits;
}
float float_of(int32_t rank) { return bits_float(static_cast<uint32_t>(rank < 0 ? rank ^ 0x7fffffff : rank)); }

int count_at_least(const float* x, int n, float least) {
    int count = 0;
    each_part(x, n, least, [&](int, uint32_t bits) { count += __builtin_popcount(bits); });
    return count;
}

struct Bounds {
    float least, most;
};

Bounds bounds_of(const float* x, int n) {
    Vec least = set1(-kLowest), most = set1(kLowest);
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        least = min(load(x + i), least);
        most = max(load(x + i), most);
    }
    if (i < n) {
        least = min(load_or(x + i, n - i, -kLowest), least);
        most = max(load_or(x + i, n - i, kLowest), most);
    }
    return {-largest(zero() - least), largest(most)};
}

// What separates the best from the rest: those above `least` are among them, and the first few that equal it.
struct Cut {
    float least;
    int num_equals;
};

Cut cut_by_halving(const float* x, int n, int count) {
    const Bounds bounds = bounds_of(x, n);
    // At least `count` numbers reach `low`, fewer reach `high`: `num_above`.
    int64_t low = rank_of(bounds.least), high = int64_t{rank_of(bounds.most)} + 1;
    int num_above = 0;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        const float least = float_of(static_cast<int32_t>(middle));
        const int reached = count_at_least(x, n, least);
        if (reached == count) return {least, count};
        if (reached > count) {
            low = middle;
        } else {
            high = middle;
            num_above = reached;
        }
    }
    return {float_of(static_cast<int32_t>(low)), count - num_above};
}

// Copies those that are at least `least`, as long as there is room; returns how many there are.
int copy_at_least(const float* x, int n, float least, float* out, int room) {
    int found = 0;
    each_at_least(x, n, least, [&](int i) {
        if (found < room) out[found] = x[i];
        ++found;
    });
    return found;
}

// Halving passes over the numbers some twenty times. Of many, a sample says which are worth it: a few more than the
// best. If it is wrong and there are too few or too many of those, halving has to pass over all.
Cut cut_of_many(const float* x, int n, int count, float* scratch) {
    int num_sampled = 0;
    for (int i = 0; i < n; i += kSelectStep) scratch[num_sampled++] = x[i];
    const int expected = count / kSelectStep;  // of the best, in the sample
    const int rank = expected + 4 + static_cast<int>(4.0f * __builtin_sqrtf(static_cast<float>(expected)));
    const Cut sampled = cut_by_halving(scratch, num_sampled, rank < num_sampled ? rank : num_sampled);
    const int room = kSelectRoom * count, found = copy_at_least(x, n, sampled.least, scratch, room);
    return found < count || found > room ? cut_by_halving(x, n, count) : cut_by_halving(scratch, found, count);
}

}  // namespace

int select(const float* x, int n, int count, float* scratch, int32_t* ids) {
    const Cut cut = n > kSelectRoom * count ? cut_of_many(x, n, count, scratch) : cut_by_halving(x, n, count);
    int found = 0, num_equals = cut.num_equals;
    each_at_least(x, n, cut.least, [&](int id) {
        if (x[id] > cut.least || --num_equals >= 0) ids[found++] = id;
    });
    return found;
}

}  // namespace tailrace::TAILRACE_ISA
