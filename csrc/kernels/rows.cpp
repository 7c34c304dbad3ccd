// Row-wise ops: norm, gate and quantisation of activations.
#include <cstring>

#include "kernels/functions.h"
#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

void rms_norm(const float* x, const float* weight, int cols, float eps, float* out) {
    Vec squares = zero();
    int c = 0;
    for (; c + kLanes <= cols; c += kLanes) {
        const Vec v = load(x + c);
        squares = fma(v, v, squares);
    }
    if (c < cols) {
        const Vec v = load_first(x + c, cols - c);
        squares = fma(v, v, squares);
    }
    const Vec factor = set1(1.0f / __builtin_sqrtf(sum(squares) / static_cast<float>(cols) + eps));
    for (c = 0; c + kLanes <= cols; c += kLanes) store(out + c, load(x + c) * factor * load(weight + c));
    if (c < cols) {
        const int n = cols - c;
        store_first(out + c, load_first(x + c, n) * factor * load_first(weight + c, n), n);
    }
}

// Columns [c, c + 16) less the mean, zeros behind the end.
TAILRACE_INLINE Vec centred(const float* x, int c, int cols, Vec mean) {
    if (cols - c >= kLanes) return load(x + c) - mean;
    return where_between(0, cols - c, load_first(x + c, cols - c) - mean, zero());
}

void layer_norm(const float* x, const float* weight, const float* bias, int cols, float eps, float* out) {
    Vec total = zero(), squares = zero();
    for (int c = 0; c < cols; c += kLanes) total = total + centred(x, c, cols, zero());
    const Vec mean = set1(sum(total) / static_cast<float>(cols));
    for (int c = 0; c < cols; c += kLanes) {
        const Vec v = centred(x, c, cols, mean);
        squares = fma(v, v, squares);
    }
    const Vec factor = set1(1.0f / __builtin_sqrtf(sum(squares) / static_cast<float>(cols) + eps));
    for (int c = 0; c < cols; c += kLanes) {
        const int n = cols - c < kLanes ? cols - c : kLanes;
        const Vec normed = centred(x, c, cols, mean) * factor;
        store_first(out + c, normed * load_first(weight + c, n) + load_first(bias + c, n), n);
    }
}

TAILRACE_INLINE Vec silu_times(Vec gate, Vec up) { return gate / (set1(1.0f) + exp(zero() - gate)) * up; }

void swiglu(const float* gate, const float* up, int cols, float* out) {
    int c = 0;
    for (; c + kLanes <= cols; c += kLanes) store(out + c, silu_times(load(gate + c), load(up + c)));
    if (c < cols) {
        const int n = cols - c;
        store_first(out + c, silu_times(load_first(gate + c, n), load_first(up + c, n)), n);
    }
}

// Bit i: whether any of the four codes of quad i is not zero.
TAILRACE_INLINE uint8_t nonzero_quads(const int8_t* codes) {
    uint8_t quads = 0;
    for (int i = 0; i < kGroup / 4; ++i) {
        uint32_t four;
        std::memcpy(&four, codes + 4 * i, 4);
        quads |= static_cast<uint8_t>((four != 0) << i);
    }
    return quads;
}

void quantize(const float* x, const QuantizedRows& out, int row, int first_group, int num_groups, float fine_share) {
    constexpr float kMaxCode = 127.0f, kMaxFine = 127.0f * 256.0f;
    Vec squares = zero();
    for (int c = 0; c < num_groups * kGroup; c += kLanes) squares = fma(load(x + c), load(x + c), squares);
    // The largest value that may decide its group's scale.
    const float bound = __builtin_sqrtf(fine_share * sum(squares) / static_cast<float>(num_groups));
    size_t at = static_cast<size_t>(row) * out.row_groups + first_group;
    for (int g = 0; g < num_groups; ++g, ++at, x += kGroup) {
        const Vec low = load(x), high = load(x + kLanes);
        const float top = largest(max(abs(low), abs(high)));
        float coarse_top = top;
        if (top > bound) {
            const Vec low_tops = quad_max(abs(low)), high_tops = quad_max(abs(high)), limit = set1(bound);
            coarse_top = largest(
                max(where_less(limit, low_tops, zero(), low_tops), where_less(limit, high_tops, zero(), high_tops)));
        }
        const float coarse = coarse_top / kMaxCode, least = top / kMaxFine;
        const float scale = coarse > least ? coarse : least;
        const Vec per_step = set1(scale > 0.0f ? 1.0f / scale : 0.0f);
        const VecI low_steps = nearest(low * per_step), high_steps = nearest(high * per_step);
        VecI low_codes = low_steps, high_codes = high_steps, upper = set1(int32_t{0});
        int8_t* const upper_codes = out.high + at * kGroup;
        uint8_t fine_quads = 0;
        if (top > bound) {
            const VecI half = set1(int32_t{128});
            const VecI low_upper = shift_right<8>(low_steps + half), high_upper = shift_right<8>(high_steps + half);
            store_int8(upper_codes, low_upper);
            store_int8(upper_codes + kLanes, high_upper);
            fine_quads = nonzero_quads(upper_codes);
            // -128 has no opposite in a byte, which AVX2 needs: it becomes -127.
            const VecI lowest = set1(int32_t{-127});
            low_codes = max(low_steps - shift_left<8>(low_upper), lowest);
            high_codes = max(high_steps - shift_left<8>(high_upper), lowest);
            upper = low_upper + high_upper;
        } else {
            store_int8(upper_codes, upper);
            store_int8(upper_codes + kLanes, upper);
        }
        store_int8(out.codes + at * kGroup, low_codes);
        store_int8(out.codes + at * kGroup + kLanes, high_codes);
        const int32_t step_sum = sum(low_codes + high_codes + shift_left<8>(upper));
        out.scales[at] = scale;
        out.sums[at] = scale * static_cast<float>(step_sum);
        out.shifts[at] = -128 * step_sum;
        out.fine_quads[static_cast<size_t>(first_group + g) * out.max_rows + row] = fine_quads;
    }
}

}  // namespace tailrace::TAILRACE_ISA
