// How groups of 32 values become codes, scales and offsets: what tailrace.ops.packed says, to the bit.
//
// A target says:
//
//     kCodeBytes   of a group
//     narrow       up to sixteen groups, from group `first` of the output on, and what they lost
//
// Scales are found for sixteen groups at once: to round one takes as long as to round sixteen.
#pragma once

#include "convert/lanes.h"
#include "convert/stored.h"

namespace tailrace::TAILRACE_ISA {

constexpr int kBatch = kLanes;  // groups that are narrowed together

// Sums of squares, sixteen columns apart.
struct SquareLanes {
    Vec lost = zero(), values = zero();
};

// Writes one number for each group of a batch; what these are as float32. No zero is negative.
TAILRACE_INLINE Vec write_halves(Vec numbers, int count, uint16_t* out) {
    uint16_t halves[kBatch];
    store_half(halves, numbers);
    const Vec rounded = load_half(halves) + zero();
    store_half(halves, rounded);
    std::memcpy(out, halves, count * sizeof(uint16_t));
    return rounded;
}

// The scales of a batch, in the forms that codes are made with. A group of zeros is divided by 1.
struct Steps {
    float inverse[kBatch], negative[kBatch];  // of what is divided by
    float negative_scale[kBatch];

    explicit Steps(Vec scales) {
        const Vec divisors = where_less(zero(), scales, scales, set1(1.0f));
        store(inverse, set1(1.0f) / divisors);
        store(negative, zero() - divisors);
        store(negative_scale, zero() - scales);
    }
};

// x / divisor, rounded as a division rounds, for divisors that are float16. Their 11 bits make it quick: a product with
// the inverse is off by little, what it leaves of x is a float, and no quotient lies so near the middle of two floats
// that the inverse's own rounding counts. Dividing takes ten times as long.
TAILRACE_INLINE Vec divide(Vec x, const Steps& steps, int group) {
#if defined(__FMA__) || defined(TAILRACE_NEON)
    const Vec inverse = set1(steps.inverse[group]), near = x * inverse;
    return fma(fma(near, set1(steps.negative[group]), x), inverse, near);
#else
    return x / set1(-steps.negative[group]);
#endif
}

// The nearest codes for what lies `x` above their offset; what they lose is counted.
TAILRACE_INLINE VecI encode(Vec x, const Steps& steps, int group, float least, float most, Vec* lost) {
    const VecI codes = nearest(max(min(divide(x, steps, group), set1(most)), set1(least)));
    const Vec change = fma(to_float(codes), set1(steps.negative_scale[group]), x);
    *lost = fma(change, change, *lost);
    return codes;
}

TAILRACE_INLINE void add_values(Vec x, SquareLanes* squares) { squares->values = fma(x, x, squares->values); }

struct Q8Groups {
    static constexpr int kCodeBytes = 32;

    TAILRACE_INLINE void narrow(const float* values, int count, const NarrowRows& to, int64_t first,
                                SquareLanes* squares) {
        float tops[kBatch] = {};
        for (int i = 0; i < count; ++i) {
            const float* group = values + i * kCodeBytes;
            tops[i] = largest(max(abs(load(group)), abs(load(group + kLanes))));
        }
        const Steps steps(write_halves(load(tops) / set1(127.0f), count, to.scales + first));
        for (int i = 0; i < count; ++i) {
            const Vec a = load(values + i * kCodeBytes), b = load(values + i * kCodeBytes + kLanes);
            auto* codes = reinterpret_cast<int8_t*>(to.codes) + (first + i) * kCodeBytes;
            store_int8(codes, encode(a, steps, i, -127.0f, 127.0f, &squares->lost));
            store_int8(codes + kLanes, encode(b, steps, i, -127.0f, 127.0f, &squares->lost));
            add_values(a, squares);
            add_values(b, squares);
        }
    }
};

struct Q4Groups {
    static constexpr int kCodeBytes = 16;

    TAILRACE_INLINE void narrow(const float* values, int count, const NarrowRows& to, int64_t first,
                                SquareLanes* squares) {
        float tops[kBatch] = {}, bottoms[kBatch] = {};
        for (int i = 0; i < count; ++i) find_ends(values + 2 * kLanes * i, tops + i, bottoms + i);
        const Vec offsets = write_halves(load(bottoms), count, to.offsets + first);
        const Steps steps(write_halves((load(tops) - load(bottoms)) / set1(15.0f), count, to.scales + first));
        float least[kBatch];
        store(least, offsets);
        for (int i = 0; i < count; ++i) {
            const Vec a = load(values + 2 * kLanes * i), b = load(values + 2 * kLanes * i + kLanes);
            const VecI low = encode(a - set1(least[i]), steps, i, 0.0f, 15.0f, &squares->lost);
            const VecI high = encode(b - set1(least[i]), steps, i, 0.0f, 15.0f, &squares->lost);
            store_nibbles(low, high, to.codes + (first + i) * kCodeBytes);
            add_values(a, squares);
            add_values(b, squares);
        }
    }

  private:
    // The largest and the least of 32 values.
    TAILRACE_INLINE void find_ends(const float* group, float* top, float* bottom) {
        const Vec a = load(group), b = load(group + kLanes);
        const Vec tops = max(a, b), depths = zero() - min(a, b);
        Vec ends = where_between(0, 8, max(tops, swap_lanes<8>(tops)), max(depths, swap_lanes<8>(depths)));
        ends = max(ends, swap_lanes<4>(ends));
        ends = max(ends, swap_lanes<2>(ends));
        ends = max(ends, swap_lanes<1>(ends));
        float lanes[kLanes];
        store(lanes, ends);
        *top = lanes[0];
        *bottom = -lanes[8];
    }

    TAILRACE_INLINE void store_nibbles(VecI low, VecI high, uint8_t* codes) {
        // What is stored saturates as signed bytes do.
        store_int8(reinterpret_cast<int8_t*>(codes), low + shift_left<4>(high) + set1(int32_t{-128}));
        for (int i = 0; i < kCodeBytes; ++i) codes[i] ^= 0x80;
    }
};

}  // namespace tailrace::TAILRACE_ISA
