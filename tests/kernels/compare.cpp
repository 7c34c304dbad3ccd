// Whether every instruction set of this build and machine computes what the portable kernels compute: the same bits
// where all products are exact, nearly the same elsewhere. Those that fuse multiply and add must agree with each other
// to the bit in products with quantised weights.
//
// Prints a line for each instruction set and kernel, and fails when one of them differs.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "conversions.h"
#include "simd/dispatch.h"
#include "simd/half.h"

using namespace tailrace;

namespace {

using Values = std::vector<double>;

struct Random {
    std::mt19937 engine{7};

    int whole(int least, int most) {
        return least + static_cast<int>(engine() % static_cast<unsigned>(most - least + 1));
    }
    float real(float least, float most) {
        return least + (most - least) * static_cast<float>(engine() >> 8) * 0x1p-24f;
    }
    std::vector<float> reals(size_t count, float least = -2.0f, float most = 2.0f) {
        std::vector<float> values(count);
        for (float& value : values) value = real(least, most);
        return values;
    }
    // Positive, for scales: any value of float16 between 2^-6 and 2^2, or only the powers of two.
    uint16_t half(bool is_exact) { return static_cast<uint16_t>(whole(9, 17) << 10 | (is_exact ? 0 : whole(0, 1023))); }
};

template <class Numbers>
void append(Values& values, const Numbers& numbers) {
    for (auto number : numbers) values.push_back(static_cast<double>(number));
}

// --- products with quantised weights -------------------------------------------------------------------------------

constexpr int kMaxRows = 160;

struct Activations {
    std::vector<int8_t> codes, high;
    std::vector<float> scales, sums;
    std::vector<int32_t> shifts;
    std::vector<uint8_t> fine_quads;
    int groups;

    explicit Activations(int num_groups)
        : codes(kMaxRows * num_groups * kGroup),
          high(codes.size()),
          scales(kMaxRows * num_groups),
          sums(scales.size()),
          shifts(scales.size()),
          fine_quads(scales.size()),
          groups(num_groups) {}

    Activations(Random& random, int num_groups, bool is_exact) : Activations(num_groups) {
        for (int8_t& code : codes) code = static_cast<int8_t>(random.whole(-127, 127));
        for (int row = 0; row < kMaxRows; ++row) {
            for (int group = 0; group < groups; ++group) fill(random, row, group, is_exact);
        }
    }

    QuantizedRows rows() {
        return {codes.data(),      high.data(), scales.data(), sums.data(), shifts.data(),
                fine_quads.data(), groups,      groups,        kMaxRows};
    }

  private:
    void fill(Random& random, int row, int group, bool is_exact) {
        const size_t at = static_cast<size_t>(row) * groups + group;
        for (int quad = 0; quad < kGroup / 4; ++quad) {
            if (random.whole(0, 30) > 0) continue;
            for (int i = 0; i < 4; ++i) high[at * kGroup + 4 * quad + i] = static_cast<int8_t>(random.whole(-127, 127));
            fine_quads[group * kMaxRows + row] |= static_cast<uint8_t>(1 << quad);
        }
        int32_t sum = 0;
        for (int i = 0; i < kGroup; ++i) sum += 256 * high[at * kGroup + i] + codes[at * kGroup + i];
        shifts[at] = -128 * sum;
        scales[at] = half_to_float(random.half(is_exact));
        sums[at] = scales[at] * static_cast<float>(sum);
    }
};

// Tiles of random bytes, the last one narrow.
struct Weights {
    std::vector<uint8_t> bytes;
    std::vector<Tile> tiles;

    Weights(Random& random, Format format, int inputs, int num_tiles) {
        const size_t size = tile_bytes(format, inputs);
        bytes.resize(num_tiles * size + 65536);  // kernels prefetch, and read, a little beyond
        for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.whole(0, 255));
        for (int t = 0; t < num_tiles; ++t) {
            tiles.push_back({bytes.data() + t * size, t * kTile, t + 1 < num_tiles ? kTile : kTile - 5});
        }
    }

    uint8_t* data(const Tile& tile) { return bytes.data() + (tile.data - bytes.data()); }
};

Weights quantized_weights(Random& random, Format format, int groups, int num_tiles, bool is_exact) {
    Weights weights(random, format, groups * kGroup, num_tiles);
    const bool is_q4 = format == Format::kQ4 || format == Format::kQ4Half;
    const bool is_half = format == Format::kQ4Half || format == Format::kQ8Half;
    for (const Tile& tile : weights.tiles) {
        for (int group = 0; group < groups; ++group) {
            uint8_t* scales = weights.data(tile) + group * group_bytes(format) + (is_q4 ? 256 : 512);
            for (int i = 0; i < (is_q4 ? 2 : 1) * kTile; ++i) {
                const uint16_t half = random.half(is_exact);
                const float scale = half_to_float(half) * (is_exact ? 1.0f : 1.0001f);
                std::memcpy(scales + i * (is_half ? 2 : 4), is_half ? static_cast<const void*>(&half) : &scale,
                            is_half ? 2 : 4);
            }
        }
    }
    return weights;
}

// What lies in the output afterwards, with bias and residual and without.
template <class Multiply>
void append_products(Values& values, Random& random, int num_columns, const Multiply& multiply) {
    const size_t stride = num_columns + 3;
    const std::vector<float> bias = random.reals(num_columns), residual = random.reals(kMaxRows * stride);
    for (const bool is_plain : {true, false}) {
        std::vector<float> out(kMaxRows * stride, -7.0f);
        multiply(GemmOutput{out.data(), stride, is_plain ? nullptr : bias.data(), is_plain ? nullptr : residual.data(),
                            stride});
        append(values, out);
    }
}

Values quantized_products(const Kernels& kernels, Format format, bool is_exact) {
    Random random;
    Values values;
    for (const int groups : {1, 3, 18}) {
        Activations x(random, groups, is_exact);
        const Weights weights = quantized_weights(random, format, groups, 3, is_exact);
        for (const int rows : {1, 2, 3, 4, 5, 7, 12, 15, 16, 17, 31, 60, 61, 120, 128, 140, 150}) {
            append_products(values, random, 3 * kTile - 5, [&](const GemmOutput& out) {
                kernels.gemm_quantized(format, x.rows(), 5, rows, weights.tiles.data(), 3, out);
            });
        }
    }
    return values;
}

template <Format kFormat, bool kIsExact>
Values gemm_quantized(const Kernels& kernels) {
    return quantized_products(kernels, kFormat, kIsExact);
}

// --- products with float weights -----------------------------------------------------------------------------------

// Where it shall be exact, few bits: then sums are exact too, in whatever order.
std::vector<float> activations(Random& random, size_t count, bool is_exact) {
    std::vector<float> x = random.reals(count);
    if (is_exact) {
        for (float& value : x) value = std::round(value * 256.0f) / 256.0f;
    }
    return x;
}

// A weight of this format: a power of two with either sign, or any value of about that size.
uint32_t float_weight(Random& random, Format format, bool is_exact) {
    const uint32_t sign = static_cast<uint32_t>(random.whole(0, 1));
    if (format == Format::kF16) return sign << 15 | random.half(is_exact);
    const float value = half_to_float(random.half(is_exact)) * (is_exact ? 1.0f : 1.001f);
    return sign << (format == Format::kF32 ? 31 : 15) |
           (format == Format::kF32 ? float_bits(value) : float_to_bf16(value));
}

template <Format kFormat, bool kIsExact>
Values gemm_float(const Kernels& kernels) {
    constexpr int kWeightBytes = kFormat == Format::kF32 ? 4 : 2;
    Random random;
    Values values;
    for (const int inputs : {1, 2, 37, 64, 300}) {
        const size_t stride = inputs + 1;
        const std::vector<float> x = activations(random, kMaxRows * stride, kIsExact);
        Weights weights(random, kFormat, inputs, 3);
        for (size_t i = 0; i < weights.bytes.size() / kWeightBytes; ++i) {
            const uint32_t weight = float_weight(random, kFormat, kIsExact);
            std::memcpy(weights.bytes.data() + i * kWeightBytes, &weight, kWeightBytes);
        }
        for (const int rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 19, 33, 140}) {
            append_products(values, random, 3 * kTile - 5, [&](const GemmOutput& out) {
                kernels.gemm_float(kFormat, x.data(), stride, inputs, 5, rows, weights.tiles.data(), 3, out);
            });
        }
    }
    return values;
}

template <Format kFormat>
Values embed(const Kernels& kernels) {
    constexpr int kCols = 96;
    Random random;
    Values values;
    Weights weights = is_quantized(kFormat) ? quantized_weights(random, kFormat, kCols / kGroup, 2, false)
                                            : Weights(random, kFormat, kCols, 2);
    if (!is_quantized(kFormat)) {
        for (size_t i = 0; i < weights.bytes.size() / 4; ++i) {
            const uint32_t weight =
                0x3c003c00u | static_cast<uint32_t>(random.whole(0, 0x1ff)) << 16 | (random.engine() & 0x1ff);
            std::memcpy(weights.bytes.data() + i * 4, &weight, 4);
        }
    }
    for (int row = 0; row < 2 * kTile - 5; ++row) {
        std::vector<float> out(kCols);
        kernels.embed(kFormat, weights.tiles.data(), row, kCols, out.data());
        append(values, out);
    }
    return values;
}

// --- rows ----------------------------------------------------------------------------------------------------------

constexpr int kSizes[] = {1, 5, 16, 31, 64, 100, 576};

Values rms_norm(const Kernels& kernels) {
    Random random;
    Values values;
    for (const int cols : kSizes) {
        const std::vector<float> x = random.reals(cols), weight = random.reals(cols);
        std::vector<float> out(cols);
        kernels.rms_norm(x.data(), weight.data(), cols, 1e-5f, out.data());
        append(values, out);
    }
    return values;
}

Values layer_norm(const Kernels& kernels) {
    Random random;
    Values values;
    for (const int cols : kSizes) {
        const std::vector<float> x = random.reals(cols, 1.0f, 4.0f);
        const std::vector<float> weight = random.reals(cols), bias = random.reals(cols);
        std::vector<float> out(cols);
        kernels.layer_norm(x.data(), weight.data(), bias.data(), cols, 1e-6f, out.data());
        append(values, out);
    }
    return values;
}

Values swiglu(const Kernels& kernels) {
    Random random;
    Values values;
    for (const int cols : kSizes) {
        const std::vector<float> gate = random.reals(cols, -20.0f, 20.0f), up = random.reals(cols);
        std::vector<float> out(cols);
        kernels.swiglu(gate.data(), up.data(), cols, out.data());
        append(values, out);
    }
    return values;
}

Values quantize(const Kernels& kernels) {
    constexpr int kGroups = 18;
    Random random;
    Values values;
    for (const float fine_share : {0.4f, 1.0f, 2.0f}) {
        Activations out(kGroups);
        for (int row = 0; row < 20; ++row) {
            std::vector<float> x = random.reals(kGroups * kGroup);
            for (int i = 0; i < kGroup; ++i) x[3 * kGroup + i] = 0.0f;
            for (int i = 0; i < row; ++i) x[random.whole(0, kGroups * kGroup - 1)] *= 20.0f;
            kernels.quantize(x.data(), out.rows(), row, 0, 5, fine_share);
            kernels.quantize(x.data() + 5 * kGroup, out.rows(), row, 5, kGroups - 5, fine_share);
        }
        append(values, out.codes);
        append(values, out.high);
        append(values, out.scales);
        append(values, out.sums);
        append(values, out.shifts);
        append(values, out.fine_quads);
    }
    return values;
}

Values rotate(const Kernels& kernels) {
    Random random;
    Values values;
    for (const int head_dim : {24, 64, 128}) {
        const std::vector<float> x = random.reals(head_dim), norm = random.reals(head_dim);
        const std::vector<float> cosines = random.reals(head_dim / 2), sines = random.reals(head_dim / 2);
        for (const bool is_interleaved : {false, true}) {
            for (const int rotary_dim : {head_dim, head_dim / 2}) {
                for (const float* weight : {static_cast<const float*>(nullptr), norm.data()}) {
                    std::vector<float> out(head_dim);
                    kernels.rotate(
                        {x.data(), head_dim, weight, 1e-5f, cosines.data(), sines.data(), rotary_dim, is_interleaved},
                        out.data());
                    append(values, out);
                }
            }
        }
    }
    return values;
}

// --- the cache -----------------------------------------------------------------------------------------------------

// 256 positions of one KV head in blocks of 32, which lie in the pool in another order.
struct Cache {
    static constexpr int kBlocks = 8, kBlockGroups = 2;
    KvFormat format;
    size_t group_bytes;
    std::vector<uint8_t> pool;
    std::vector<int32_t> blocks{5, 2, 7, 0, 1, 6, 3, 4};

    Cache(Random& random, const Kernels& kernels, KvFormat format, int head_dim)
        : format(format), group_bytes(2 * kv_tile_bytes(format, head_dim)), pool(kBlocks * kBlockGroups * group_bytes) {
        for (int position = 0; position < kBlocks * kBlockGroups * kKeyGroup; ++position) {
            const std::vector<float> key = random.reals(head_dim), value = random.reals(head_dim);
            kernels.store_kv(format, key.data(), value.data(), head_dim, position % kKeyGroup,
                             group(position / kKeyGroup));
        }
    }

    uint8_t* group(int index) {
        return pool.data() + (blocks[index / kBlockGroups] * kBlockGroups + index % kBlockGroups) * group_bytes;
    }

    void attend(const Kernels& kernels, const std::vector<AttentionSequence>& sequences, int shared_tokens, int heads,
                int head_dim, int window) const {
        std::vector<float> scratch(attention_scratch_bytes(head_dim) / 4 + 16);
        const size_t stride = static_cast<size_t>(heads) * head_dim;
        kernels.attention({format, sequences.data(), static_cast<int>(sequences.size()), shared_tokens, stride, stride,
                           heads, head_dim, window, 0.125f, pool.data(), kBlockGroups * group_bytes, group_bytes,
                           kBlockGroups, scratch.data()});
    }
};

template <KvFormat kFormat>
Values store_kv(const Kernels& kernels) {
    Random random;
    Values values;
    for (const int head_dim : {24, 64, 80}) append(values, Cache(random, kernels, kFormat, head_dim).pool);
    return values;
}

template <KvFormat kFormat>
Values attention(const Kernels& kernels) {
    struct Case {
        int head_dim, num_tokens, heads, position, window;
    };
    Random random;
    Values values;
    for (const auto& [head_dim, num_tokens, heads, position, window] : {Case{64, 1, 3, 200, 0},
                                                                        {64, 1, 1, 0, 0},
                                                                        {24, 9, 7, 120, 0},
                                                                        {128, 16, 4, 60, 40},
                                                                        {64, 64, 1, 64, 100},
                                                                        {272, 2, 5, 130, 0}}) {
        Cache cache(random, kernels, kFormat, head_dim);
        const std::vector<float> q = random.reals(static_cast<size_t>(num_tokens) * heads * head_dim);
        std::vector<float> out(q.size());
        cache.attend(kernels, {{q.data(), out.data(), num_tokens, position, cache.blocks.data()}}, 0, heads, head_dim,
                     window);
        append(values, out);
    }
    return values;
}

// Sequences that begin alike, together and each alone: how many of their values are not the same bits.
template <KvFormat kFormat>
Values shared_attention(const Kernels& kernels) {
    constexpr int kHeadDim = 64, kShared = 128;
    Random random;
    Values values;
    for (const int heads : {1, 3, 4}) {
        for (const int window : {0, 40, 150}) {
            Cache cache(random, kernels, kFormat, kHeadDim);
            const std::vector<std::vector<int32_t>> tables{
                {5, 2, 7, 0, 1, 6, 3}, {5, 2, 7, 0, 4}, {5, 2, 7, 0, 6, 1, 4}, {5, 2, 7, 0, 3, 3, 3, 3}};
            const std::vector<int> positions{200, 130, 128, 255};
            const size_t size = static_cast<size_t>(heads) * kHeadDim;
            const std::vector<float> q = random.reals(tables.size() * size);
            std::vector<float> together(q.size()), alone(q.size());
            std::vector<AttentionSequence> sequences;
            for (size_t n = 0; n < tables.size(); ++n) {
                const AttentionSequence sequence{q.data() + n * size, alone.data() + n * size, 1, positions[n],
                                                 tables[n].data()};
                cache.attend(kernels, {sequence}, 0, heads, kHeadDim, window);
                sequences.push_back(sequence);
                sequences.back().out = together.data() + n * size;
            }
            cache.attend(kernels, sequences, kShared, heads, kHeadDim, window);
            int differing = 0;
            for (size_t i = 0; i < q.size(); ++i) differing += float_bits(together[i]) != float_bits(alone[i]);
            values.push_back(differing);
        }
    }
    return values;
}

// Scores of positions [first, last), behind them what lies in the rest of the last key block.
std::vector<float> index_scores(const Kernels& kernels, const Cache& cache, const std::vector<float>& q,
                                const std::vector<float>& head_weights, int first, int last) {
    const int num_heads = static_cast<int>(head_weights.size()), head_dim = static_cast<int>(q.size()) / num_heads;
    std::vector<float> scratch(index_scratch_bytes(num_heads, head_dim) / 4);
    std::vector<float> scores((last - first + kKeyBlock - 1) / kKeyBlock * kKeyBlock);
    kernels.index_scores({cache.format, q.data(), head_weights.data(), num_heads, head_dim, first, last,
                          cache.blocks.data(), cache.pool.data(), Cache::kBlockGroups * cache.group_bytes,
                          cache.group_bytes, Cache::kBlockGroups, scores.data(), scratch.data()});
    scores.resize(last - first);
    return scores;
}

template <KvFormat kFormat>
Values index(const Kernels& kernels) {
    Random random;
    Values values;
    for (const int head_dim : {24, 64, 128}) {
        const Cache cache(random, kernels, kFormat, head_dim);
        for (const int num_heads : {1, 6, 64}) {
            const std::vector<float> q = random.reals(static_cast<size_t>(num_heads) * head_dim);
            const std::vector<float> head_weights = random.reals(num_heads);
            append(values, index_scores(kernels, cache, q, head_weights, 0, 203));
            append(values, index_scores(kernels, cache, q, head_weights, 64, 65));
        }
    }
    return values;
}

// Positions scored in one range and in several: how many scores are not the same bits.
template <KvFormat kFormat>
Values index_ranges(const Kernels& kernels) {
    constexpr int kHeads = 6, kHeadDim = 64, kPositions = 230;
    Random random;
    const Cache cache(random, kernels, kFormat, kHeadDim);
    const std::vector<float> q = random.reals(kHeads * kHeadDim), head_weights = random.reals(kHeads);
    const std::vector<float> whole = index_scores(kernels, cache, q, head_weights, 0, kPositions);
    Values values;
    for (int first = 0; first < kPositions; first += kKeyBlock) {
        const int last = std::min(first + kKeyBlock, kPositions);
        const std::vector<float> part = index_scores(kernels, cache, q, head_weights, first, last);
        int differing = 0;
        for (int i = first; i < last; ++i) differing += float_bits(part[i - first]) != float_bits(whole[i]);
        values.push_back(differing);
    }
    return values;
}

// The largest difference, as a share of the root mean square of the expected values; anything but numbers: infinity.
double difference(const Values& values, const Values& expected) {
    double squares = 0.0, largest = 0.0;
    for (size_t i = 0; i < expected.size(); ++i) {
        if (!std::isfinite(values[i]) || !std::isfinite(expected[i])) return INFINITY;
        squares += expected[i] * expected[i];
        largest = std::fmax(largest, std::fabs(values[i] - expected[i]));
    }
    return largest == 0.0 ? 0.0 : largest / std::sqrt(squares / static_cast<double>(expected.size()));
}

// --- floats of 8 bits ----------------------------------------------------------------------------------------------

double e4m3(uint8_t code) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    return code & 0x80 ? -magnitude : magnitude;
}

// Any code but the two that are no numbers.
uint8_t any_code(Random& random) { return static_cast<uint8_t>(random.whole(0, 1) << 7 | random.whole(0, 126)); }

// A head as keys are stored and queries are read: Hadamard transforms of blocks of powers of two, the largest first.
std::vector<float> hadamard(const float* x, int dim) {
    std::vector<float> out(dim);
    for (int first = 0, size = kMaxHeadDim; first < dim; first += size) {
        while (size > dim - first) size /= 2;
        for (int i = 0; i < size; ++i) {
            double sum = 0.0;
            for (int j = 0; j < size; ++j) sum += __builtin_parity(i & j) ? -x[first + j] : x[first + j];
            out[first + i] = static_cast<float>(sum / std::sqrt(size));
        }
    }
    return out;
}

// Heads [count][dim] of whole numbers, and the same heads mixed, which is exact where a root of a block's size is
// whole.
struct Queries {
    std::vector<float> plain, mixed;

    Queries(Random& random, int count, std::vector<int> parts) {
        for (int i = 0; i < count; ++i) {
            for (const int dim : parts) {
                std::vector<float> head(dim);
                for (float& x : head) x = static_cast<float>(random.whole(-8, 8));
                plain.insert(plain.end(), head.begin(), head.end());
                const std::vector<float> spread = hadamard(head.data(), dim);
                mixed.insert(mixed.end(), spread.begin(), spread.end());
            }
        }
    }
};

// Not a number unless all are the same bits.
double verdict(const std::vector<float>& a, const std::vector<float>& b) {
    for (size_t i = 0; i < a.size(); ++i) {
        if (float_bits(a[i]) != float_bits(b[i])) return NAN;
    }
    return 0.0;
}

// A cache of any codes, and one of bfloat16 that holds the same numbers.
struct Twins {
    Cache codes, halves;

    Twins(Random& random, const Kernels& kernels, int head_dim)
        : codes(random, kernels, KvFormat::kE4m3, head_dim), halves(random, kernels, KvFormat::kBf16, head_dim) {
        const int dim = padded_head(head_dim);
        for (int position = 0; position < Cache::kBlocks * Cache::kBlockGroups * kKeyGroup; ++position) {
            const int lane = position % kKeyGroup;
            uint8_t* keys = codes.group(position / kKeyGroup);
            uint8_t* values = keys + kv_tile_bytes(KvFormat::kE4m3, head_dim);
            const float key_scale = std::ldexp(1.0f, random.whole(-10, -7));
            const float value_scale = std::ldexp(1.0f, random.whole(-30, 30));
            std::memcpy(keys + dim * kKeyGroup + lane * 4, &key_scale, 4);
            std::memcpy(values + dim * kKeyGroup + lane * 4, &value_scale, 4);
            std::vector<float> key(head_dim), value(head_dim);
            for (int d = 0; d < head_dim; ++d) {
                uint8_t& of_key = keys[(d / 4 * kKeyGroup + lane) * 4 + d % 4] = any_code(random);
                uint8_t& of_value = values[(lane / 4 * dim + d) * 4 + lane % 4] = any_code(random);
                key[d] = static_cast<float>(e4m3(of_key) * key_scale);
                value[d] = static_cast<float>(e4m3(of_value) * value_scale);
            }
            kernels.store_kv(KvFormat::kBf16, key.data(), value.data(), head_dim, lane,
                             halves.group(position / kKeyGroup));
        }
    }
};

Values widened_attention(const Kernels& kernels) {
    struct Case {
        int head_dim, num_tokens, heads, position, window;
    };
    Random random;
    Values values;
    for (const auto& [head_dim, num_tokens, heads, position, window] :
         {Case{64, 1, 3, 200, 0}, {16, 9, 7, 120, 0}, {80, 16, 4, 60, 40}, {272, 2, 5, 130, 0}}) {
        const Twins twins(random, kernels, head_dim);
        const Queries q(random, num_tokens * heads, {head_dim});
        std::vector<float> out(q.plain.size()), expected(out);
        twins.codes.attend(kernels, {{q.plain.data(), out.data(), num_tokens, position, twins.codes.blocks.data()}}, 0,
                           heads, head_dim, window);
        twins.halves.attend(kernels,
                            {{q.mixed.data(), expected.data(), num_tokens, position, twins.halves.blocks.data()}}, 0,
                            heads, head_dim, window);
        values.push_back(verdict(out, expected));
    }
    return values;
}

Values widened_index(const Kernels& kernels) {
    Random random;
    Values values;
    for (const int head_dim : {16, 64, 80}) {
        const Twins twins(random, kernels, head_dim);
        const Queries q(random, 6, {head_dim});
        const std::vector<float> head_weights = random.reals(6);
        values.push_back(verdict(index_scores(kernels, twins.codes, q.plain, head_weights, 0, 203),
                                 index_scores(kernels, twins.halves, q.mixed, head_weights, 0, 203)));
    }
    return values;
}

// --- the latent cache ----------------------------------------------------------------------------------------------

// 256 positions in blocks of 32, which lie in the pool in another order.
struct LatentCache {
    static constexpr int kBlocks = 8, kBlockGroups = 2;
    KvFormat format;
    int latent_dim, key_dim;
    size_t group_bytes;
    std::vector<uint8_t> pool;
    std::vector<int32_t> blocks{5, 2, 7, 0, 1, 6, 3, 4};

    LatentCache(Random& random, const Kernels& kernels, KvFormat format, int latent_dim, int key_dim)
        : format(format),
          latent_dim(latent_dim),
          key_dim(key_dim),
          group_bytes(kv_tile_bytes(format, key_dim)),
          pool(kBlocks * kBlockGroups * group_bytes) {
        for (int position = 0; position < kBlocks * kBlockGroups * kKeyGroup; ++position) {
            std::vector<float> key = random.reals(key_dim);
            for (int d = latent_dim; d < key_dim; ++d) key[d] *= 5.0f;
            kernels.store_latent(format, key.data(), latent_dim, key_dim, position % kKeyGroup,
                                 group(position / kKeyGroup));
        }
    }

    uint8_t* group(int index) {
        return pool.data() + (blocks[index / kBlockGroups] * kBlockGroups + index % kBlockGroups) * group_bytes;
    }

    // Heads [first_head, first_head + heads) of `all_heads`.
    void attend(const Kernels& kernels, std::vector<AttentionSequence> sequences, int shared_tokens, int first_head,
                int heads, int all_heads, const std::vector<int32_t>* selected = nullptr) const {
        std::vector<float> scratch(latent_scratch_bytes(key_dim) / 4 + 16);
        for (AttentionSequence& sequence : sequences) {
            sequence.q += first_head * key_dim;
            sequence.out += first_head * latent_dim;
        }
        const AttentionTask task{format,
                                 sequences.data(),
                                 static_cast<int>(sequences.size()),
                                 shared_tokens,
                                 static_cast<size_t>(all_heads) * key_dim,
                                 static_cast<size_t>(all_heads) * latent_dim,
                                 heads,
                                 key_dim,
                                 0,
                                 0.125f,
                                 pool.data(),
                                 kBlockGroups * group_bytes,
                                 group_bytes,
                                 kBlockGroups,
                                 scratch.data()};
        kernels.latent_attention({task, latent_dim, selected ? selected->data() : nullptr,
                                  selected ? static_cast<int>(selected->size()) : 0});
    }
};

template <KvFormat kFormat>
Values store_latent(const Kernels& kernels) {
    Random random;
    Values values;
    for (const int key_dim : {24, 64, 80}) append(values, LatentCache(random, kernels, kFormat, 16, key_dim).pool);
    return values;
}

struct LatentCase {
    int latent_dim, key_dim, num_tokens, heads, position;
};
constexpr LatentCase kLatentCases[] = {{16, 22, 1, 3, 200},    {64, 80, 1, 1, 0},    {48, 64, 9, 7, 120},
                                       {512, 576, 1, 16, 143}, {32, 96, 64, 1, 100}, {96, 112, 2, 32, 62}};

template <KvFormat kFormat>
Values latent_attention(const Kernels& kernels) {
    Random random;
    Values values;
    for (const auto& [latent_dim, key_dim, num_tokens, heads, position] : kLatentCases) {
        const LatentCache cache(random, kernels, kFormat, latent_dim, key_dim);
        const std::vector<float> q = random.reals(static_cast<size_t>(num_tokens) * heads * key_dim, -1.0f, 1.0f);
        std::vector<float> out(static_cast<size_t>(num_tokens) * heads * latent_dim);
        cache.attend(kernels, {{q.data(), out.data(), num_tokens, position, cache.blocks.data()}}, 0, 0, heads, heads);
        append(values, out);
    }
    return values;
}

int count_differing(const std::vector<float>& a, const std::vector<float>& b) {
    int differing = 0;
    for (size_t i = 0; i < a.size(); ++i) differing += float_bits(a[i]) != float_bits(b[i]);
    return differing;
}

// How many values are not the same bits where the heads are cut into parts, and each token is alone; and where the
// positions that are seen are said one by one.
template <KvFormat kFormat>
Values cut_latent_attention(const Kernels& kernels) {
    Random random;
    Values values;
    for (const auto& [latent_dim, key_dim, num_tokens, heads, position] : kLatentCases) {
        const LatentCache cache(random, kernels, kFormat, latent_dim, key_dim);
        const std::vector<float> q = random.reals(static_cast<size_t>(num_tokens) * heads * key_dim, -1.0f, 1.0f);
        std::vector<float> whole(static_cast<size_t>(num_tokens) * heads * latent_dim), cut(whole), selected(whole);
        cache.attend(kernels, {{q.data(), whole.data(), num_tokens, position, cache.blocks.data()}}, 0, 0, heads,
                     heads);
        for (int token = 0; token < num_tokens; ++token) {
            AttentionSequence sequence{q.data() + static_cast<size_t>(token) * heads * key_dim,
                                       cut.data() + static_cast<size_t>(token) * heads * latent_dim, 1,
                                       position + token, cache.blocks.data()};
            const int part = heads / 3 + 1;
            for (int head = 0; head < heads; head += part) {
                cache.attend(kernels, {sequence}, 0, head, heads - head < part ? heads - head : part, heads);
            }
            std::vector<int32_t> all(position + token + 1);
            for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
            sequence.out = selected.data() + static_cast<size_t>(token) * heads * latent_dim;
            cache.attend(kernels, {sequence}, 0, 0, heads, heads, &all);
        }
        values.push_back(count_differing(whole, cut));
        values.push_back(count_differing(whole, selected));
    }
    return values;
}

// Sequences that begin alike, together and each alone: how many of their values are not the same bits.
template <KvFormat kFormat>
Values shared_latent_attention(const Kernels& kernels) {
    constexpr int kLatentDim = 48, kKeyDim = 64, kShared = 128;
    Random random;
    Values values;
    for (const int heads : {1, 3, 16}) {
        const LatentCache cache(random, kernels, kFormat, kLatentDim, kKeyDim);
        const std::vector<std::vector<int32_t>> tables{
            {5, 2, 7, 0, 1, 6, 3}, {5, 2, 7, 0, 4}, {5, 2, 7, 0, 6, 1, 4}, {5, 2, 7, 0, 3, 3, 3, 3}};
        const std::vector<int> positions{200, 130, 128, 255};
        const std::vector<float> q = random.reals(tables.size() * heads * kKeyDim);
        std::vector<float> together(tables.size() * heads * kLatentDim), alone(together);
        std::vector<AttentionSequence> sequences;
        for (size_t n = 0; n < tables.size(); ++n) {
            const AttentionSequence sequence{q.data() + n * heads * kKeyDim, alone.data() + n * heads * kLatentDim, 1,
                                             positions[n], tables[n].data()};
            cache.attend(kernels, {sequence}, 0, 0, heads, heads);
            sequences.push_back(sequence);
            sequences.back().out = together.data() + n * heads * kLatentDim;
        }
        cache.attend(kernels, sequences, kShared, 0, heads, heads);
        values.push_back(count_differing(together, alone));
    }
    return values;
}

// Over any codes, and over bfloat16 that holds the same numbers: not a number where they differ.
Values widened_latent_attention(const Kernels& kernels) {
    Random random;
    Values values;
    for (const auto& [latent_dim, key_dim, num_tokens, heads, position] :
         {LatentCase{16, 32, 1, 3, 200}, {64, 80, 1, 1, 0}, {80, 96, 9, 7, 120}, {256, 320, 1, 16, 143}}) {
        LatentCache codes(random, kernels, KvFormat::kE4m3, latent_dim, key_dim);
        LatentCache halves(random, kernels, KvFormat::kBf16, latent_dim, key_dim);
        for (int at = 0; at < LatentCache::kBlocks * LatentCache::kBlockGroups * kKeyGroup; ++at) {
            const int lane = at % kKeyGroup;
            uint8_t* tile = codes.group(at / kKeyGroup);
            const float scales[2] = {std::ldexp(1.0f, random.whole(-10, -7)), std::ldexp(1.0f, random.whole(-10, -7))};
            std::vector<float> key(key_dim);
            for (int d = 0; d < key_dim; ++d) {
                uint8_t& code = tile[(d / 4 * kKeyGroup + lane) * 4 + d % 4] = any_code(random);
                key[d] = static_cast<float>(e4m3(code)) * scales[d >= latent_dim];
            }
            for (int part = 0; part < 2; ++part) {
                const uint16_t scale = float_to_bf16(scales[part]);
                std::memcpy(tile + padded_head(key_dim) * kKeyGroup + lane * 4 + part * 2, &scale, 2);
            }
            kernels.store_latent(KvFormat::kBf16, key.data(), latent_dim, key_dim, lane, halves.group(at / kKeyGroup));
        }
        const Queries q(random, num_tokens * heads, {latent_dim, key_dim - latent_dim});
        std::vector<float> out(static_cast<size_t>(num_tokens) * heads * latent_dim), expected(out);
        codes.attend(kernels, {{q.plain.data(), out.data(), num_tokens, position, codes.blocks.data()}}, 0, 0, heads,
                     heads);
        halves.attend(kernels, {{q.mixed.data(), expected.data(), num_tokens, position, halves.blocks.data()}}, 0, 0,
                      heads, heads);
        Values wanted, found;
        for (size_t i = 0; i < expected.size(); i += latent_dim)
            append(wanted, hadamard(expected.data() + i, latent_dim));
        append(found, out);
        values.push_back(difference(found, wanted) < 1e-5 ? 0.0 : NAN);
    }
    return values;
}

// A selection, over the cache itself and over one that holds the selected positions alone: the same bits.
template <KvFormat kFormat>
Values selected_latent_attention(const Kernels& kernels) {
    constexpr int kLatentDim = 48, kKeyDim = 64, kHeads = 5;
    Random random;
    Values values;
    LatentCache cache(random, kernels, kFormat, kLatentDim, kKeyDim);
    for (const int count : {1, 16, 63, 64, 65, 130}) {
        std::vector<int32_t> selected;
        for (int position = 0; static_cast<int>(selected.size()) < count; ++position) {
            const int left = 256 - position, wanted = count - static_cast<int>(selected.size());
            if (random.whole(1, left) <= wanted) selected.push_back(position);
        }
        LatentCache packed = cache;
        for (int i = 0; i < count; ++i) {
            const uint8_t* from = cache.group(selected[i] / kKeyGroup) + selected[i] % kKeyGroup * 4;
            uint8_t* to = packed.group(i / kKeyGroup) + i % kKeyGroup * 4;
            for (size_t line = 0; line < cache.group_bytes; line += 64) std::memcpy(to + line, from + line, 4);
        }
        const std::vector<float> q = random.reals(kHeads * kKeyDim);
        std::vector<float> out(kHeads * kLatentDim), expected(out);
        cache.attend(kernels, {{q.data(), out.data(), 1, 255, cache.blocks.data()}}, 0, 0, kHeads, kHeads, &selected);
        packed.attend(kernels, {{q.data(), expected.data(), 1, count - 1, packed.blocks.data()}}, 0, 0, kHeads, kHeads);
        values.push_back(count_differing(out, expected));
        append(values, out);
    }
    return values;
}

// --- the vocabulary ------------------------------------------------------------------------------------------------

std::vector<float> logits(Random& random, int count) {
    std::vector<float> x = random.reals(count, -9.0f, 9.0f);
    for (int i = 0; i < 4; ++i) x[random.whole(0, count - 1)] = 9.5f;  // equals at the top
    return x;
}

Values choices(const Kernels& kernels) {
    Random random;
    Values values;
    for (const int count : {1, 15, 16, 501, 3000}) {
        const std::vector<float> x = logits(random, count);
        std::vector<int32_t> ids(count, -1);
        values.push_back(kernels.arg_max(x.data(), count));
        values.push_back(kernels.top(x.data(), count, 20 < count ? 20 : count, ids.data()));
        append(values, ids);
        values.push_back(kernels.collect(x.data(), count - 1, 3.0f, 8.0f, ids.data()));
        append(values, ids);
        values.push_back(kernels.read_floats(x.data(), count));
        std::vector<uint32_t> allowed((count + 31) / 32);
        for (uint32_t& word : allowed) word = std::array{0u, ~0u, 0x80000001u, 0x6db6db6du}[random.whole(0, 3)];
        std::vector<float> left(count);
        kernels.forbid(x.data(), allowed.data(), count, left.data());
        for (int i = 0; i < count; ++i) {
            const float wanted = allowed[i / 32] >> i % 32 & 1 ? x[i] : -INFINITY;
            values.push_back(left[i] == wanted ? 1.0 : NAN);  // which equals nothing
        }
    }
    return values;
}

// The indices of the `count` largest, the lower index among equals, in ascending order.
std::vector<int32_t> largest(const std::vector<float>& x, int count) {
    std::vector<int32_t> ids(x.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return x[a] > x[b]; });
    ids.resize(count);
    std::sort(ids.begin(), ids.end());
    return ids;
}

// Numbers of both signs, with equals; numbers that are all equal; numbers of which a sample says nothing. A selection
// that is not the right one is no number, which equals nothing.
Values selections(const Kernels& kernels) {
    Random random;
    Values values;
    for (const int size : {1, 17, 500, 4000, 30000}) {
        std::vector<float> mixed = random.reals(size, -3.0f, 1.0f), uneven = random.reals(size);
        for (int i = 0; i < size / 4; ++i) mixed[random.whole(0, size - 1)] = i % 2 ? 0.0f : -0.0f;
        for (int i = 0; i < size; i += kSelectStep) uneven[i] += 100.0f;
        for (const std::vector<float>& x : {mixed, std::vector<float>(size, -0.5f), uneven}) {
            for (const int count : {1, (size + 19) / 20, (size + 2) / 3, size}) {
                std::vector<int32_t> ids(size, -1);
                std::vector<float> scratch(select_scratch_floats(size, count));
                ids.resize(kernels.select(x.data(), size, count, scratch.data(), ids.data()));
                values.push_back(ids == largest(x, count) ? 0.0 : NAN);
            }
        }
    }
    return values;
}

Values shares(const Kernels& kernels) {
    Random random;
    Values values;
    for (const int count : {1, 15, 16, 501, 3000}) {
        const std::vector<float> x = logits(random, count), weights = random.reals(count, 0.0f, 1.0f);
        std::vector<float> out(count);
        kernels.exp_scaled(x.data(), count, 9.5f, 0.7f, out.data());
        append(values, out);
        values.push_back(kernels.sum_exp(x.data(), count, 9.5f));
        values.push_back(kernels.sum_at_least(weights.data(), count, 0.25f));
    }
    return values;
}

// --- ceilings ------------------------------------------------------------------------------------------------------

// Products of ones, added up: as many as were asked for, or what is counted as a ceiling was not done.
Values ceilings(const Kernels& kernels) {
    Values values;
    for (const int64_t count : {6144, 61'440}) {
        values.push_back(kernels.multiply_floats(count) == 16.0f * static_cast<float>(count) ? 0.0 : NAN);
        values.push_back(kernels.multiply_halves(count) == 16.0f * static_cast<float>(count) ? 0.0 : NAN);
    }
    return values;
}

// --- experts -------------------------------------------------------------------------------------------------------

constexpr Routing kRoutings[] = {
    {.num_experts = 64, .top_k = 6, .is_sigmoid = false, .num_groups = 1, .top_groups = 1, .scale = 1.0f},
    {.num_experts = 45, .top_k = 3, .is_sigmoid = false, .num_groups = 9, .top_groups = 2, .scale = 16.0f},
    {.num_experts = 256,
     .top_k = 8,
     .is_sigmoid = true,
     .num_groups = 8,
     .top_groups = 4,
     .is_ranked_by_two = true,
     .is_normalized = true,
     .scale = 2.5f},
    {.num_experts = 6,
     .top_k = 4,
     .is_sigmoid = true,
     .num_groups = 3,
     .top_groups = 2,
     .is_ranked_by_two = true,
     .scale = 1.0f},
    {.num_experts = 1, .top_k = 1, .is_sigmoid = false, .num_groups = 1, .top_groups = 1, .scale = 1.0f},
};

// Eighths from -8 to 8, so that ranks are equal or differ by more than rounding.
std::vector<float> router_logits(Random& random, int count) {
    std::vector<float> logits(count);
    for (float& logit : logits) logit = static_cast<float>(random.whole(-64, 64)) / 8.0f;
    return logits;
}

template <class Append>
void each_routing(const Kernels& kernels, const Append& append) {
    Random random;
    for (const Routing& routing : kRoutings) {
        std::vector<float> scratch(routing_scratch_floats(routing)), weights(routing.top_k);
        std::vector<int32_t> experts(routing.top_k);
        for (int i = 0; i < 50; ++i) {
            const std::vector<float> logits = router_logits(random, routing.num_experts);
            const std::vector<float> bias = router_logits(random, routing.num_experts);
            kernels.route(routing, logits.data(), i % 2 == 0 ? bias.data() : nullptr, scratch.data(), experts.data(),
                          weights.data());
            append(experts, weights);
        }
    }
}

Values chosen_experts(const Kernels& kernels) {
    Values values;
    each_routing(kernels, [&](const auto& experts, const auto&) { append(values, experts); });
    return values;
}

Values expert_weights(const Kernels& kernels) {
    Values values;
    each_routing(kernels, [&](const auto&, const auto& weights) { append(values, weights); });
    return values;
}

Values add_scaled(const Kernels& kernels) {
    Random random;
    Values values;
    for (const int size : kSizes) {
        const std::vector<float> x = random.reals(size);
        std::vector<float> out = random.reals(size);
        kernels.add_scaled(x.data(), 0.3f, size, out.data());
        append(values, out);
    }
    return values;
}

// --- the comparison ------------------------------------------------------------------------------------------------

struct Check {
    const char* name;
    Values (*run)(const Kernels& kernels);
    double tolerance;  // of the root mean square of the expected values; 0: the same bits
};

constexpr Check kChecks[] = {
    {"gemm q4, exact", gemm_quantized<Format::kQ4, true>, 0.0},
    {"gemm q4 half, exact", gemm_quantized<Format::kQ4Half, true>, 0.0},
    {"gemm q8, exact", gemm_quantized<Format::kQ8, true>, 0.0},
    {"gemm q8 half, exact", gemm_quantized<Format::kQ8Half, true>, 0.0},
    {"gemm q4", gemm_quantized<Format::kQ4, false>, 1e-5},
    {"gemm q4 half", gemm_quantized<Format::kQ4Half, false>, 1e-5},
    {"gemm q8", gemm_quantized<Format::kQ8, false>, 1e-5},
    {"gemm q8 half", gemm_quantized<Format::kQ8Half, false>, 1e-5},
    {"gemm f32, exact", gemm_float<Format::kF32, true>, 0.0},
    {"gemm f16, exact", gemm_float<Format::kF16, true>, 0.0},
    {"gemm bf16, exact", gemm_float<Format::kBf16, true>, 0.0},
    {"gemm f32", gemm_float<Format::kF32, false>, 1e-5},
    {"gemm f16", gemm_float<Format::kF16, false>, 1e-5},
    {"gemm bf16", gemm_float<Format::kBf16, false>, 1e-4},  // AMX keeps 16 bits of an activation
    {"embed q4", embed<Format::kQ4>, 0.0},
    {"embed q4 half", embed<Format::kQ4Half>, 0.0},
    {"embed q8", embed<Format::kQ8>, 0.0},
    {"embed q8 half", embed<Format::kQ8Half>, 0.0},
    {"embed f32", embed<Format::kF32>, 0.0},
    {"embed f16", embed<Format::kF16>, 0.0},
    {"embed bf16", embed<Format::kBf16>, 0.0},
    {"rms_norm", rms_norm, 1e-6},
    {"layer_norm", layer_norm, 1e-6},
    {"swiglu", swiglu, 1e-6},
    {"quantize", quantize, 0.0},
    {"rotate", rotate, 1e-6},
    {"store_kv f32", store_kv<KvFormat::kF32>, 0.0},
    {"store_kv bf16", store_kv<KvFormat::kBf16>, 0.0},
    {"store_kv int8", store_kv<KvFormat::kInt8>, 0.0},
    {"store_kv e4m3", store_kv<KvFormat::kE4m3>, 0.0},
    {"attention f32", attention<KvFormat::kF32>, 1e-5},
    {"attention bf16", attention<KvFormat::kBf16>, 0.03},  // some round queries and weights to bfloat16 too
    {"attention int8", attention<KvFormat::kInt8>, 1e-4},  // a weight may be rounded the other way
    {"attention e4m3", attention<KvFormat::kE4m3>, 0.03},  // read as bfloat16
    {"widened attention", widened_attention, 0.0},
    {"shared attention f32", shared_attention<KvFormat::kF32>, 0.0},
    {"shared attention bf16", shared_attention<KvFormat::kBf16>, 0.0},
    {"shared attention int8", shared_attention<KvFormat::kInt8>, 0.0},
    {"shared attention e4m3", shared_attention<KvFormat::kE4m3>, 0.0},
    {"store_latent f32", store_latent<KvFormat::kF32>, 0.0},
    {"store_latent bf16", store_latent<KvFormat::kBf16>, 0.0},
    {"store_latent int8", store_latent<KvFormat::kInt8>, 0.0},
    {"store_latent e4m3", store_latent<KvFormat::kE4m3>, 0.0},
    {"latent attention f32", latent_attention<KvFormat::kF32>, 1e-5},
    {"latent attention bf16", latent_attention<KvFormat::kBf16>, 0.05},
    {"latent attention int8", latent_attention<KvFormat::kInt8>, 1e-4},
    {"latent attention e4m3", latent_attention<KvFormat::kE4m3>, 0.05},
    {"widened latent attention", widened_latent_attention, 0.0},
    {"selected latent attention f32", selected_latent_attention<KvFormat::kF32>, 1e-5},
    {"selected latent attention bf16", selected_latent_attention<KvFormat::kBf16>, 0.05},
    {"selected latent attention int8", selected_latent_attention<KvFormat::kInt8>, 1e-4},
    {"selected latent attention e4m3", selected_latent_attention<KvFormat::kE4m3>, 0.05},
    {"cut latent attention f32", cut_latent_attention<KvFormat::kF32>, 0.0},
    {"cut latent attention bf16", cut_latent_attention<KvFormat::kBf16>, 0.0},
    {"cut latent attention int8", cut_latent_attention<KvFormat::kInt8>, 0.0},
    {"cut latent attention e4m3", cut_latent_attention<KvFormat::kE4m3>, 0.0},
    {"shared latent attention f32", shared_latent_attention<KvFormat::kF32>, 0.0},
    {"shared latent attention bf16", shared_latent_attention<KvFormat::kBf16>, 0.0},
    {"shared latent attention int8", shared_latent_attention<KvFormat::kInt8>, 0.0},
    {"shared latent attention e4m3", shared_latent_attention<KvFormat::kE4m3>, 0.0},
    {"index f32", index<KvFormat::kF32>, 1e-5},
    {"index bf16", index<KvFormat::kBf16>, 0.03},  // some round queries to bfloat16 too
    {"index int8", index<KvFormat::kInt8>, 1e-4},  // a code of a query may be rounded the other way
    {"index e4m3", index<KvFormat::kE4m3>, 0.03},
    {"widened index", widened_index, 0.0},
    {"index ranges f32", index_ranges<KvFormat::kF32>, 0.0},
    {"index ranges bf16", index_ranges<KvFormat::kBf16>, 0.0},
    {"index ranges int8", index_ranges<KvFormat::kInt8>, 0.0},
    {"index ranges e4m3", index_ranges<KvFormat::kE4m3>, 0.0},
    {"choices", choices, 0.0},
    {"ceilings", ceilings, 0.0},
    {"chosen experts", chosen_experts, 0.0},
    {"expert weights", expert_weights, 1e-5},
    {"add_scaled", add_scaled, 1e-6},
    {"selections", selections, 0.0},
    {"shares", shares, 1e-5},
};

// Products with quantised weights are the same on every instruction set that fuses multiply and add.
constexpr Check kFusedChecks[] = {
    {"gemm q4", gemm_quantized<Format::kQ4, false>, 0.0},
    {"gemm q4 half", gemm_quantized<Format::kQ4Half, false>, 0.0},
    {"gemm q8", gemm_quantized<Format::kQ8, false>, 0.0},
    {"gemm q8 half", gemm_quantized<Format::kQ8Half, false>, 0.0},
};

struct Candidate {
    std::string name;
    const Kernels& kernels;
};

template <size_t kCount>
int compare(const Candidate& candidate, const Candidate& with, const Check (&checks)[kCount]) {
    int failures = 0;
    for (const Check& check : checks) {
        const double error = difference(check.run(candidate.kernels), check.run(with.kernels));
        const bool is_close = error <= check.tolerance;
        std::printf("%s is %s: %s, %s (%.1e)\n", candidate.name.c_str(), with.name.c_str(), check.name,
                    is_close ? "yes" : "NO", error);
        failures += !is_close;
    }
    return failures;
}

}  // namespace

#if defined(__x86_64__)
namespace tailrace {
namespace avxvnni_stand_in {
extern const Kernels kernels;
}
namespace amx_stand_in {
void gemm_float(Format format, const float* x, size_t stride, int inputs, int first_row, int num_rows,
                const Tile* tiles, int num_tiles, const GemmOutput& out);
void gemm_quantized(Format format, const QuantizedRows& x, int first_row, int num_rows, const Tile* tiles,
                    int num_tiles, const GemmOutput& out);
}  // namespace amx_stand_in
}  // namespace tailrace
#endif

int main() {
    std::vector<Candidate> candidates;
    bool has_avx512 = false;
    for (const Isa isa : supported_isas()) {
        if (isa != Isa::kPortable) candidates.push_back({isa_name(isa), kernels_for(isa)});
        has_avx512 = has_avx512 || isa == Isa::kAvx512Bf16;
    }
#if defined(__x86_64__)
    static Kernels amx = kernels_for(Isa::kAvx512Bf16);
    amx.gemm_quantized = amx_stand_in::gemm_quantized;
    amx.gemm_float = amx_stand_in::gemm_float;
    if (has_avx512) {
        candidates.push_back({"avxvnni's stand-in", avxvnni_stand_in::kernels});
        candidates.push_back({"amx's stand-in", amx});
    }
#endif
    int failures = compare_conversions();
    for (const Candidate& candidate : candidates) {
        failures += compare(candidate, {"portable", kernels_for(Isa::kPortable)}, kChecks);
        failures += compare(candidate, candidates.front(), kFusedChecks);
    }
    return failures == 0 ? 0 : 1;
}
