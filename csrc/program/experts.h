// Mixtures of experts: rows choose experts, are laid out by expert, and meet the weights of those alone that were
// chosen.
//
// A row's result is its residual, and what its experts make of it, added in ascending order of their numbers.
#pragma once

#include "program/expert_plan.h"
#include "program/residency.h"
#include "program/stage.h"

namespace tailrace {

// What the stages of one mixture have in common.
struct Mixture {
    Rows rows;
    Routing routing;
    std::shared_ptr<ExpertPlan> plan;
    std::shared_ptr<Residency> residency{};  // or null, if all experts are always there
    int number = 0;                          // among those of the residency

    int num_rows(const StepView& step) const;
    int num_places(const StepView& step) const { return num_rows(step) * routing.top_k; }
    // Few rows meet the weights where they lie, each alone.
    bool is_laid_out(const StepView& step) const { return num_rows(step) > kFewRows; }
};

// Rows in the forms that the matrices they meet want.
struct ExpertRows {
    std::optional<FloatBuffer> floats;
    std::optional<QuantizedBuffer> codes;
};

// Each row chooses; the last piece sorts.
struct RouteStage final : Stage {
    Mixture mixture;
    FloatBuffer logits;
    const float* bias;  // or null
    std::shared_ptr<ExpertLoad> load;

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;
};

// Copies rows to their places.
struct DispatchStage final : Stage {
    Mixture mixture;
    ExpertRows x;
    ExpertRows out;

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;
};

// silu(gate_e x) * (up_e x) of each place, in floats or in codes.
struct ExpertGatedStage final : Stage {
    struct Expert {
        const Matrix* gate;
        const Matrix* up;
    };
    Mixture mixture;
    ExpertRows x;
    ExpertRows places;  // x, laid out
    std::vector<Expert> experts;
    ExpertRows out;  // one of both

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;
    bool wait() const override;

  private:
    static constexpr int kUnitTiles = kGatedOutputs / kTile;

    int num_units() const;
    const Tile& first_tile(int unit) const;
    void run_unit(const Worker& worker, int unit, const Tile* next) const;
};

// residual + weight_e * (down_e x), of each row. A piece is some columns of all experts: however unevenly rows have
// chosen, all pieces are equal.
struct ExpertDownStage final : Stage {
    Mixture mixture;
    ExpertRows x;
    std::vector<const Matrix*> experts;
    FloatBuffer residual;
    FloatBuffer out;

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;

  private:
    void run_block(const Worker& worker, const RowBlock& block, Range tiles, const Tile* next) const;
};

}  // namespace tailrace
