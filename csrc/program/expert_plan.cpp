#include "program/expert_plan.h"

#include <algorithm>
#include <utility>

#include "program/rows.h"

namespace tailrace {

void ExpertPlan::reserve(int max_rows, const Routing& routing) {
    const auto grow = [](auto& items, size_t count) { items.resize(std::max(items.size(), count)); };
    const size_t places = static_cast<size_t>(max_rows) * routing.top_k, experts = routing.num_experts;
    grow(experts_, places);
    grow(choice_weights_, places);
    grow(rows_, places);
    grow(weights_, places);
    grow(ends_, experts);
    const size_t blocks = experts + places / kRowChunk + static_cast<size_t>(kFewRows) * routing.top_k;
    blocks_.reserve(blocks);
    costs_.reserve(blocks + 1);
}

bool ExpertPlan::is_last_piece(int num_pieces) {
    if (num_routed_.fetch_add(1, std::memory_order_acq_rel) + 1 < num_pieces) return false;
    num_routed_.store(0, std::memory_order_relaxed);
    return true;
}

void ExpertPlan::build(int num_rows, const Routing& routing) {
    const int num_places = num_rows * routing.top_k, num_experts = routing.num_experts;
    std::fill_n(ends_.begin(), num_experts, 0);
    for (int i = 0; i < num_places; ++i) ++ends_[experts_[i]];
    for (int expert = 0, first = 0; expert < num_experts; ++expert) first += std::exchange(ends_[expert], first);
    for (int i = 0; i < num_places; ++i) {
        const int place = ends_[experts_[i]]++;
        rows_[place] = i / routing.top_k;
        weights_[place] = choice_weights_[i];
    }
    blocks_.clear();
    costs_.assign(1, 0);
    const int max_count = num_rows > kFewRows ? kRowChunk : 1;
    for (int expert = 0, first = 0; expert < num_experts; first = ends_[expert++]) {
        add_blocks(expert, first, ends_[expert], max_count);
    }
}

// As few blocks as can be, of about the same size.
void ExpertPlan::add_blocks(int expert, int first, int last, int max_count) {
    const int num_blocks = (last - first + max_count - 1) / max_count;
    for (int i = 0; i < num_blocks; ++i) {
        const auto [begin, end] = share(last - first, i, num_blocks);
        blocks_.push_back({expert, first + begin, end - begin});
        costs_.push_back(costs_.back() + cost_of(end - begin));
    }
}

Range ExpertPlan::share_of(int piece, int num_pieces, int units) const {
    const int64_t total = costs_.back() * units;
    return {first_unit(total * piece / num_pieces, units), first_unit(total * (piece + 1) / num_pieces, units)};
}

// The first one before which at least `cost` has been done.
int ExpertPlan::first_unit(int64_t cost, int units) const {
    const auto behind = std::upper_bound(costs_.begin() + 1, costs_.end() - 1, cost,
                                         [units](int64_t wanted, int64_t before) { return wanted < before * units; });
    const int block = static_cast<int>(behind - costs_.begin()) - 1;
    const int64_t each = costs_[block + 1] - costs_[block], rest = cost - costs_[block] * units;
    return block * units + static_cast<int>((rest + each - 1) / each);
}

}  // namespace tailrace
