// The native module as Python sees it (src/tailrace/ops/_native.pyi). It unwraps arrays; it does no maths.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "bind/builder.h"
#include "bind/convert.h"
#include "bind/experts.h"
#include "bind/index.h"
#include "bind/latent.h"
#include "program/ceilings.h"
#include "program/program.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tailrace {

namespace {

template <class Value>
using Vector = nb::ndarray<const Value, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class Value, int kDims>
using Strided = nb::ndarray<const Value, nb::ndim<kDims>, nb::device::cpu>;
using AnyMatrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;

void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

KvFormat kv_format_of(const std::string& name) {
    if (name == "f32") return KvFormat::kF32;
    if (name == "bf16") return KvFormat::kBf16;
    if (name == "int8") return KvFormat::kInt8;
    if (name == "fp8_e4m3") return KvFormat::kE4m3;
    throw std::invalid_argument("no KV format '" + name + "': choose one of bf16, int8, fp8_e4m3, f32");
}

// [rows, groups] or [rows, groups, values]; the values of a group must be neighbours.
template <class Array>
View view_of(const Array& array) {
    const int64_t size = array.itemsize();
    require(array.ndim() < 3 || array.stride(2) == 1, "weights: codes of a group are not neighbours");
    return {static_cast<const uint8_t*>(static_cast<const void*>(array.data())), static_cast<int64_t>(array.shape(0)),
            array.stride(0) * size, array.stride(1) * size};
}

bool is_half(const AnyMatrix& scales) {
    require(scales.dtype().code == static_cast<uint8_t>(nb::dlpack::dtype_code::Float) &&
                (scales.dtype().bits == 16 || scales.dtype().bits == 32),
            "weights: scales must be float16 or float32");
    return scales.dtype().bits == 16;
}

Format format_of(const std::string& name) {
    if (name == "f32") return Format::kF32;
    if (name == "f16") return Format::kF16;
    if (name == "bf16") return Format::kBf16;
    if (name == "q8") return Format::kQ8Half;
    if (name == "q8 wide") return Format::kQ8;
    if (name == "q4") return Format::kQ4Half;
    if (name == "q4 wide") return Format::kQ4;
    throw std::invalid_argument("no format of weights '" + name + "'");
}

void require_inputs(const Weights& weights, int id, size_t inputs) {
    require(static_cast<size_t>(weights.matrix(id).inputs) == inputs, "weights: another number of inputs than planned");
}

void fill_q4(Weights& weights, int id, int first_row, const Strided<uint8_t, 3>& codes, const AnyMatrix& scales,
             const AnyMatrix& offsets) {
    require(codes.shape(2) == kGroup / 2, "weights: a 4-bit group is 16 bytes");
    require(scales.shape(0) == codes.shape(0) && scales.shape(1) == codes.shape(1) &&
                offsets.shape(0) == codes.shape(0) && offsets.shape(1) == codes.shape(1),
            "weights: scales and offsets must have the shape of the groups");
    require(is_half(scales) == is_half(offsets), "weights: scales and offsets must have one type");
    require_inputs(weights, id, codes.shape(1) * kGroup);
    nb::gil_scoped_release release;
    weights.fill_q4(id, first_row, view_of(codes), view_of(scales), view_of(offsets), is_half(scales));
}

void fill_q8(Weights& weights, int id, int first_row, const Strided<int8_t, 3>& codes, const AnyMatrix& scales) {
    require(codes.shape(2) == kGroup, "weights: an 8-bit group is 32 bytes");
    require(scales.shape(0) == codes.shape(0) && scales.shape(1) == codes.shape(1),
            "weights: scales must have the shape of the groups");
    require_inputs(weights, id, codes.shape(1) * kGroup);
    nb::gil_scoped_release release;
    weights.fill_q8(id, first_row, view_of(codes), view_of(scales), is_half(scales));
}

// float32, float16, or bfloat16 as uint16.
void fill_float(Weights& weights, int id, int first_row, const AnyMatrix& values) {
    require(values.stride(1) == 1 || values.shape(1) <= 1, "weights: values of a row are not neighbours");
    const nb::dlpack::dtype type = values.dtype();
    const bool is_float = type.code == static_cast<uint8_t>(nb::dlpack::dtype_code::Float);
    require((is_float && (type.bits == 16 || type.bits == 32)) || (!is_float && type.bits == 16),
            "weights: values must be float32, float16 or uint16 (bfloat16)");
    require_inputs(weights, id, values.shape(1));
    const Format format = !is_float ? Format::kBf16 : type.bits == 16 ? Format::kF16 : Format::kF32;
    nb::gil_scoped_release release;
    weights.fill_float(id, first_row, view_of(values), format);
}

void place(Weights& weights, const std::string& kind) {
    const size_t bytes = weights.planned_bytes();
    if (kind == "private") return weights.place(Memory(bytes));
    if (kind == "shared") return weights.place(Memory::shared(bytes));
    throw std::invalid_argument("no memory of kind '" + kind + "': choose one of private, shared");
}

int add_vector(Weights& weights, const Vector<float>& values) {
    return weights.add_vector(values.data(), static_cast<int>(values.shape(0)));
}

nb::ndarray<uint8_t, nb::numpy, nb::ndim<1>> memory(nb::handle_t<Weights> self) {
    const auto& weights = nb::cast<Weights&>(self);
    require(weights.is_placed(), "weights: there is no memory yet");
    return {weights.memory().data(), {weights.planned_bytes()}, self};
}

struct PyStep {
    Vector<int32_t> token_ids, row_starts, starts, slots;
    nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> block_tables;
    Vector<int32_t> sample_rows;

    Step view(const Limits& limits) const {
        require(row_starts.shape(0) == starts.shape(0) + 1 && slots.shape(0) == starts.shape(0),
                "step: row_starts, starts and slots have lengths that do not fit");
        require(static_cast<int>(block_tables.shape(0)) == limits.max_sequences &&
                    static_cast<int>(block_tables.shape(1)) == limits.max_blocks_per_sequence,
                "step: block_tables has another shape than planned for");
        return {token_ids.data(),
                static_cast<int>(token_ids.shape(0)),
                row_starts.data(),
                starts.data(),
                slots.data(),
                static_cast<int>(starts.shape(0)),
                block_tables.data(),
                sample_rows.data(),
                static_cast<int>(sample_rows.shape(0))};
    }
};

void compute(Program& program, const PyStep& py_step) {
    const Step step = py_step.view(program.limits());
    nb::gil_scoped_release release;
    program.run(step, nullptr, {});
}

// What the stages took, and since when nobody had been in one before: the whole time of each.
std::vector<double> profile(Program& program, const PyStep& py_step) {
    const Step step = py_step.view(program.limits());
    nb::gil_scoped_release release;
    std::vector<double> seconds;
    for (const StageTime& stage : program.time(step, nullptr, {})) {
        seconds.push_back(stage.before + stage.waited + stage.busy);
    }
    seconds.pop_back();  // nothing was drawn
    return seconds;
}

struct PySampling {
    Vector<float> temperature, top_p;
    Vector<int32_t> top_k;
    Vector<float> min_p;
    Vector<uint64_t> seed;
    Vector<int64_t> position;
    Vector<int32_t> num_logprobs;
    Vector<float> repetition_penalty, frequency_penalty, presence_penalty;
    Vector<int32_t> history_starts, history_ids, history_prompt_tokens, bias_starts, bias_ids;
    Vector<float> bias_values;
    std::optional<Vector<int32_t>> mask_rows;

    Sampling view(size_t rows) const {
        for (size_t length :
             {temperature.shape(0), top_p.shape(0), top_k.shape(0), min_p.shape(0), seed.shape(0), position.shape(0),
              num_logprobs.shape(0), repetition_penalty.shape(0), frequency_penalty.shape(0), presence_penalty.shape(0),
              history_prompt_tokens.shape(0), history_starts.shape(0) - 1, bias_starts.shape(0) - 1}) {
            require(length == rows, "sampling: an array has another number of rows than the step samples");
        }
        require(!mask_rows || mask_rows->shape(0) == rows, "sampling: mask_rows has another number of rows");
        require(history_starts.data()[0] == 0 && bias_starts.data()[0] == 0 &&
                    history_starts.data()[rows] == static_cast<int64_t>(history_ids.shape(0)) &&
                    bias_starts.data()[rows] == static_cast<int64_t>(bias_ids.shape(0)) &&
                    bias_ids.shape(0) == bias_values.shape(0),
                "sampling: ragged arrays do not fit their starts");
        return {temperature.data(),
                top_p.data(),
                top_k.data(),
                min_p.data(),
                seed.data(),
                position.data(),
                num_logprobs.data(),
                repetition_penalty.data(),
                frequency_penalty.data(),
                presence_penalty.data(),
                history_starts.data(),
                history_ids.data(),
                history_prompt_tokens.data(),
                bias_starts.data(),
                bias_ids.data(),
                bias_values.data(),
                mask_rows ? mask_rows->data() : nullptr};
    }
};

template <class Value, int kDims>
using Output = nb::ndarray<Value, nb::ndim<kDims>, nb::c_contig, nb::device::cpu>;

struct PySamples {
    Output<int32_t, 1> token_ids;
    Output<float, 1> logprobs;
    Output<int32_t, 2> top_ids;
    Output<float, 2> top_logprobs;

    Samples view(size_t rows) const {
        require(token_ids.shape(0) >= rows && logprobs.shape(0) >= rows && top_ids.shape(0) >= rows &&
                    top_logprobs.shape(0) >= rows && top_ids.shape(1) == kMaxTopLogprobs &&
                    top_logprobs.shape(1) == kMaxTopLogprobs,
                "sampling: the output arrays are too small");
        return {token_ids.data(), logprobs.data(), top_ids.data(), top_logprobs.data()};
    }
};

void draw(Program& program, const PyStep& py_step, const PySampling& py_sampling, const PySamples& py_samples) {
    const Step step = py_step.view(program.limits());
    const Sampling sampling = py_sampling.view(step.num_samples);
    const Samples samples = py_samples.view(step.num_samples);
    nb::gil_scoped_release release;
    program.run(step, &sampling, samples);
}

// Of each stage, and of drawing, the seconds that it took, and those in which it had to wait.
std::pair<std::vector<double>, std::vector<double>> draw_timed(Program& program, const PyStep& py_step,
                                                               const PySampling& py_sampling,
                                                               const PySamples& py_samples) {
    const Step step = py_step.view(program.limits());
    const Sampling sampling = py_sampling.view(step.num_samples);
    const Samples samples = py_samples.view(step.num_samples);
    nb::gil_scoped_release release;
    std::vector<double> busy_s, waited_s;
    for (const StageTime& stage : program.time(step, &sampling, samples)) {
        busy_s.push_back(stage.busy);
        waited_s.push_back(stage.waited);
    }
    return {std::move(busy_s), std::move(waited_s)};
}

nb::ndarray<const float, nb::numpy, nb::ndim<2>> logits(nb::handle_t<Program> self) {
    const auto& program = nb::cast<Program&>(self);
    return {program.logits(),
            {static_cast<size_t>(program.limits().max_samples), static_cast<size_t>(program.vocab())},
            self};
}

nb::ndarray<uint32_t, nb::numpy, nb::ndim<2>> mask_rows(nb::handle_t<Masks> self) {
    const auto& masks = nb::cast<Masks&>(self);
    return {masks.words(), {static_cast<size_t>(masks.num_rows()), static_cast<size_t>(masks.num_words())}, self};
}

void tell_mask(Masks& masks, int row, int64_t position) {
    require(row >= 0 && row < masks.num_rows(), "masks: no such row");
    masks.tell(row, position);
}

nb::ndarray<uint8_t, nb::numpy, nb::ndim<2>> pool(nb::handle_t<Program> self) {
    const auto& program = nb::cast<Program&>(self);
    return {program.pool(), {static_cast<size_t>(program.limits().num_blocks), program.block_bytes()}, self};
}

std::vector<std::string> isas() {
    std::vector<std::string> names;
    for (Isa isa : supported_isas()) names.emplace_back(isa_name(isa));
    return names;
}

std::pair<double, double> ceilings(const std::string& isa, int num_threads, size_t num_bytes) {
    nb::gil_scoped_release release;
    const Ceilings found = measure_ceilings(choose_isa(isa), num_threads, num_bytes);
    return {found.read_bytes_per_s, found.dot_ops_per_s};
}

Numbers numbers_of(const std::string& name) {
    if (name == "int8") return Numbers::kInt8;
    if (name == "bf16") return Numbers::kBf16;
    if (name == "f32") return Numbers::kF32;
    throw std::invalid_argument("no numbers '" + name + "': choose one of int8, bf16, f32");
}

double multiply(Gauge& gauge, const std::string& name, int64_t count) {
    const Numbers numbers = numbers_of(name);
    nb::gil_scoped_release release;
    return gauge.multiply(numbers, count);
}

}  // namespace

NB_MODULE(_native, module) {
    nb::set_leak_warnings(false);  // a program may outlive the interpreter in a thread that is still computing
    module.attr("MAX_TOP_LOGPROBS") = kMaxTopLogprobs;
    module.attr("PRIVATE_ROWS") = kPrivateRows;
    module.attr("TILE_TOKENS") = kKeyGroup;
    module.def("isas", &isas);
    module.def("choose_isa", [](const std::string& name) { return std::string(isa_name(choose_isa(name))); }, "name"_a);
    module.def("quantized_bytes", &quantized_bytes, "max_rows"_a, "cols"_a);
    module.def(
        "kv_tile_bytes",
        [](const std::string& kv_format, int head_dim) { return kv_tile_bytes(kv_format_of(kv_format), head_dim); },
        "kv_format"_a, "head_dim"_a);
    module.def("ceilings", &ceilings, "isa"_a, "num_threads"_a, "num_bytes"_a);
    nb::class_<Gauge>(module, "Gauge")
        .def(
            "__init__",
            [](Gauge* self, const std::string& isa, int num_threads, size_t max_bytes) {
                require(num_threads > 0, "gauge: it takes a thread to measure");
                new (self) Gauge(choose_isa(isa), num_threads, max_bytes);
            },
            "isa"_a, "num_threads"_a, "max_bytes"_a)
        .def("read", &Gauge::read, "num_bytes"_a, nb::call_guard<nb::gil_scoped_release>())
        .def("multiply", &multiply, "numbers"_a, "count"_a);
    module.def("uniform", &uniform, "seed"_a, "position"_a);

    nb::class_<Weights>(module, "Weights")
        .def(nb::init<>())
        .def(
            "add_matrix",
            [](Weights& self, const std::string& format, int outputs, int inputs, bool is_lazy) {
                require(outputs > 0 && inputs > 0, "weights: a matrix has rows and columns");
                require(!is_quantized(format_of(format)) || inputs % kGroup == 0,
                        "weights: the inputs of codes come in groups of 32");
                return self.add_matrix(format_of(format), outputs, inputs, is_lazy);
            },
            "kernel_format"_a, "outputs"_a, "inputs"_a, "is_lazy"_a = false)
        .def("place", &place, "kind"_a)
        .def("place_lazy", &Weights::place_lazy)
        .def(
            "place_in_file",
            [](Weights& self, int file, bool is_writable) {
                self.place(Memory::of_file(file, self.planned_bytes(), is_writable));
            },
            "file"_a, "is_writable"_a)
        .def("fill_q4", &fill_q4, "matrix"_a, "first_row"_a, "codes"_a, "scales"_a, "offsets"_a)
        .def("fill_q8", &fill_q8, "matrix"_a, "first_row"_a, "codes"_a, "scales"_a)
        .def("fill_float", &fill_float, "matrix"_a, "first_row"_a, "values"_a)
        .def("memory", &memory)
        .def(
            "map_in", [](const Weights& self) { self.memory().map_in(); }, nb::call_guard<nb::gil_scoped_release>())
        .def("set_ready", &Weights::set_ready, "count"_a)
        .def_prop_ro("num_ready", &Weights::num_ready)
        .def_prop_ro("planned_bytes", &Weights::planned_bytes)
        .def("add_vector", &add_vector, "values"_a)
        .def(
            "interleave", [](Weights& self, int gate, int up) { self.interleave(gate, up, kGatedOutputs / kTile); },
            "gate"_a, "up"_a)
        .def("bytes_of", &Weights::bytes_of, "matrix"_a)
        .def_prop_ro("num_bytes", &Weights::num_bytes);

    nb::class_<PyStep>(module, "Step")
        .def(nb::init<Vector<int32_t>, Vector<int32_t>, Vector<int32_t>, Vector<int32_t>,
                      nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>, Vector<int32_t>>(),
             "token_ids"_a, "row_starts"_a, "starts"_a, "slots"_a, "block_tables"_a, "sample_rows"_a);

    nb::class_<PySampling>(module, "Sampling")
        .def(nb::init<Vector<float>, Vector<float>, Vector<int32_t>, Vector<float>, Vector<uint64_t>, Vector<int64_t>,
                      Vector<int32_t>, Vector<float>, Vector<float>, Vector<float>, Vector<int32_t>, Vector<int32_t>,
                      Vector<int32_t>, Vector<int32_t>, Vector<int32_t>, Vector<float>,
                      std::optional<Vector<int32_t>>>(),
             "temperature"_a, "top_p"_a, "top_k"_a, "min_p"_a, "seed"_a, "position"_a, "num_logprobs"_a,
             "repetition_penalty"_a, "frequency_penalty"_a, "presence_penalty"_a, "history_starts"_a, "history_ids"_a,
             "history_prompt_tokens"_a, "bias_starts"_a, "bias_ids"_a, "bias_values"_a, "mask_rows"_a = nb::none());

    nb::class_<PySamples>(module, "Samples")
        .def(nb::init<Output<int32_t, 1>, Output<float, 1>, Output<int32_t, 2>, Output<float, 2>>(), "token_ids"_a,
             "logprobs"_a, "top_ids"_a, "top_logprobs"_a);

    nb::class_<Masks>(module, "Masks")
        .def_prop_ro("rows", &mask_rows)
        .def("tell", &tell_mask, "row"_a, "position"_a)
        .def_prop_ro("waited_s", &Masks::waited_s);

    nb::class_<Program>(module, "Program")
        .def(
            "__init__",
            [](Program* self, std::shared_ptr<Weights> weights, const std::string& isa, int max_tokens, int max_samples,
               int max_sequences, int max_blocks_per_sequence, int num_blocks, int block_tokens, int num_threads,
               const std::vector<std::tuple<int, int, bool>>& caches, const std::string& kv_format,
               size_t activation_bytes, size_t private_bytes) {
                std::vector<CacheShape> shapes;
                for (const auto& [num_kv_heads, head_dim, has_values] : caches) {
                    shapes.push_back({num_kv_heads, head_dim, has_values});
                }
                const Limits limits{max_tokens, max_samples,  max_sequences, max_blocks_per_sequence,
                                    num_blocks, block_tokens, num_threads};
                new (self) Program(std::move(weights), choose_isa(isa), limits, shapes, kv_format_of(kv_format),
                                   activation_bytes, private_bytes);
            },
            "weights"_a, "isa"_a, "max_tokens"_a, "max_samples"_a, "max_sequences"_a, "max_blocks_per_sequence"_a,
            "num_blocks"_a, "block_tokens"_a, "num_threads"_a, "caches"_a, "kv_format"_a, "activation_bytes"_a,
            "private_bytes"_a)
        .def("need", &Program::need, "num_weights"_a)
        .def(
            "finish",
            [](Program& self, size_t logits, int vocab, int num_embeddings) {
                self.finish({logits, vocab}, num_embeddings);
            },
            "logits"_a, "vocab"_a, "num_embeddings"_a)
        .def("compute", &compute, "step"_a)
        .def("profile", &profile, "step"_a)
        .def("draw", &draw, "step"_a, "sampling"_a, "samples"_a)
        .def("draw_timed", &draw_timed, "step"_a, "sampling"_a, "samples"_a)
        .def("logits", &logits)
        .def_prop_ro("masks", &Program::masks)
        .def("copy_block", &Program::copy_block, "source"_a, "target"_a, "num_tokens"_a)
        .def("commit", &Program::commit, "first"_a, "count"_a)
        .def("populate", &Program::populate, "first"_a, "count"_a, nb::call_guard<nb::gil_scoped_release>())
        .def("release", &Program::release, "first"_a, "count"_a, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("resident_pool_bytes", &Program::resident_pool_bytes)
        .def_prop_ro("block_bytes", &Program::block_bytes)
        .def("pool", &pool)
        .def_prop_ro("shared_reads", &Program::shared_reads);

    bind_builder(module);
    bind_convert(module);
    bind_index(module);
    bind_experts(module);
    bind_latent(module);
}

}  // namespace tailrace
