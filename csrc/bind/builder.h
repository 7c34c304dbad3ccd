// Adds stages to a program, for the recorder on the Python side; a buffer is its offset in the activations.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <utility>

#include "program/program.h"

namespace tailrace {

// Where quantised rows lie: their offset in the activations, and in each thread's own copies if it may have one.
using Codes = std::pair<size_t, std::optional<size_t>>;

class Builder {
  public:
    explicit Builder(Program& program) : program_(program) {}

    Program& program() { return program_; }
    const Matrix& matrix(int id) const { return program_.weights().matrix(id); }
    const float* vector(int id) const { return program_.weights().vector(id).data(); }
    const float* vector(std::optional<int> id) const { return id ? vector(*id) : nullptr; }

    static Rows rows(bool samples) { return samples ? Rows::kSamples : Rows::kTokens; }

    static std::optional<FloatBuffer> floats(std::optional<size_t> offset, int cols) {
        if (!offset) return std::nullopt;
        return FloatBuffer{*offset, cols};
    }

    QuantizedBuffer codes(const Codes& place, int cols, bool samples) const {
        const Limits& limits = program_.limits();
        return {place.first, cols, samples ? limits.max_samples : limits.max_tokens, place.second};
    }
    std::optional<QuantizedBuffer> codes(const std::optional<Codes>& place, int cols, bool samples) const {
        if (!place) return std::nullopt;
        return codes(*place, cols, samples);
    }

  private:
    Program& program_;
};

void bind_builder(nanobind::module_& module);

}  // namespace tailrace
