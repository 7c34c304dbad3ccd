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

TAILRACE_INLINE Vec silu_times(Vec gate, Vec up) {
    return gate / (set1(1.0f) + exp(zero() - gate)) * up;
}

void swiglu(const float* gate, const float* up, int cols, float* out) {
    int c = 0;
    for (; c + kLanes <= cols; c += kLanes) store(out + c, silu_times(load(gate + c), load(up + c)));
    if (c < cols) {
        const int n = cols - c;
        store_first(out + c, silu_times(load_first(gate + c, n), load_first(up + c, n)), n);
    }
}

void quantize(const float* x, const QuantizedRows& out, int row, int first_group, int num_groups) {
    const size_t first = static_cast<size_t>(row) * out.groups + first_group;
    for (int g = 0; g < num_groups; ++g, x += kGroup) {
        const Vec low = load(x), high = load(x + kLanes);
        const float top = largest(max(abs(low), abs(high)));
        const Vec inverse = set1(top > 0.0f ? 127.0f / top : 0.0f);
        const VecI low_codes = nearest(low * inverse), high_codes = nearest(high * inverse);
        int8_t* codes = out.codes + (first + g) * kGroup;
        store_int8(codes, low_codes);
        store_int8(codes + kLanes, high_codes);
        const float scale = top / 127.0f;
        const float code_sum = sum(to_float(low_codes + high_codes));
        out.scales[first + g] = scale;
        out.sums[first + g] = scale * code_sum;
        out.shifts[first + g] = -128 * static_cast<int32_t>(code_sum);
    }
}

}  // namespace tailrace::TAILRACE_ISA
