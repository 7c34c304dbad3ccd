#include "bind/experts.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "bind/builder.h"
#include "program/experts.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tailrace {

namespace {

// Where rows lie in floats, in codes, or in both.
using Places = std::pair<std::optional<size_t>, std::optional<Codes>>;

// Adds the stages of one mixture.
class MixtureBuilder {
  public:
    MixtureBuilder(Builder& builder, std::shared_ptr<ExpertPlan> plan, bool samples, const Routing& routing)
        : builder_(builder), mixture_{builder.rows(samples), routing, std::move(plan)} {
        if (routing_scratch_floats(routing) > kScratchFloats) {
            throw std::invalid_argument(std::to_string(routing.num_experts) +
                                        " experts: too many to route a row at once");
        }
        mixture_.plan->reserve(max_rows(), routing);
    }

    // Its experts come and go; before any stage.
    void reside(std::shared_ptr<Residency> residency, int number) {
        mixture_.residency = std::move(residency);
        mixture_.number = number;
        builder_.program().watch(mixture_.residency);
    }

    void route(size_t logits, std::optional<int> bias, std::shared_ptr<ExpertLoad> load) {
        auto stage = std::make_unique<RouteStage>();
        stage->mixture = mixture_;
        stage->logits = {logits, mixture_.routing.num_experts};
        stage->bias = builder_.vector(bias);
        stage->load = std::move(load);
        builder_.program().add(std::move(stage));
    }

    void dispatch(int cols, const Places& x, const Places& out) {
        auto stage = std::make_unique<DispatchStage>();
        stage->mixture = mixture_;
        stage->x = rows(x, cols, max_rows());
        stage->out = rows(out, cols, max_places());
        builder_.program().add(std::move(stage));
    }

    void gated(const Places& x, const Places& places, const std::vector<int>& gates, const std::vector<int>& ups,
               const Places& out) {
        auto stage = std::make_unique<ExpertGatedStage>();
        stage->mixture = mixture_;
        for (size_t i = 0; i < gates.size(); ++i) {
            stage->experts.push_back({&builder_.matrix(gates[i]), &builder_.matrix(ups.at(i))});
        }
        const Matrix& gate = *stage->experts.at(0).gate;
        stage->x = rows(x, gate.inputs, max_rows());
        stage->places = rows(places, gate.inputs, max_places());
        stage->out = rows(out, gate.outputs, max_places());
        builder_.program().add(std::move(stage));
    }

    void down(const Places& x, const std::vector<int>& downs, size_t residual, size_t out) {
        auto stage = std::make_unique<ExpertDownStage>();
        stage->mixture = mixture_;
        for (int id : downs) stage->experts.push_back(&builder_.matrix(id));
        const Matrix& down = *stage->experts.at(0);
        stage->x = rows(x, down.inputs, max_places());
        stage->residual = {residual, down.outputs};
        stage->out = {out, down.outputs};
        builder_.program().add(std::move(stage));
    }

  private:
    int max_rows() const {
        const Limits& limits = builder_.program().limits();
        return mixture_.rows == Rows::kTokens ? limits.max_tokens : limits.max_samples;
    }
    int max_places() const { return max_rows() * mixture_.routing.top_k; }

    static ExpertRows rows(const Places& places, int cols, int max_rows) {
        const auto& [floats, codes] = places;
        ExpertRows rows{Builder::floats(floats, cols), std::nullopt};
        // Every thread reads what others have quantised.
        if (codes) rows.codes = QuantizedBuffer{codes->first, cols, max_rows, std::nullopt};
        return rows;
    }

    Builder& builder_;
    Mixture mixture_;
};

}  // namespace

void bind_experts(nb::module_& module) {
    nb::class_<ExpertPlan>(module, "ExpertPlan").def(nb::init<>());

    nb::class_<ExpertLoad>(module, "ExpertLoad")
        .def(nb::init<int>(), "num_experts"_a)
        .def_prop_ro("num_rows", &ExpertLoad::num_rows);

    nb::class_<ResidencyCounts>(module, "ResidencyCounts")
        .def_ro("hits", &ResidencyCounts::hits)
        .def_ro("misses", &ResidencyCounts::misses)
        .def_ro("evictions", &ResidencyCounts::evictions)
        .def_ro("foreseen", &ResidencyCounts::foreseen)
        .def_ro("foreseen_hits", &ResidencyCounts::foreseen_hits)
        .def_ro("waited_s", &ResidencyCounts::waited_s)
        .def_ro("num_resident", &ResidencyCounts::num_resident)
        .def_ro("resident_bytes", &ResidencyCounts::resident_bytes);

    nb::class_<Residency>(module, "Residency")
        .def(nb::init<std::shared_ptr<Weights>, size_t>(), "weights"_a, "max_bytes"_a)
        .def("add", &Residency::add, "experts"_a)
        .def(
            "take",
            [](Residency& self) -> std::optional<std::pair<int, int>> {
                const std::optional<ExpertId> id = self.take();
                if (!id) return std::nullopt;
                return std::pair(id->mixture, id->expert);
            },
            nb::call_guard<nb::gil_scoped_release>())
        .def(
            "done", [](Residency& self, int mixture, int expert) { self.done({mixture, expert}); }, "mixture"_a,
            "expert"_a)
        .def(
            "fail_one",
            [](Residency& self, int mixture, int expert, const std::string& reason) {
                self.fail({mixture, expert}, reason);
            },
            "mixture"_a, "expert"_a, "reason"_a)
        .def("fail", nb::overload_cast<const std::string&>(&Residency::fail), "reason"_a)
        .def("close", &Residency::close)
        .def_prop_ro("counts", &Residency::counts);

    nb::class_<MixtureBuilder>(module, "MixtureBuilder")
        .def(
            "__init__",
            [](MixtureBuilder* self, Builder& builder, std::shared_ptr<ExpertPlan> plan, bool samples, int num_experts,
               int top_k, bool sigmoid, int num_groups, int top_groups, bool ranked_by_two, bool normalized,
               float scale) {
                const Routing routing{num_experts, top_k,         sigmoid,    num_groups,
                                      top_groups,  ranked_by_two, normalized, scale};
                new (self) MixtureBuilder(builder, std::move(plan), samples, routing);
            },
            nb::keep_alive<1, 2>(), "builder"_a, "plan"_a, "samples"_a, "num_experts"_a, "top_k"_a, "sigmoid"_a,
            "num_groups"_a, "top_groups"_a, "ranked_by_two"_a, "normalized"_a, "scale"_a)
        .def("reside", &MixtureBuilder::reside, "residency"_a, "number"_a)
        .def("route", &MixtureBuilder::route, "logits"_a, "bias"_a.none(), "load"_a)
        .def("dispatch", &MixtureBuilder::dispatch, "cols"_a, "x"_a, "out"_a)
        .def("gated", &MixtureBuilder::gated, "x"_a, "places"_a, "gates"_a, "ups"_a, "out"_a)
        .def("down", &MixtureBuilder::down, "x"_a, "downs"_a, "residual"_a, "out"_a);
}

}  // namespace tailrace
