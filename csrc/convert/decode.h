// Stored values as float32: the products of the formats' own definitions, rounded where those round.
//
// A form says:
//
//     decode     the values of a block; `scale` is of the grid
//
// Loops over bytes are left to the compiler, which makes vectors of them; whole vectors of floats are written, because
// they are read as such right after.
#pragma once

#include "convert/lanes.h"
#include "convert/stored.h"

namespace tailrace::TAILRACE_ISA {

TAILRACE_INLINE float half_at(const uint8_t* p) {
    uint16_t half;
    std::memcpy(&half, p, 2);
    return half_to_float(half);
}

// out = scale * (code - kCentre), or scale * code + offset. Codes are below 128.
template <int kCount, int kCentre = 0>
TAILRACE_INLINE void scale_codes(const uint8_t* codes, float scale, float* out) {
    for (int i = 0; i < kCount; i += kLanes) {
        const Vec code = load_int8(reinterpret_cast<const int8_t*>(codes) + i);
        store(out + i, set1(scale) * (code - set1(static_cast<float>(kCentre))));
    }
}
template <int kCount>
TAILRACE_INLINE void scale_codes(const uint8_t* codes, float scale, float offset, float* out) {
    for (int i = 0; i < kCount; i += kLanes) {
        const Vec code = load_int8(reinterpret_cast<const int8_t*>(codes) + i);
        store(out + i, set1(scale) * code + set1(offset));
    }
}

// Some bits of each of kCount bytes as codes; or on top of the kAbove bits that codes have.
template <int kShift, int kBits, int kCount = 32>
TAILRACE_INLINE void take_bits(const uint8_t* p, uint8_t* codes) {
    for (int i = 0; i < kCount; ++i) codes[i] = static_cast<uint8_t>(p[i] >> kShift & ((1 << kBits) - 1));
}
template <int kShift, int kBits, int kAbove>
TAILRACE_INLINE void add_bits(const uint8_t* p, uint8_t* codes) {
    for (int i = 0; i < 32; ++i) {
        codes[i] |= static_cast<uint8_t>((p[i] >> kShift & ((1 << kBits) - 1)) << kAbove);
    }
}

// Low nibbles of 16 bytes, then the high ones.
TAILRACE_INLINE void take_nibbles(const uint8_t* p, uint8_t* codes) {
    take_bits<0, 4, 16>(p, codes);
    take_bits<4, 4, 16>(p, codes + 16);
}

// Bit i of four bytes on top of the nibble of code i.
TAILRACE_INLINE void add_fifth_bits(const uint8_t* p, uint8_t* codes) {
    uint32_t bits;
    std::memcpy(&bits, p, 4);
    for (int i = 0; i < 32; ++i) codes[i] |= static_cast<uint8_t>((bits >> i & 1) << 4);
}

struct F32Values {
    static constexpr Stored kStored = Stored::kF32;
    TAILRACE_INLINE void decode(const uint8_t* p, float, float* out) {
        float values[kGroupValues];
        std::memcpy(values, p, sizeof values);
        for (int i = 0; i < kGroupValues; i += kLanes) store(out + i, load(values + i));
    }
};

struct F16Values {
    static constexpr Stored kStored = Stored::kF16;
    TAILRACE_INLINE void decode(const uint8_t* p, float, float* out) {
        uint16_t halves[kGroupValues];
        std::memcpy(halves, p, sizeof halves);
        for (int i = 0; i < kGroupValues; i += kLanes) store(out + i, load_half(halves + i));
    }
};

struct Bf16Values {
    static constexpr Stored kStored = Stored::kBf16;
    TAILRACE_INLINE void decode(const uint8_t* p, float, float* out) {
        uint16_t upper[kGroupValues];
        std::memcpy(upper, p, sizeof upper);
        for (int i = 0; i < kGroupValues; i += kLanes) store(out + i, load_bf16(upper + i));
    }
};

// Moved into a float16 a code is 2^-8 of its value, subnormal or not.
struct E4m3Values {
    static constexpr Stored kStored = Stored::kE4m3;
    TAILRACE_INLINE void decode(const uint8_t* p, float scale, float* out) {
        constexpr uint32_t kNan = 0x7e00;
        uint16_t halves[kGroupValues];
        for (int i = 0; i < kGroupValues; ++i) {
            const uint32_t code = p[i], magnitude = code & 0x7f;
            halves[i] = static_cast<uint16_t>((code & 0x80) << 8 | (magnitude == 0x7f ? kNan : magnitude << 7));
        }
        for (int i = 0; i < kGroupValues; i += kLanes) {
            store(out + i, load_half(halves + i) * set1(256.0f) * set1(scale));
        }
    }
};

struct Q8_0Values {
    static constexpr Stored kStored = Stored::kQ8_0;
    TAILRACE_INLINE void decode(const uint8_t* p, float, float* out) { scale_codes<32>(p + 2, half_at(p), out); }
};

struct Q5_0Values {
    static constexpr Stored kStored = Stored::kQ5_0;
    TAILRACE_INLINE void decode(const uint8_t* p, float, float* out) {
        uint8_t codes[32];
        take_nibbles(p + 6, codes);
        add_fifth_bits(p + 2, codes);
        scale_codes<32, 16>(codes, half_at(p), out);
    }
};

struct Q5_1Values {
    static constexpr Stored kStored = Stored::kQ5_1;
    TAILRACE_INLINE void decode(const uint8_t* p, float, float* out) {
        uint8_t codes[32];
        take_nibbles(p + 8, codes);
        add_fifth_bits(p + 4, codes);
        scale_codes<32>(codes, half_at(p), half_at(p + 2), out);
    }
};

struct Iq4NlValues {
    static constexpr Stored kStored = Stored::kIq4Nl;
    TAILRACE_INLINE void decode(const uint8_t* p, float, float* out) {
        constexpr int8_t kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
        uint8_t codes[32];
        for (int i = 0; i < 16; ++i) {
            codes[i] = static_cast<uint8_t>(kLevels[p[2 + i] & 15]);
            codes[16 + i] = static_cast<uint8_t>(kLevels[p[2 + i] >> 4]);
        }
        scale_codes<32>(codes, half_at(p), out);
    }
};

// Sixteen groups of 16; their scales and minima are the nibbles of 16 bytes. Of 32 bytes, each pair of bits is of a
// group of its own.
struct Q2KValues {
    static constexpr Stored kStored = Stored::kQ2K;
    TAILRACE_INLINE void decode(const uint8_t* p, float, float* out) {
        uint8_t codes[256];
        for (int half = 0; half < 2; ++half) {
            const uint8_t* pairs = p + 16 + 32 * half;
            take_bits<0, 2>(pairs, codes + 128 * half);
            take_bits<2, 2>(pairs, codes + 128 * half + 32);
            take_bits<4, 2>(pairs, codes + 128 * half + 64);
            take_bits<6, 2>(pairs, codes + 128 * half + 96);
        }
        const float d = half_at(p + 80), least = half_at(p + 82);
        for (int group = 0; group < 16; ++group) {
            const float scale = d * static_cast<float>(p[group] & 15);
            const float offset = -(least * static_cast<float>(p[group] >> 4));
            scale_codes<16>(codes + 16 * group, scale, offset, out + 16 * group);
        }
    }
};

// As Q2_K, without minima: a third bit, of which a byte has one for each of eight groups, and 4 taken away.
struct Q3KValues {
    static constexpr Stored kStored = Stored::kQ3K;

    template <int kHalf>
    TAILRACE_INLINE void take_codes(const uint8_t* p, uint8_t* codes) {
        const uint8_t* pairs = p + 32 + 32 * kHalf;
        take_bits<0, 2>(pairs, codes);
        take_bits<2, 2>(pairs, codes + 32);
        take_bits<4, 2>(pairs, codes + 64);
        take_bits<6, 2>(pairs, codes + 96);
        add_bits<4 * kHalf, 1, 2>(p, codes);
        add_bits<4 * kHalf + 1, 1, 2>(p, codes + 32);
        add_bits<4 * kHalf + 2, 1, 2>(p, codes + 64);
        add_bits<4 * kHalf + 3, 1, 2>(p, codes + 96);
    }

    TAILRACE_INLINE void decode(const uint8_t* p, float, float* out) {
        const uint8_t* six = p + 96;  // bits of each scale: four, then, further on, the upper two
        uint8_t codes[256];
        take_codes<0>(p, codes);
        take_codes<1>(p, codes + 128);
        const float d = half_at(p + 108);
        for (int group = 0; group < 16; ++group) {
            const int below = six[group % 8] >> (group / 8 * 4) & 15;
            const int above = six[8 + group % 4] >> (group / 4 * 2) & 3;
            const float scale = d * static_cast<float>((below | above << 4) - 32);
            scale_codes<16, 4>(codes + 16 * group, scale, out + 16 * group);
        }
    }
};

// Eight 6-bit scales and minima in 12 bytes; of the last four, the upper two bits sit above the first four.
struct SixBits {
    uint8_t scales[8], minima[8];

    explicit SixBits(const uint8_t* p) {
        for (int i = 0; i < 4; ++i) {
            scales[i] = p[i] & 63;
            minima[i] = p[4 + i] & 63;
            scales[4 + i] = static_cast<uint8_t>((p[8 + i] & 15) | (p[i] >> 6) << 4);
            minima[4 + i] = static_cast<uint8_t>((p[8 + i] >> 4) | (p[4 + i] >> 6) << 4);
        }
    }
};

// Eight groups of 32 of a block that begins with two scales for all, and six bits more for each.
TAILRACE_INLINE void scale_eight(const uint8_t* p, const uint8_t* codes, float* out) {
    const SixBits six(p + 4);
    const float d = half_at(p), least = half_at(p + 2);
    for (int group = 0; group < 8; ++group) {
        const float scale = d * static_cast<float>(six.scales[group]);
        const float offset = -(least * static_cast<float>(six.minima[group]));
        scale_codes<32>(codes + 32 * group, scale, offset, out + 32 * group);
    }
}

// Of 32 bytes the low nibbles are one group, the high ones the next.
TAILRACE_INLINE void take_chunks(const uint8_t* p, uint8_t* codes) {
    for (int chunk = 0; chunk < 4; ++chunk) {
        take_bits<0, 4>(p + 32 * chunk, codes + 64 * chunk);
        take_bits<4, 4>(p + 32 * chunk, codes + 64 * chunk + 32);
    }
}

struct Q4KValues {
    static constexpr Stored kStored = Stored::kQ4K;
    TAILRACE_INLINE void decode(const uint8_t* p, float, float* out) {
        uint8_t codes[256];
        take_chunks(p + 16, codes);
        scale_eight(p, codes, out);
    }
};

struct Q5KValues {
    static constexpr Stored kStored = Stored::kQ5K;
    TAILRACE_INLINE void decode(const uint8_t* p, float, float* out) {
        const uint8_t* fifth = p + 16;
        uint8_t codes[256];
        take_chunks(p + 48, codes);
        add_bits<0, 1, 4>(fifth, codes);
        add_bits<1, 1, 4>(fifth, codes + 32);
        add_bits<2, 1, 4>(fifth, codes + 64);
        add_bits<3, 1, 4>(fifth, codes + 96);
        add_bits<4, 1, 4>(fifth, codes + 128);
        add_bits<5, 1, 4>(fifth, codes + 160);
        add_bits<6, 1, 4>(fifth, codes + 192);
        add_bits<7, 1, 4>(fifth, codes + 224);
        scale_eight(p, codes, out);
    }
};

// Sixteen groups of 16; 64 bytes of nibbles and 32 of pairs make 128 codes.
struct Q6KValues {
    static constexpr Stored kStored = Stored::kQ6K;
    TAILRACE_INLINE void decode(const uint8_t* p, float, float* out) {
        uint8_t codes[256];
        for (int half = 0; half < 2; ++half) {
            const uint8_t *nibbles = p + 64 * half, *pairs = p + 128 + 32 * half;
            uint8_t* to = codes + 128 * half;
            take_bits<0, 4, 64>(nibbles, to);
            take_bits<4, 4, 64>(nibbles, to + 64);
            add_bits<0, 2, 4>(pairs, to);
            add_bits<2, 2, 4>(pairs, to + 32);
            add_bits<4, 2, 4>(pairs, to + 64);
            add_bits<6, 2, 4>(pairs, to + 96);
        }
        const float d = half_at(p + 208);
        for (int group = 0; group < 16; ++group) {
            const float scale = d * static_cast<float>(static_cast<int8_t>(p[192 + group]));
            scale_codes<16, 32>(codes + 16 * group, scale, out + 16 * group);
        }
    }
};

}  // namespace tailrace::TAILRACE_ISA
