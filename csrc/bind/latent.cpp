#include "bind/latent.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <algorithm>

#include "bind/builder.h"
#include "program/latent.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tailrace {

namespace {

class LatentBuilder {
  public:
    explicit LatentBuilder(Builder& builder) : builder_(builder) {}

    void store(size_t q, size_t latent, size_t angles, int rotary_dim, bool interleaved, int cache, int num_heads,
               int plain_dim, int latent_dim, int norm, float eps, size_t queries, const std::optional<Codes>& plain) {
        auto stage = std::make_unique<LatentStoreStage>();
        stage->cache = builder_.program().cache(cache);
        stage->dims = {plain_dim, latent_dim};
        stage->num_heads = num_heads;
        stage->q = {q, num_heads * (plain_dim + rotary_dim)};
        stage->latent = {latent, latent_dim + rotary_dim};
        stage->angles = {angles, rotary_dim};
        stage->is_interleaved = interleaved;
        stage->norm = builder_.vector(norm);
        stage->eps = eps;
        stage->queries = {queries, num_heads * stage->cache.head_dim};
        stage->plain = builder_.codes(plain, num_heads * plain_dim, false);
        builder_.program().add(std::move(stage));
    }

    void attention(size_t queries, int cache, int num_heads, int latent_dim, float scale,
                   std::optional<size_t> selection, int top_k, size_t out, const std::optional<Codes>& quantized) {
        Program& program = builder_.program();
        auto stage = std::make_unique<LatentAttentionStage>();
        stage->cache = program.cache(cache);
        stage->latent_dim = padded_head(latent_dim);
        stage->num_heads = num_heads;
        stage->scale = scale;
        stage->queries = {queries, num_heads * stage->cache.head_dim};
        stage->selection = builder_.floats(selection, top_k);
        stage->out = {out, num_heads * stage->latent_dim};
        stage->quantized = builder_.codes(quantized, num_heads * stage->latent_dim, false);
        program.limit_heads(std::min(num_heads, kAttentionRows));
        if (selection) program.limit_shared(top_k);
        program.reserve_scratch(latent_scratch_bytes(stage->cache.head_dim));
        program.add(std::move(stage));
    }

  private:
    Builder& builder_;
};

}  // namespace

void bind_latent(nb::module_& module) {
    nb::class_<LatentBuilder>(module, "LatentBuilder")
        .def(nb::init<Builder&>(), nb::keep_alive<1, 2>(), "builder"_a)
        .def("store", &LatentBuilder::store, "q"_a, "latent"_a, "angles"_a, "rotary_dim"_a, "interleaved"_a, "cache"_a,
             "num_heads"_a, "plain_dim"_a, "latent_dim"_a, "norm"_a, "eps"_a, "queries"_a, "plain"_a.none())
        .def("attention", &LatentBuilder::attention, "queries"_a, "cache"_a, "num_heads"_a, "latent_dim"_a, "scale"_a,
             "selection"_a.none(), "top_k"_a, "out"_a, "quantized"_a.none());
}

}  // namespace tailrace
