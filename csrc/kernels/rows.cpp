// Row-wise ops: norm, gate and quantisation of activations.
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

TAILRACE_INLINE Vec silu_times(Vec gate, Vec up) { return gate / (set1(1.0f) + exp(zero() - gate)) * up; }

void swiglu(const float* gate, const float* up, int cols, float* out) {
    int c = 0;
    for (; c + kLanes <= cols; c += kLanes) store(out + c, silu_times(load(gate + c), load(up + c)));
    if (c < cols) {
        const int n = cols - c;
        store_first(out + c, silu_times(load_first(gate + c, n), load_first(up + c, n)), n);
    }
}

void quantize(const float* x, const QuantizedRows& out, int row, int first_group, int num_groups, float fine_share) {
    Vec squares = zero();
    for (int c = 0; c < num_groups * kGroup; c += kLanes) squares = fma(load(x + c), load(x + c), squares);
    const float limit = fine_share * sum(squares) / static_cast<float>(num_groups);
    size_t at = static_cast<size_t>(row) * out.groups + first_group;
    for (int g = 0; g < num_groups; ++g, ++at, x += kGroup) {
        const Vec low = load(x), high = load(x + kLanes);
        const float top = largest(max(abs(low), abs(high)));
        const Vec steps = set1(top > 0.0f ? 127.0f * 256.0f / top : 0.0f);
        const VecI low_steps = nearest(low * steps), high_steps = nearest(high * steps);
        const VecI half = set1(int32_t{128});
        const VecI low_codes = shift_right<8>(low_steps + half), high_codes = shift_right<8>(high_steps + half);
        const bool is_fine = top * top > limit;
        store_int8(out.codes + at * kGroup, low_codes);
        store_int8(out.codes + at * kGroup + kLanes, high_codes);
        const int32_t code_sum = sum(low_codes + high_codes);
        int32_t fine_sum = 0;
        if (is_fine) {
            // -128 has no opposite in a byte, which AVX2 needs: it becomes -127.
            const VecI least = set1(int32_t{-127});
            const VecI low_fine = max(low_steps - shift_left<8>(low_codes), least);
            const VecI high_fine = max(high_steps - shift_left<8>(high_codes), least);
            store_int8(out.fine + at * kGroup, low_fine);
            store_int8(out.fine + at * kGroup + kLanes, high_fine);
            fine_sum = sum(low_fine + high_fine);
        }
        const float scale = top / 127.0f;
        out.scales[at] = scale;
        out.sums[at] = scale * (static_cast<float>(code_sum * 256 + fine_sum) * (1.0f / 256.0f));
        out.shifts[at] = -128 * code_sum;
        out.fine_shifts[at] = -128 * fine_sum;
        out.is_fine[static_cast<size_t>(first_group + g) * out.max_rows + row] = is_fine;
    }
}

}  // namespace tailrace::TAILRACE_ISA
