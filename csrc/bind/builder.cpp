#include "bind/builder.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace tailrace {

namespace {

void embed(Builder& self, int table, size_t out) {
    auto stage = std::make_unique<EmbedStage>();
    stage->table = &self.matrix(table);
    stage->out = {out, stage->table->inputs};
    self.program().add(std::move(stage));
}

void norm(Builder& self, bool samples, int cols, size_t x, int weight, float eps, std::optional<size_t> out,
          std::optional<Codes> quantized) {
    auto stage = std::make_unique<NormStage>();
    stage->rows = self.rows(samples);
    stage->x = {x, cols};
    stage->weight = self.vector(weight);
    stage->eps = eps;
    stage->out = self.floats(out, cols);
    stage->quantized = self.codes(quantized, cols, samples);
    if (out && stage->quantized && stage->quantized->private_offset) {
        throw std::invalid_argument("a norm whose floats are wanted is computed once: no thread has codes of its own");
    }
    self.program().add(std::move(stage));
}

void quantize(Builder& self, bool samples, int cols, size_t x, const Codes& out) {
    auto stage = std::make_unique<QuantizeStage>();
    stage->rows = self.rows(samples);
    stage->x = {x, cols};
    stage->out = self.codes(out, cols, samples);
    self.program().add(std::move(stage));
}

void gemm(Builder& self, bool samples, std::optional<size_t> x, std::optional<Codes> quantized,
          const std::vector<int>& matrices, std::optional<int> bias, std::optional<size_t> residual, size_t out) {
    auto stage = std::make_unique<GemmStage>();
    int cols = 0;
    for (int id : matrices) {
        const Matrix& matrix = self.matrix(id);
        stage->add(matrix, 0, cols);
        cols += matrix.outputs;
    }
    const int inputs = stage->parts.at(0).inputs;
    stage->rows = self.rows(samples);
    stage->x = self.floats(x, inputs);
    stage->quantized = self.codes(quantized, inputs, samples);
    if (bias) stage->bias = self.program().weights().vector(*bias);
    stage->residual = self.floats(residual, cols);
    stage->out = {out, cols};
    self.program().add(std::move(stage));
}

void head_gemm(Builder& self, std::optional<size_t> x, std::optional<Codes> quantized, const std::vector<int>& matrices,
               int x_stride, int out_stride, size_t out) {
    auto stage = std::make_unique<GemmStage>();
    const int num_heads = static_cast<int>(matrices.size());
    for (int head = 0; head < num_heads; ++head) {
        stage->add(self.matrix(matrices[head]), head * x_stride, head * out_stride);
    }
    stage->rows = Rows::kTokens;
    stage->x = self.floats(x, num_heads * x_stride);
    stage->quantized = self.codes(quantized, num_heads * x_stride, false);
    stage->out = {out, num_heads * out_stride};
    self.program().add(std::move(stage));
}

void swiglu(Builder& self, bool samples, int cols, size_t x, std::optional<size_t> out,
            std::optional<Codes> quantized) {
    auto stage = std::make_unique<SwiGluStage>();
    stage->rows = self.rows(samples);
    stage->x = {x, 2 * cols};
    stage->out = self.floats(out, cols);
    stage->quantized = self.codes(quantized, cols, samples);
    stage->cols = cols;
    self.program().add(std::move(stage));
}

void gated(Builder& self, bool samples, const Codes& quantized, int gate, int up, const Codes& out) {
    auto stage = std::make_unique<GatedStage>();
    const Matrix& matrix = self.matrix(gate);
    stage->rows = self.rows(samples);
    stage->format = matrix.format;
    stage->x = self.codes(quantized, matrix.inputs, samples);
    stage->add_units(matrix, self.matrix(up));
    stage->out = self.codes(out, matrix.outputs, samples);
    self.program().add(std::move(stage));
}

void angles(Builder& self, const std::vector<float>& inv_freq, float scale, size_t out) {
    auto stage = std::make_unique<AnglesStage>();
    stage->inv_freq = inv_freq;
    stage->scale = scale;
    stage->out = {out, 2 * static_cast<int>(inv_freq.size())};
    self.program().add(std::move(stage));
}

void rope(Builder& self, size_t qkv, size_t angles, int num_angles, bool interleaved, int cache, int num_heads,
          std::optional<int> q_norm, std::optional<int> k_norm, float eps, size_t out) {
    auto stage = std::make_unique<RopeStage>();
    stage->cache = self.program().cache(cache);
    stage->qkv = {qkv, (num_heads + 2 * stage->cache.num_kv_heads) * stage->cache.head_dim};
    stage->angles = {angles, 2 * num_angles};
    stage->num_heads = num_heads;
    stage->is_interleaved = interleaved;
    stage->q_norm = self.vector(q_norm);
    stage->k_norm = self.vector(k_norm);
    stage->eps = eps;
    stage->out = {out, num_heads * stage->cache.head_dim};
    self.program().add(std::move(stage));
}

void attention(Builder& self, size_t q, int cache, int num_heads, float scale, std::optional<int> window, size_t out,
               std::optional<Codes> quantized) {
    auto stage = std::make_unique<AttentionStage>();
    stage->cache = self.program().cache(cache);
    const int cols = num_heads * stage->cache.head_dim;
    self.program().limit_heads(num_heads / stage->cache.num_kv_heads);
    stage->q = {q, cols};
    if (auto* rope = dynamic_cast<RopeStage*>(self.program().last_stage()); rope && rope->out.offset == q) {
        rope->is_linked = true;
        stage->rope = rope;
    }
    stage->num_heads = num_heads;
    stage->scale = scale;
    stage->window = window.value_or(0);
    stage->out = {out, cols};
    stage->quantized = self.codes(quantized, cols, false);
    self.program().add(std::move(stage));
}

void gather(Builder& self, int cols, size_t x, size_t out) {
    auto stage = std::make_unique<GatherStage>();
    stage->x = {x, cols};
    stage->out = {out, cols};
    self.program().add(std::move(stage));
}

}  // namespace

void bind_builder(nb::module_& module) {
    nb::class_<Builder>(module, "Builder")
        .def(nb::init<Program&>(), nb::keep_alive<1, 2>(), "program"_a)
        .def("embed", &embed, "table"_a, "out"_a)
        .def("norm", &norm, "samples"_a, "cols"_a, "x"_a, "weight"_a, "eps"_a, "out"_a.none(), "quantized"_a.none())
        .def("quantize", &quantize, "samples"_a, "cols"_a, "x"_a, "out"_a)
        .def("gemm", &gemm, "samples"_a, "x"_a.none(), "quantized"_a.none(), "matrices"_a, "bias"_a.none(),
             "residual"_a.none(), "out"_a)
        .def("head_gemm", &head_gemm, "x"_a.none(), "quantized"_a.none(), "matrices"_a, "x_stride"_a, "out_stride"_a,
             "out"_a)
        .def("swiglu", &swiglu, "samples"_a, "cols"_a, "x"_a, "out"_a.none(), "quantized"_a.none())
        .def("gated", &gated, "samples"_a, "quantized"_a, "gate"_a, "up"_a, "out"_a)
        .def("angles", &angles, "inv_freq"_a, "scale"_a, "out"_a)
        .def("rope", &rope, "qkv"_a, "angles"_a, "num_angles"_a, "interleaved"_a, "cache"_a, "num_heads"_a,
             "q_norm"_a.none(), "k_norm"_a.none(), "eps"_a, "out"_a)
        .def("attention", &attention, "q"_a, "cache"_a, "num_heads"_a, "scale"_a, "window"_a.none(), "out"_a,
             "quantized"_a.none())
        .def("gather", &gather, "cols"_a, "x"_a, "out"_a);
}

}  // namespace tailrace
