// What this core can do at best: the ceilings that kernels are compared with.
#include "kernels/attention_pairs.h"
#include "kernels/functions.h"
#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

namespace {

// As many sums at once as hide how long a product takes, and have registers.
#if defined(__AVX512F__)
constexpr int kSums = 12;
#else
constexpr int kSums = 6;
#endif

// For all the compiler knows, these are any numbers.
template <class Number, size_t kCount>
TAILRACE_INLINE void fill_ones(Number (&numbers)[kCount], Number one) {
    for (Number& number : numbers) number = one;
    __asm__ volatile("" : : "r"(numbers) : "memory");
}

TAILRACE_INLINE float sum_of_all(const Vec (&sums)[kSums]) {
    float total = 0.0f;
    for (const Vec& each : sums) total += sum(each);
    return total;
}

}  // namespace

float read_floats(const float* x, size_t n) {
    Vec total[8];
    for (Vec& t : total) t = zero();
    for (size_t i = 0; i + 8 * kLanes <= n; i += 8 * kLanes) {
        for (int k = 0; k < 8; ++k) total[k] = max(total[k], load(x + i + k * kLanes));
    }
    for (int k = 1; k < 8; ++k) total[0] = max(total[0], total[k]);
    return largest(total[0]);
}

float multiply_floats(int64_t count) {
    float ones[kLanes];
    fill_ones(ones, 1.0f);
    const Vec x = load(ones), y = load(ones);
    Vec sums[kSums];
    for (Vec& each : sums) each = zero();
    for (int64_t i = 0; i < count; i += kSums) {
#pragma GCC unroll 12
        for (int k = 0; k < kSums; ++k) sums[k] = fma(x, y, sums[k]);
    }
    return sum_of_all(sums);
}

float multiply_halves(int64_t count) {
    uint16_t ones[2 * kLanes];
    fill_ones(ones, uint16_t{0x3f80});
    Vec sums[kSums];
    for (Vec& each : sums) each = zero();
#if defined(__AVX512BF16__)
    HalfPairs pairs;
    const auto* weights = reinterpret_cast<const uint8_t*>(ones);
    for (int64_t i = 0; i < count; i += 2 * kSums) {
#pragma GCC unroll 12
        for (int k = 0; k < kSums; ++k) sums[k] = pairs.step(sums[k], weights, 0x3f803f80);
    }
#else
    float numbers[kLanes];
    fill_ones(numbers, 1.0f);
    const Vec x = load(numbers);
    for (int64_t i = 0; i < count; i += 2 * kSums) {
        Vec even, odd;  // widened once, for as many rows as there are sums
        load_bf16_pairs(ones, &even, &odd);
        __asm__ volatile("" : : : "memory");
#pragma GCC unroll 12
        for (int k = 0; k < kSums; ++k) sums[k] = fma(odd, x, fma(even, x, sums[k]));
    }
#endif
    return sum_of_all(sums);
}

}  // namespace tailrace::TAILRACE_ISA
