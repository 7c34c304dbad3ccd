// What sampling needs to see of a whole row of logits.
#include "kernels/functions.h"
#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

namespace {

constexpr float kLowest = -__builtin_inff();

TAILRACE_INLINE Vec load_or(const float* x, int n, float other) {
    return where_between(0, n, load_first(x, n), set1(other));
}

float largest_of(const float* x, int n) {
    Vec best = set1(kLowest);
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) best = max(load(x + i), best);
    if (i < n) best = max(load_or(x + i, n - i, kLowest), best);
    return largest(best);
}

}  // namespace

int arg_max(const float* x, int n) {
    const float best = largest_of(x, n);
    for (int i = 0; i < n; ++i) {
        if (x[i] == best) return i;
    }
    return 0;
}

float sum_exp(const float* x, int n, float max) {
    Vec total = zero();
    const Vec top = set1(max);
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) total = total + exp(load(x + i) - top);
    if (i < n) total = total + exp(load_or(x + i, n - i, kLowest) - top);
    return sum(total);
}

void exp_scaled(const float* x, int n, float max, float temperature, float* out) {
    const Vec t = set1(temperature), top = set1(max);
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) store(out + i, exp((load(x + i) - top) / t));
    if (i < n) store_first(out + i, exp((load_first(x + i, n - i) - top) / t), n - i);
}

}  // namespace tailrace::TAILRACE_ISA
