// Random choices of random sizes, sorted by expert: every choice at one place, in order, each row's weight beside it;
// every piece of work with an expert's weights in one share, and shares about equal. After the plan's room is reserved
// nothing allocates.
#include "program/expert_plan.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <random>
#include <set>

using namespace tailrace;

namespace {

int num_allocations = 0;

struct Trial {
    std::mt19937& random;
    int num_rows;
    Routing routing;

    int below(int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); }

    // Ascending, different; often the same few.
    std::vector<int32_t> choice() {
        std::set<int32_t> experts;
        const int bound = below(2) == 0 ? routing.num_experts : routing.top_k;
        while (static_cast<int>(experts.size()) < routing.top_k) experts.insert(below(bound));
        return {experts.begin(), experts.end()};
    }
};

void require(bool condition, const char* what) {
    if (condition) return;
    std::printf("wrong: %s\n", what);
    std::exit(1);
}

std::vector<int32_t> choose(Trial& trial, ExpertPlan& plan) {
    std::vector<int32_t> chosen;
    for (int row = 0; row < trial.num_rows; ++row) {
        const std::vector<int32_t> choice = trial.choice();
        std::copy(choice.begin(), choice.end(), plan.choice_of(row, trial.routing));
        for (int i = 0; i < trial.routing.top_k; ++i) {
            plan.weights_of(row, trial.routing)[i] = static_cast<float>(chosen.size() + i);
        }
        chosen.insert(chosen.end(), choice.begin(), choice.end());
    }
    return chosen;
}

// Blocks are neighbours, each of one expert, and hold every choice once.
void check_places(const Trial& trial, const ExpertPlan& plan, const std::vector<int32_t>& chosen) {
    std::vector<int> seen(chosen.size(), 0), counts(trial.routing.num_experts, 0);
    int place = 0, last_expert = 0, last_row = -1;
    for (const RowBlock& block : plan.blocks()) {
        require(block.first == place && block.count > 0, "blocks are neighbours");
        require(block.count <= (trial.num_rows > kFewRows ? kRowChunk : 1), "blocks are small enough");
        for (; place < block.first + block.count; ++place) {
            const int choice = static_cast<int>(plan.weight_at(place)), row = plan.row_at(place);
            require(row == choice / trial.routing.top_k, "a weight is beside its row");
            require(chosen[choice] == block.expert, "a block is of one expert");
            require(block.expert > last_expert || (block.expert == last_expert && row > last_row) || place == 0,
                    "places are sorted by expert, then by row");
            last_expert = block.expert;
            last_row = row;
            ++seen[choice];
            ++counts[block.expert];
        }
    }
    require(std::count(seen.begin(), seen.end(), 1) == static_cast<long>(chosen.size()), "every choice has a place");
    for (int e = 0; e < trial.routing.num_experts; ++e) require(counts[e] == plan.num_rows_of(e), "rows are counted");
}

void check_shares(const ExpertPlan& plan, int num_pieces, int units) {
    int64_t total = 0, dearest = 0;
    for (const RowBlock& block : plan.blocks()) {
        total += cost_of(block.count) * units;
        dearest = std::max(dearest, cost_of(block.count));
    }
    int next = 0;
    for (int piece = 0; piece < num_pieces; ++piece) {
        const auto [first, last] = plan.share_of(piece, num_pieces, units);
        require(first == next && last >= first, "shares are neighbours");
        int64_t cost = 0;
        for (int unit = first; unit < last; ++unit) cost += cost_of(plan.blocks()[unit / units].count);
        require(cost <= total / num_pieces + dearest + 1, "shares are about equal");
        next = last;
    }
    require(next == static_cast<int>(plan.blocks().size()) * units, "all is shared out");
}

}  // namespace

void* operator new(size_t bytes) {
    ++num_allocations;
    if (void* memory = std::malloc(bytes)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

int main() {
    constexpr int kMostRows = 600;
    std::mt19937 random(11);
    for (int i = 0; i < 300; ++i) {
        Trial trial{random, 0, {}};
        trial.routing.num_experts = 1 + trial.below(80);
        trial.routing.top_k = 1 + trial.below(std::min(trial.routing.num_experts, 9));
        ExpertPlan plan;
        plan.reserve(kMostRows, trial.routing);
        for (const int num_rows : {1 + trial.below(kMostRows), 1 + trial.below(8), kMostRows}) {
            trial.num_rows = num_rows;
            const std::vector<int32_t> chosen = choose(trial, plan);
            const int before = num_allocations;
            plan.build(num_rows, trial.routing);
            require(num_allocations == before, "nothing allocates");
            check_places(trial, plan, chosen);
            check_shares(plan, 1 + trial.below(40), 1 + trial.below(20));
        }
    }
    std::printf("all choices are planned\n");
}
