// int8 activations times 4-bit or 8-bit weights: for each group of 32 inputs an exact integer dot, then its scales.
//
// The groups are added in ascending order into one float per output, whatever the shape of the register tile.
#include "kernels/functions.h"
#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

namespace {

// Bytes: 64 weight codes; dot_* adds to each lane the products of its four codes with four activation codes.
#if defined(__AVX512VNNI__)

constexpr int kGemmRows = 6;
using Bytes = __m512i;

TAILRACE_INLINE Bytes load_bytes(const uint8_t* p) {
    return _mm512_loadu_si512(p);
}
TAILRACE_INLINE Bytes low_nibbles(Bytes b) {
    return _mm512_and_si512(b, _mm512_set1_epi8(15));
}
TAILRACE_INLINE Bytes high_nibbles(Bytes b) {
    return _mm512_and_si512(_mm512_srli_epi16(b, 4), _mm512_set1_epi8(15));
}
TAILRACE_INLINE VecI dot_q4(VecI s, Bytes w, int32_t a) {
    return {_mm512_dpbusd_epi32(s.v, w, _mm512_set1_epi32(a))};
}
TAILRACE_INLINE VecI start_q8(int32_t shift) {
    return set1(shift);
}
TAILRACE_INLINE VecI dot_q8(VecI s, Bytes w, int32_t a) {
    return dot_q4(s, w, a);
}

#elif defined(__AVX2__)

constexpr int kGemmRows = 2;
struct Bytes {
    __m256i a, b;
};

TAILRACE_INLINE Bytes load_bytes(const uint8_t* p) {
    const auto* vectors = reinterpret_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(vectors), _mm256_loadu_si256(vectors + 1)};
}
TAILRACE_INLINE Bytes low_nibbles(Bytes x) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)};
}
TAILRACE_INLINE Bytes high_nibbles(Bytes x) {
    return low_nibbles({_mm256_srli_epi16(x.a, 4), _mm256_srli_epi16(x.b, 4)});
}
// Products of unsigned and signed bytes, pairs added in 16 bits: at most 2 * 128 * 127, which does not saturate.
TAILRACE_INLINE __m256i add_products(__m256i sum, __m256i bytes, __m256i a) {
    const __m256i pairs = _mm256_maddubs_epi16(bytes, a);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
TAILRACE_INLINE VecI dot_q4(VecI s, Bytes w, int32_t a) {
    const __m256i four = _mm256_set1_epi32(a);
    return {add_products(s.a, w.a, four), add_products(s.b, w.b, four)};
}
TAILRACE_INLINE VecI start_q8(int32_t) {
    return set1(int32_t{0});
}
// The full range of a stored byte would saturate: multiply |w| with a under the sign of w.
TAILRACE_INLINE VecI dot_q8(VecI s, Bytes w, int32_t a) {
    const __m256i four = _mm256_set1_epi32(a), flip = _mm256_set1_epi8(-128);
    const __m256i low = _mm256_xor_si256(w.a, flip), high = _mm256_xor_si256(w.b, flip);
    return {add_products(s.a, _mm256_abs_epi8(low), _mm256_sign_epi8(four, low)),
            add_products(s.b, _mm256_abs_epi8(high), _mm256_sign_epi8(four, high))};
}

#else

constexpr int kGemmRows = 1;
struct Bytes {
    uint8_t v[64];
};

TAILRACE_INLINE Bytes load_bytes(const uint8_t* p) {
    Bytes b;
    std::memcpy(b.v, p, sizeof b.v);
    return b;
}
TAILRACE_INLINE Bytes low_nibbles(Bytes b) {
    for (uint8_t& byte : b.v) byte &= 15;
    return b;
}
TAILRACE_INLINE Bytes high_nibbles(Bytes b) {
    for (uint8_t& byte : b.v) byte >>= 4;
    return b;
}
TAILRACE_INLINE VecI dot_q4(VecI s, const Bytes& w, int32_t four) {
    int8_t a[4];
    std::memcpy(a, &four, 4);
    for (int i = 0; i < kLanes; ++i) {
        for (int j = 0; j < 4; ++j) s.v[i] += w.v[i * 4 + j] * a[j];
    }
    return s;
}
TAILRACE_INLINE VecI start_q8(int32_t shift) {
    return set1(shift);
}
TAILRACE_INLINE VecI dot_q8(VecI s, const Bytes& w, int32_t a) {
    return dot_q4(s, w, a);
}

#endif

template <bool kHalf>
TAILRACE_INLINE Vec load_scales(const uint8_t* p) {
    if constexpr (kHalf) return load_half(reinterpret_cast<const uint16_t*>(p));
    return load(reinterpret_cast<const float*>(p));
}

template <bool kHalf>
constexpr size_t kScaleBytes = kTile * (kHalf ? 2 : 4);

TAILRACE_INLINE int32_t four_codes(const int8_t* p) {
    int32_t four;
    std::memcpy(&four, p, 4);
    return four;
}

TAILRACE_INLINE void write(const GemmOutput& out, size_t row, const Tile& tile, Vec value) {
    const int n = tile.width;
    if (out.bias) value = value + load_first(out.bias + tile.column, n);
    if (out.residual) value = value + load_first(out.residual + row * out.residual_stride + tile.column, n);
    store_first(out.out + row * out.stride + tile.column, value, n);
}

// Which formats: what a group of 32 inputs of one tile looks like, and how it is multiplied.
template <bool kHalf>
struct Q4 {
    static constexpr size_t kCodes = 256;  // bytes of codes
    static constexpr size_t kScales = 2 * kScaleBytes<kHalf>;

    template <int R, int C>
    TAILRACE_INLINE void dot(VecI (&s)[R][C], const uint8_t* const (&w)[C], const int8_t* codes, size_t stride) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            Bytes low[C], high[C];
            for (int c = 0; c < C; ++c) {
                const Bytes both = load_bytes(w[c] + i * 64);
                low[c] = low_nibbles(both);
                high[c] = high_nibbles(both);
            }
            for (int r = 0; r < R; ++r) {
                const int8_t* four = codes + r * stride + i * 4;
                for (int c = 0; c < C; ++c) s[r][c] = dot_q4(s[r][c], low[c], four_codes(four));
                for (int c = 0; c < C; ++c) s[r][c] = dot_q4(s[r][c], high[c], four_codes(four + 16));
            }
        }
    }
    TAILRACE_INLINE VecI start(int32_t) { return set1(int32_t{0}); }
    TAILRACE_INLINE Vec add_offset(Vec acc, const uint8_t* scales, float sum) {
        return fma(load_scales<kHalf>(scales + kScaleBytes<kHalf>), set1(sum), acc);
    }
};

template <bool kHalf>
struct Q8 {
    static constexpr size_t kCodes = 512;
    static constexpr size_t kScales = kScaleBytes<kHalf>;

    template <int R, int C>
    TAILRACE_INLINE void dot(VecI (&s)[R][C], const uint8_t* const (&w)[C], const int8_t* codes, size_t stride) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
            Bytes b[C];
            for (int c = 0; c < C; ++c) b[c] = load_bytes(w[c] + i * 64);
            for (int r = 0; r < R; ++r) {
                for (int c = 0; c < C; ++c) s[r][c] = dot_q8(s[r][c], b[c], four_codes(codes + r * stride + i * 4));
            }
        }
    }
    TAILRACE_INLINE VecI start(int32_t shift) { return start_q8(shift); }
    TAILRACE_INLINE Vec add_offset(Vec acc, const uint8_t*, float) { return acc; }
};

template <class Format, bool kHalf, int R, int C>
void tile(const QuantizedRows& x, int row, const Tile* tiles, const GemmOutput& out) {
    const int groups = x.groups;
    const size_t first = static_cast<size_t>(row) * groups, stride = static_cast<size_t>(groups) * kGroup;
    Vec acc[R][C];
    for (int r = 0; r < R; ++r) {
        for (int c = 0; c < C; ++c) acc[r][c] = zero();
    }
    for (int g = 0; g < groups; ++g) {
        const uint8_t* w[C];
        const uint8_t* scales[C];
        for (int c = 0; c < C; ++c) {
            w[c] = tiles[c].data + g * Format::kCodes;
            scales[c] = tiles[c].data + groups * Format::kCodes + g * Format::kScales;
        }
        const size_t at = first + g;
        VecI s[R][C];
        for (int r = 0; r < R; ++r) {
            for (int c = 0; c < C; ++c) s[r][c] = Format::start(x.shifts[at + r * groups]);
        }
        Format::dot(s, w, x.codes + at * kGroup, stride);
        uint8_t is_fine = 0;
        for (int r = 0; r < R; ++r) is_fine |= x.is_fine[at + r * groups];
        float unit = 1.0f;
        if (is_fine) {
            // Rows without fine codes add zero and shift by a power of two: their bits stay what they are.
            unit = 1.0f / 256.0f;
            for (int r = 0; r < R; ++r) {
                const VecI start = Format::start(x.fine_shifts[at + r * groups]);
                for (int c = 0; c < C; ++c) s[r][c] = shift_left<8>(s[r][c]) + start;
            }
            Format::dot(s, w, x.fine + at * kGroup, stride);
        }
        for (int c = 0; c < C; ++c) {
            const Vec scale = load_scales<kHalf>(scales[c]);
            for (int r = 0; r < R; ++r) {
                const Vec factor = scale * set1(x.scales[at + r * groups] * unit);
                acc[r][c] = fma(to_float(s[r][c]), factor, acc[r][c]);
                acc[r][c] = Format::add_offset(acc[r][c], scales[c], x.sums[at + r * groups]);
            }
        }
    }
    for (int r = 0; r < R; ++r) {
        for (int c = 0; c < C; ++c) write(out, row + r, tiles[c], acc[r][c]);
    }
}

template <int R, int C>
void tile_rows(Format format, const QuantizedRows& x, int row, const Tile* tiles, const GemmOutput& out) {
    switch (format) {
        case Format::kQ4:
            return tile<Q4<false>, false, R, C>(x, row, tiles, out);
        case Format::kQ4Half:
            return tile<Q4<true>, true, R, C>(x, row, tiles, out);
        case Format::kQ8:
            return tile<Q8<false>, false, R, C>(x, row, tiles, out);
        default:
            return tile<Q8<true>, true, R, C>(x, row, tiles, out);
    }
}

template <int C>
void few_rows(int num_rows, Format format, const QuantizedRows& x, int row, const Tile* tiles, const GemmOutput& out) {
    switch (num_rows) {
        case 1:
            return tile_rows<1, C>(format, x, row, tiles, out);
        case 2:
            return tile_rows<2, C>(format, x, row, tiles, out);
        case 3:
            return tile_rows<3, C>(format, x, row, tiles, out);
        case 4:
            return tile_rows<4, C>(format, x, row, tiles, out);
        case 5:
            return tile_rows<5, C>(format, x, row, tiles, out);
        default:
            return tile_rows<6, C>(format, x, row, tiles, out);
    }
}

}  // namespace

void gemm_quantized(Format format, const QuantizedRows& x, int first_row, int num_rows, const Tile* tiles,
                    int num_tiles, const GemmOutput& out) {
    const int last_row = first_row + num_rows;
    for (int t = 0; t < num_tiles; t += 2) {
        for (int row = first_row; row < last_row; row += kGemmRows) {
            const int rows = last_row - row < kGemmRows ? last_row - row : kGemmRows;
            if (t + 1 < num_tiles) {
                few_rows<2>(rows, format, x, row, tiles + t, out);
            } else {
                few_rows<1>(rows, format, x, row, tiles + t, out);
            }
        }
    }
}

}  // namespace tailrace::TAILRACE_ISA
