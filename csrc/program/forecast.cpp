#include "program/forecast.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tailrace {

void Forecast::add(int num_experts) {
    const size_t before = pairs_.empty() ? 0 : pairs_.back().num_experts;
    pairs_.push_back({num_experts, std::vector<uint16_t>(before * num_experts)});
}

uint16_t* Forecast::counts_of(int mixture, int before) {
    Pairs& pairs = pairs_[mixture];
    return pairs.counts.data() + static_cast<size_t>(before) * pairs.num_experts;
}

const uint16_t* Forecast::counts_of(int mixture, int before) const {
    return const_cast<Forecast*>(this)->counts_of(mixture, before);
}

void Forecast::learn(int mixture, const std::vector<int>& before, const std::vector<int>& chosen) {
    for (int first : before) {
        uint16_t* counts = counts_of(mixture, first);
        for (int expert : chosen) {
            if (++counts[expert] < std::numeric_limits<uint16_t>::max()) continue;
            // What was long ago counts for less.
            for (int i = 0; i < pairs_[mixture].num_experts; ++i) counts[i] /= 2;
        }
    }
}

std::vector<int> Forecast::likeliest(int mixture, const std::vector<int>& before, size_t count) const {
    const int num_experts = pairs_[mixture].num_experts;
    std::vector<uint32_t> scores(num_experts);
    for (int first : before) {
        const uint16_t* counts = counts_of(mixture, first);
        for (int expert = 0; expert < num_experts; ++expert) scores[expert] += counts[expert];
    }
    std::vector<int> experts(num_experts);
    std::iota(experts.begin(), experts.end(), 0);
    count = std::min(count, experts.size());
    std::partial_sort(experts.begin(), experts.begin() + count, experts.end(),
                      [&](int a, int b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
    experts.resize(count);
    while (!experts.empty() && scores[experts.back()] == 0) experts.pop_back();
    return experts;
}

}  // namespace tailrace
