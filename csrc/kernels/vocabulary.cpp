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

constexpr uint32_t kBits[32] = {
    1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,  1u << 8,  1u << 9,  1u << 10,
    1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21,
    1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31,
};

// Of 32 numbers. Against a table of bits, for which every compiler has vectors.
void forbid_some(const float* x, uint32_t word, float* out) {
    for (int k = 0; k < 32; ++k) out[k] = word & kBits[k] ? x[k] : kLowest;
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

// Whole words of ones or zeros are common: most tokens are allowed within a string, few elsewhere.
void forbid(const float* x, const uint32_t* allowed, int n, float* out) {
    for (int i = 0; i < n; i += 32) {
        const uint32_t word = allowed[i / 32];
        const int count = n - i < 32 ? n - i : 32;
        if (word == 0) {
            for (int k = 0; k < count; ++k) out[i + k] = kLowest;
        } else if (count < 32) {
            for (int k = 0; k < count; ++k) out[i + k] = word >> k & 1 ? x[i + k] : kLowest;
        } else if (word != ~0u) {
            forbid_some(x + i, word, out + i);
        } else if (x != out) {
            for (int k = 0; k < 32; ++k) out[i + k] = x[i + k];
        }
    }
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
