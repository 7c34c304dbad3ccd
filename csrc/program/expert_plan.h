// Which rows of a step go to which experts, and how the work with their weights is shared out.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "program/stage.h"

namespace tailrace {

// Rows of one expert, laid out one behind the other: what meets its weights at once.
struct RowBlock {
    int expert;
    int first;  // place
    int count;
};

// How long it takes to multiply a block's rows with some of its expert's weights, against other blocks: to bring the
// weights to the processor takes as long as to multiply four rows.
constexpr int64_t cost_of(int num_rows) { return 4 + num_rows; }

// Which rows go to which experts. Each chosen expert of a row gives it a place; places are sorted by expert, then by
// row. The mixtures of a program are computed one after the other, and share one plan.
class ExpertPlan {
  public:
    // Room for a mixture of so many rows; before anything runs.
    void reserve(int max_rows, const Routing& routing);

    // Where a row's choice goes, by expert in ascending order: top_k of each.
    int32_t* choice_of(int row, const Routing& routing) { return experts_.data() + row * routing.top_k; }
    float* weights_of(int row, const Routing& routing) { return choice_weights_.data() + row * routing.top_k; }

    // Counts the pieces of routing that have ended; true for the last of `num_pieces`.
    bool is_last_piece(int num_pieces);
    // Sorts the choices of `num_rows` rows, which all lie there.
    void build(int num_rows, const Routing& routing);

    const std::vector<RowBlock>& blocks() const { return blocks_; }
    int row_at(int place) const { return rows_[place]; }
    float weight_at(int place) const { return weights_[place]; }
    int num_rows_of(int expert) const { return ends_[expert] - (expert > 0 ? ends_[expert - 1] : 0); }

    // Of `units` equal pieces of work with the weights of each block, numbered block by block: those that one of
    // `num_pieces` takes, so that all take about as long.
    Range share_of(int piece, int num_pieces, int units) const;

  private:
    void add_blocks(int expert, int first, int last, int max_count);
    int first_unit(int64_t cost, int units) const;

    std::vector<int32_t> experts_;
    std::vector<float> choice_weights_;
    std::vector<int32_t> rows_;  // by place
    std::vector<float> weights_;
    std::vector<int32_t> ends_;  // of each expert's places
    std::vector<RowBlock> blocks_;
    std::vector<int64_t> costs_;  // of the blocks before each, and of all
    std::atomic<int> num_routed_{0};
};

// How many rows each expert has computed since the beginning. May be read at any time.
class ExpertLoad {
  public:
    explicit ExpertLoad(int num_experts) : num_rows_(num_experts) {}
    ExpertLoad(const ExpertLoad&) = delete;
    ExpertLoad& operator=(const ExpertLoad&) = delete;

    void add(int expert, int num_rows) { num_rows_[expert].fetch_add(num_rows, std::memory_order_relaxed); }
    std::vector<uint64_t> num_rows() const { return {num_rows_.begin(), num_rows_.end()}; }

  private:
    std::vector<std::atomic<uint64_t>> num_rows_;
};

}  // namespace tailrace
