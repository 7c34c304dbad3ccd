#include "bind/index.h"

#include "bind/builder.h"
#include "program/index.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tailrace {

namespace {

// Of all layers of a program, which share the room for scores.
class IndexBuilder {
  public:
    explicit IndexBuilder(Builder& builder)
        : builder_(builder), rows_(std::make_shared<ScoreRows>(builder.program().limits())) {}

    void keys(size_t k, size_t angles, int num_angles, bool interleaved, int cache, int norm, int norm_bias,
              float eps) {
        auto stage = std::make_unique<IndexKeyStage>();
        stage->cache = builder_.program().cache(cache);
        stage->k = {k, stage->cache.head_dim};
        stage->angles = {angles, 2 * num_angles};
        stage->is_interleaved = interleaved;
        stage->norm = builder_.vector(norm);
        stage->norm_bias = builder_.vector(norm_bias);
        stage->eps = eps;
        builder_.program().add(std::move(stage));
    }

    void scores(size_t q, size_t head_weights, size_t angles, int num_angles, bool interleaved, int cache,
                int num_heads, int top_k) {
        auto stage = std::make_unique<IndexScoreStage>();
        stage->index = index(q, head_weights, angles, num_angles, interleaved, cache, num_heads, top_k);
        builder_.program().add(std::move(stage));
    }

    void select(size_t q, size_t head_weights, size_t angles, int num_angles, bool interleaved, int cache,
                int num_heads, int top_k, size_t out) {
        auto stage = std::make_unique<SelectStage>();
        stage->index = index(q, head_weights, angles, num_angles, interleaved, cache, num_heads, top_k);
        stage->out = {out, top_k};
        builder_.program().add(std::move(stage));
    }

  private:
    PositionIndex index(size_t q, size_t head_weights, size_t angles, int num_angles, bool interleaved, int cache,
                        int num_heads, int top_k) {
        Program& program = builder_.program();
        const CacheView view = program.cache(cache);
        const PositionIndex index{{q, num_heads * view.head_dim},
                                  {head_weights, num_heads},
                                  {angles, 2 * num_angles},
                                  interleaved,
                                  view,
                                  num_heads,
                                  top_k,
                                  rows_};
        program.reserve_scratch(index.scratch_bytes(program.limits()));
        return index;
    }

    Builder& builder_;
    std::shared_ptr<const ScoreRows> rows_;
};

}  // namespace

void bind_index(nb::module_& module) {
    nb::class_<IndexBuilder>(module, "IndexBuilder")
        .def(nb::init<Builder&>(), nb::keep_alive<1, 2>(), "builder"_a)
        .def("keys", &IndexBuilder::keys, "k"_a, "angles"_a, "num_angles"_a, "interleaved"_a, "cache"_a, "norm"_a,
             "norm_bias"_a, "eps"_a)
        .def("scores", &IndexBuilder::scores, "q"_a, "head_weights"_a, "angles"_a, "num_angles"_a, "interleaved"_a,
             "cache"_a, "num_heads"_a, "top_k"_a)
        .def("select", &IndexBuilder::select, "q"_a, "head_weights"_a, "angles"_a, "num_angles"_a, "interleaved"_a,
             "cache"_a, "num_heads"_a, "top_k"_a, "out"_a);
}

}  // namespace tailrace
