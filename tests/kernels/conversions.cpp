#include "conversions.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "convert/conversions.h"

using namespace tailrace;

namespace {

constexpr int kRows = 7, kGap = 5;  // bytes from the end of a row to the next

// Bytes of rows of a form: any bytes, or, where they are floats, numbers of all magnitudes.
struct Matrix {
    std::vector<uint8_t> bytes;
    std::vector<float> scales;
    StoredRows rows;

    Matrix(std::mt19937& engine, const StoredForm& form, int num_blocks) {
        const int64_t width = static_cast<int64_t>(num_blocks) * form.num_bytes;
        bytes.resize(kRows * (width + kGap));
        for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(engine());
        if (form.stored <= Stored::kBf16) calm(form.num_bytes / form.num_values);
        const int64_t num_cols = static_cast<int64_t>(num_blocks) * form.num_values;
        rows = {form.stored, bytes.data(), width + kGap, kRows, num_cols, {}};
        if (form.stored == Stored::kE4m3) {
            const int64_t columns = (num_cols + 63) / 64;
            scales.resize(2 * columns);
            for (float& scale : scales)
                scale = std::ldexp(static_cast<float>(engine()), -static_cast<int>(engine() % 60));
            rows.grid = {scales.data(), columns, 4, 64, 1};
        }
    }

  private:
    // Takes a bit out of the exponent of most floats, so that few are large: their upper bytes have it.
    void calm(int size) {
        for (size_t i = 0; i < bytes.size(); ++i) {
            const bool is_upper = (i % (bytes.size() / kRows)) % size == static_cast<size_t>(size - 1);
            if (is_upper && i % 1021 != 0) bytes[i] &= 0xbf;
        }
    }
};

struct Narrowed {
    std::vector<uint8_t> codes;
    std::vector<uint16_t> scales, offsets;
    Squares squares;

    Narrowed(const Conversions& conversions, const StoredRows& rows, bool is_q4)
        : codes(rows.num_rows * rows.num_cols / (is_q4 ? 2 : 1)),
          scales(rows.num_rows * rows.num_cols / kGroupValues),
          offsets(scales.size()) {
        squares = conversions.narrow(rows, {codes.data(), scales.data(), is_q4 ? offsets.data() : nullptr});
    }

    // What a group comes to when its scale or offset is no number is nobody's business.
    bool equals(const Narrowed& other) const {
        const size_t code_bytes = codes.size() / scales.size();
        for (size_t i = 0; i < scales.size(); ++i) {
            const bool is_finite = is_number(scales[i]) && is_number(offsets[i]);
            if (is_finite != (is_number(other.scales[i]) && is_number(other.offsets[i]))) return false;
            if (!is_finite) continue;
            if (scales[i] != other.scales[i] || offsets[i] != other.offsets[i]) return false;
            if (std::memcmp(&codes[i * code_bytes], &other.codes[i * code_bytes], code_bytes) != 0) return false;
        }
        return is_near(squares.lost, other.squares.lost) && is_near(squares.values, other.squares.values);
    }

  private:
    static bool is_number(uint16_t half) { return (half & 0x7c00) != 0x7c00; }
    static bool is_near(double a, double b) {
        return std::isfinite(a) == std::isfinite(b) && (!std::isfinite(a) || std::fabs(a - b) <= 1e-4 * std::fabs(b));
    }
};

// One number is as good as another where both are none.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    for (size_t i = 0; i < a.size(); ++i) {
        if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0 && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
    }
    return true;
}

std::vector<float> widened(const Conversions& conversions, const StoredRows& rows) {
    std::vector<float> values(rows.num_rows * rows.num_cols);
    conversions.widen(rows, values.data());
    return values;
}

bool is_portable(const Conversions& conversions, const StoredForm& form) {
    const Conversions& portable = conversions_for(Isa::kPortable);
    std::mt19937 engine{7};
    for (const int num_blocks : {1, 2, 3, 15, 16, 17, 33}) {
        const Matrix matrix(engine, form, num_blocks);
        if (!same_bits(widened(conversions, matrix.rows), widened(portable, matrix.rows))) return false;
        for (const bool is_q4 : {false, true}) {
            if (!Narrowed(conversions, matrix.rows, is_q4).equals(Narrowed(portable, matrix.rows, is_q4))) return false;
        }
    }
    return true;
}

}  // namespace

int compare_conversions() {
    int failures = 0;
    for (const Isa isa : supported_isas()) {
        for (const StoredForm& form : kStoredForms) {
            if (isa == Isa::kPortable) continue;
            const bool is_equal = is_portable(conversions_for(isa), form);
            std::printf("%s is portable: conversion of %s, %s\n", isa_name(isa), form.name, is_equal ? "yes" : "NO");
            failures += !is_equal;
        }
    }
    return failures;
}
