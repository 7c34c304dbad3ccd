// Rotary positions, per-head norm, and the store into the KV tiles (see layout.h).
#include "kernels/functions.h"
#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

void rotate(const RotaryHead& head, float* out) {
    const float* x = head.x;
    if (head.norm) {
        rms_norm(x, head.norm, head.head_dim, head.eps, out);
        x = out;
    }
    const int half = head.rotary_dim / 2;
    // Pairs are read before they are written: out may be x.
    for (int i = 0; i < half; ++i) {
        const int first = head.interleaved ? 2 * i : i;
        const int second = head.interleaved ? 2 * i + 1 : i + half;
        const float a = x[first], b = x[second];
        out[first] = a * head.cosines[i] - b * head.sines[i];
        out[second] = b * head.cosines[i] + a * head.sines[i];
    }
    for (int i = head.rotary_dim; i < head.head_dim; ++i) out[i] = x[i];
}

void store_kv_bf16(const float* key, const float* value, int head_dim, int lane, uint8_t* tile) {
    auto* keys = reinterpret_cast<uint16_t*>(tile);
    auto* values = reinterpret_cast<uint16_t*>(tile + kv_tile_bytes(head_dim, 2));
    const int dim = padded_head(head_dim);
    for (int d = 0; d < head_dim; ++d) {
        keys[(d / 2 * kKeyGroup + lane) * 2 + d % 2] = float_to_bf16(key[d]);
        values[(lane / 2 * dim + d) * 2 + lane % 2] = float_to_bf16(value[d]);
    }
}

void store_kv_f32(const float* key, const float* value, int head_dim, int lane, uint8_t* tile) {
    auto* keys = reinterpret_cast<float*>(tile);
    auto* values = reinterpret_cast<float*>(tile + kv_tile_bytes(head_dim, 4));
    const int dim = padded_head(head_dim);
    for (int d = 0; d < head_dim; ++d) {
        keys[d * kKeyGroup + lane] = key[d];
        values[((lane / 2 * (dim / kLanes) + d / kLanes) * 2 + lane % 2) * kLanes + d % kLanes] = value[d];
    }
}

}  // namespace tailrace::TAILRACE_ISA
