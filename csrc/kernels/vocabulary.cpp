// What sampling needs to see of a whole row of logits.
#include "kernels/functions.h"
#include "kernels/scan.h"
#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

namespace {

float largest_of(const float* x, int n) {
    Vec best = set1(kLowest);
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) best = max(load(x + i), best);
    if (i < n) best = max(load_or(x + i, n - i, kLowest), best);
    return largest(best);
}

}  // namespace

int arg_max(const float* x, int n) {
    const Vec best = set1(largest_of(x, n));
    for (int i = 0; i < n; i += kLanes) {
        const Vec v = n - i >= kLanes ? load(x + i) : load_or(x + i, n - i, kLowest);
        uint32_t bits = at_least(v, best);
        // What fills up the last vector is the largest where no logit is a number.
        if (n - i < kLanes) bits &= (1u << (n - i)) - 1;
        if (bits != 0) return i + __builtin_ctz(bits);
    }
    return 0;
}

int top(const float* x, int n, int count, int32_t* ids) {
    int found = 0;
    const auto insert = [&](int id) {
        if (found == count && x[id] <= x[ids[found - 1]]) return;
        int place = found < count ? found++ : found - 1;
        for (; place > 0 && x[ids[place - 1]] < x[id]; --place) ids[place] = ids[place - 1];
        ids[place] = id;
    };
    // Once there are enough, only what beats the last of them matters: most of the vocabulary is passed over unseen.
    int i = 0;
    for (; i < n && found < count; ++i) insert(i);
    for (; i < n; i += 1024) {
        const int part = n - i < 1024 ? n - i : 1024;
        each_at_least(x + i, part, x[ids[found - 1]], [&](int offset) { insert(i + offset); });
    }
    return found;
}

int collect(const float* x, int n, float least, float below, int32_t* ids) {
    int count = 0;
    each_at_least(x, n, least, [&](int id) {
        ids[count] = id;
        count += x[id] < below;
    });
    return count;
}

double sum_at_least(const float* x, int n, float least) {
    double total = 0.0;
    for (int i = 0; i < n; i += 1024) {
        Vec part = zero();
        for (int k = i; k < n && k < i + 1024; k += kLanes) {
            const Vec v = n - k >= kLanes ? load(x + k) : load_first(x + k, n - k);
            part = part + where_less(v, set1(least), zero(), v);
        }
        total += sum(part);
    }
    return total;
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
