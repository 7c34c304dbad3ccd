// Which experts are there: first who goes and who is foreseen, step by step, then threads that fill what a random
// sequence of steps has chosen, some of it in vain, under the thread sanitizer. Whoever waits has what it chose.
#include "program/residency.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <thread>

using namespace tailrace;

namespace {

constexpr int kMixtures = 4, kExperts = 8;
constexpr int kOutputs = 32, kInputs = 64;

void require(bool condition, const char* what) {
    if (condition) return;
    std::printf("wrong: %s\n", what);
    std::exit(1);
}

// Small experts of one matrix, of which so many fit.
struct Model {
    std::shared_ptr<Weights> weights = std::make_shared<Weights>();
    std::vector<std::vector<std::vector<int>>> ids;
    std::unique_ptr<Residency> residency;
    ExpertPlan plan;

    explicit Model(double room) {
        for (int mixture = 0; mixture < kMixtures; ++mixture) {
            ids.emplace_back();
            for (int expert = 0; expert < kExperts; ++expert) {
                ids.back().push_back({weights->add_matrix(Format::kF32, kOutputs, kInputs, true)});
            }
        }
        weights->place_lazy();
        residency = std::make_unique<Residency>(weights, static_cast<size_t>(room * weights->bytes_of(0)));
        for (const auto& mixture : ids) residency->add(mixture);
    }

    const float* data(ExpertId id) const {
        const Matrix& matrix = weights->matrix(ids[id.mixture][id.expert][0]);
        return reinterpret_cast<const float*>(matrix.tiles[0].data);
    }

    static float value(ExpertId id) { return static_cast<float>(id.mixture * kExperts + id.expert + 1); }

    void fill(ExpertId id) {
        const std::vector<float> values(kOutputs * kInputs, value(id));
        const View view{reinterpret_cast<const uint8_t*>(values.data()), kOutputs, kInputs * 4, 4};
        weights->fill_float(ids[id.mixture][id.expert][0], 0, view, Format::kF32);
    }

    void choose(int mixture, const std::set<int>& experts) {
        const Routing routing{kExperts, static_cast<int>(experts.size()), false, 1, 1, false, false, 1.0f};
        plan.reserve(1, routing);
        std::copy(experts.begin(), experts.end(), plan.choice_of(0, routing));
        plan.build(1, routing);
        residency->choose(mixture, plan);
    }

    // Fills so many of those that are asked for, which must then be all that were chosen.
    std::set<int> serve(int mixture, const std::set<int>& experts, int count) {
        choose(mixture, experts);
        std::set<int> filled;
        for (int i = 0; i < count; ++i) {
            const std::optional<ExpertId> id = residency->take();
            require(id && id->mixture == mixture, "what was chosen comes first");
            fill(*id);
            residency->done(*id);
            filled.insert(id->expert);
        }
        residency->wait();
        return filled;
    }
};

void check_who_goes() {
    Model model(4);
    require(model.serve(0, {0, 1}, 2) == std::set{0, 1}, "the first two are filled");
    model.serve(2, {0, 1}, 2);
    model.serve(0, {0, 2}, 1);  // in the place of 0, 1
    require(model.serve(0, {1, 2}, 1) == std::set{1}, "who was not used for longest is gone");
    require(model.serve(2, {0}, 1) == std::set{0}, "and the next one");
    require(model.residency->counts().hits == 2, "two were there");
    require(model.residency->counts().num_resident == 4, "as many as fit");
}

void check_foresight() {
    Model model(6);
    for (int step = 0; step < 40; ++step) {  // until forecasts are trusted, since they come true
        const bool is_first = step == 0;
        model.serve(0, {0, 1}, is_first ? 2 : 0);
        model.serve(1, {3, 4}, is_first ? 2 : 0);
    }
    model.serve(0, {0, 1}, 0);
    model.serve(1, {3, 4}, 0);
    model.serve(2, {5, 6}, 2);
    model.serve(3, {1, 2, 3}, 3);  // drives out what the first two have
    model.serve(3, {0, 1, 4}, 2);
    model.choose(0, {0, 1});
    std::vector<ExpertId> taken;
    for (int i = 0; i < 4; ++i) {
        taken.push_back(*model.residency->take());
        model.residency->done(taken.back());
    }
    require(taken[0].mixture == 0 && taken[1].mixture == 0, "what was chosen comes before what is foreseen");
    require(taken[2].mixture == 1 && taken[2].expert == 3 && taken[3].expert == 4, "what went with it is foreseen");
    model.serve(1, {3, 5}, 1);
    const ResidencyCounts counts = model.residency->counts();
    require(counts.foreseen == 2 && counts.foreseen_hits == 1, "one of the two was chosen");
}

void check_failures() {
    Model model(32);
    model.serve(0, {0}, 1);
    model.serve(1, {1}, 1);
    model.serve(3, {0, 1}, 2);
    require(model.residency->failure().empty(), "all is well");
    model.choose(2, {7});
    const ExpertId id = *model.residency->take();
    model.residency->fail(id, "it is damaged");
    model.residency->wait();
    require(model.residency->failure() == "it is damaged", "who waits for it hears why");
    require(!model.residency->take(), "nobody fills any more");
    model.choose(0, {3});
    model.residency->wait();
}

void check_threads(unsigned seed, double room, int num_threads) {
    Model model(room);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < num_threads; ++thread) {
        threads.emplace_back([&model] {
            while (const std::optional<ExpertId> id = model.residency->take()) {
                model.fill(*id);
                model.residency->done(*id);
            }
        });
    }
    std::mt19937 random(seed);
    for (int step = 0; step < 300; ++step) {
        for (int mixture = 0; mixture < kMixtures; ++mixture) {
            std::set<int> experts;
            const unsigned count = step % 10 == 0 ? kExperts : 1 + random() % 3;
            while (experts.size() < count) experts.insert(static_cast<int>(random() % kExperts));
            model.choose(mixture, experts);
            model.residency->wait();
            for (int expert : experts) {
                const float* values = model.data({mixture, expert});
                require(values[0] == Model::value({mixture, expert}), "who waits has what it chose");
                require(values[kInputs * kTile - 1] == values[0], "and all of it");
            }
        }
    }
    model.residency->close();
    for (std::thread& thread : threads) thread.join();
    const ResidencyCounts counts = model.residency->counts();
    require(counts.num_resident <= std::max(room, double{kExperts}) + num_threads, "no more are there than fit");
}

}  // namespace

int main() {
    check_who_goes();
    check_foresight();
    check_failures();
    for (unsigned seed = 0; seed < 6; ++seed) check_threads(seed, 1 + 6 * seed, 1 + seed % 3);
    std::puts("who waits has what it chose");
}
