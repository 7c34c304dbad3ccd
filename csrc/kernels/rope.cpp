// Rotary positions, per-head norm, and the store into the KV tiles (see layout.h).
#include "kernels/codes.h"
#include "kernels/functions.h"
#include "kernels/head.h"
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

namespace {

void store_bf16_key(const float* key, int head_dim, int lane, uint8_t* tile) {
    auto* keys = reinterpret_cast<uint16_t*>(tile);
    for (int d = 0; d < head_dim; ++d) keys[(d / 2 * kKeyGroup + lane) * 2 + d % 2] = float_to_bf16(key[d]);
}

void store_bf16_value(const float* value, int head_dim, int lane, uint8_t* tile) {
    auto* values = reinterpret_cast<uint16_t*>(tile);
    const int dim = padded_head(head_dim);
    for (int d = 0; d < head_dim; ++d) values[(lane / 2 * dim + d) * 2 + lane % 2] = float_to_bf16(value[d]);
}

void store_float_key(const float* key, int head_dim, int lane, uint8_t* tile) {
    auto* keys = reinterpret_cast<float*>(tile);
    for (int d = 0; d < head_dim; ++d) keys[d * kKeyGroup + lane] = key[d];
}

void store_float_value(const float* value, int head_dim, int lane, uint8_t* tile) {
    auto* values = reinterpret_cast<float*>(tile);
    const int dim = padded_head(head_dim);
    for (int d = 0; d < head_dim; ++d) {
        values[((lane / 2 * (dim / kLanes) + d / kLanes) * 2 + lane % 2) * kLanes + d % kLanes] = value[d];
    }
}

template <class Codes>
void store_key_codes(const float* key, int head_dim, int lane, uint8_t* tile) {
    const int dim = padded_head(head_dim);
    float mixed[kMaxHeadDim];
    mix(key, head_dim, mixed);
    const float scale = Codes::scale_of(largest_of(mixed, dim));
    reinterpret_cast<float*>(tile + dim * kKeyGroup)[lane] = scale;
    encode_key<Codes>(mixed, dim, scale, lane, tile);
}

template <class Codes>
void store_value_codes(const float* value, int head_dim, int lane, uint8_t* tile) {
    const int dim = padded_head(head_dim);
    float padded[kMaxHeadDim];
    pad(value, head_dim, padded);
    const float scale = Codes::scale_of(largest_of(padded, dim));
    reinterpret_cast<float*>(tile + dim * kKeyGroup)[lane] = scale;
    for (int d = 0; d < dim; d += kLanes) {
        uint8_t codes[kLanes];
        Codes::encode(padded + d, scale, codes);
        for (int i = 0; i < kLanes; ++i) tile[(lane / 4 * dim + d + i) * 4 + lane % 4] = codes[i];
    }
}

template <class Codes>
void store_codes(const float* key, const float* value, int head_dim, int lane, uint8_t* keys, uint8_t* values) {
    store_key_codes<Codes>(key, head_dim, lane, keys);
    if (value) store_value_codes<Codes>(value, head_dim, lane, values);
}

}  // namespace

void store_kv(KvFormat format, const float* key, const float* value, int head_dim, int lane, uint8_t* tile) {
    uint8_t* values = tile + kv_tile_bytes(format, head_dim);
    switch (format) {
        case KvFormat::kF32:
            store_float_key(key, head_dim, lane, tile);
            if (value) store_float_value(value, head_dim, lane, values);
            return;
        case KvFormat::kBf16:
            store_bf16_key(key, head_dim, lane, tile);
            if (value) store_bf16_value(value, head_dim, lane, values);
            return;
        case KvFormat::kInt8:
            return store_codes<Int8Codes>(key, value, head_dim, lane, tile, values);
        case KvFormat::kE4m3:
            return store_codes<E4m3Codes>(key, value, head_dim, lane, tile, values);
    }
}

}  // namespace tailrace::TAILRACE_ISA
