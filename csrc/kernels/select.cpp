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

// Those of x that are larger than `least`, and the first `num_equals` that equal it, in ascending order.
int collect_best(const float* x, int n, float least, int num_equals, int32_t* ids) {
    int found = 0;
    each_at_least(x, n, least, [&](int id) {
        if (x[id] > least || --num_equals >= 0) ids[found++] = id;
    });
    return found;
}

}  // namespace

int select(const float* x, int n, int count, int32_t* ids) {
    const Bounds bounds = bounds_of(x, n);
    // At least `count` numbers reach `low`, fewer reach `high`: `num_above`.
    int64_t low = rank_of(bounds.least), high = int64_t{rank_of(bounds.most)} + 1;
    int num_above = 0;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        const float least = float_of(static_cast<int32_t>(middle));
        const int reached = count_at_least(x, n, least);
        if (reached == count) return collect_best(x, n, least, count, ids);
        if (reached > count) {
            low = middle;
        } else {
            high = middle;
            num_above = reached;
        }
    }
    return collect_best(x, n, float_of(static_cast<int32_t>(low)), count - num_above, ids);
}

}  // namespace tailrace::TAILRACE_ISA
