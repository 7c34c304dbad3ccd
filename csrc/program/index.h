// The lightning indexer: which positions each row may see. Keys are kept, then positions are scored, then selected.
//
// A row's scores, and so its selection, depend on its own query and its sequence's keys alone, whoever computes them.
#pragma once

#include <memory>

#include "program/memory.h"
#include "program/stage.h"

namespace tailrace {

// Norms and turns each token's key and puts it into the cache.
struct IndexKeyStage final : Stage {
    FloatBuffer k;
    FloatBuffer angles;
    bool is_interleaved;
    CacheView cache;
    const float* norm;
    const float* norm_bias;
    float eps;

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;
};

// Room for the scores of the rows whose positions are shared out among threads; the indexes of all layers use the same.
class ScoreRows {
  public:
    explicit ScoreRows(const Limits& limits);

    int count() const { return count_; }
    float* row(int row) const { return reinterpret_cast<float*>(memory_.data()) + row * stride_; }

  private:
    int count_;
    size_t stride_;
    Memory memory_;
};

// What the stages of one index have in common.
struct PositionIndex {
    FloatBuffer q;
    FloatBuffer head_weights;
    FloatBuffer angles;
    bool is_interleaved;
    CacheView cache;
    int num_heads;
    int top_k;
    std::shared_ptr<const ScoreRows> rows;

    size_t scratch_bytes(const Limits& limits) const;
    // Positions that a row is scored over: none where it may see them all.
    int num_scored(const StepView& step, int row) const;
    // Few rows are scored ahead of their selection, each by many threads; of many, each by the thread that selects.
    bool is_ahead(const StepView& step) const { return step.step.num_tokens <= rows->count(); }
    // Positions [first, last), `first` a multiple of kKeyBlock.
    void score(const Worker& worker, int row, int first, int last, float* scores) const;
    // This thread's own room for the scores of one row.
    float* own_scores(const Worker& worker) const;

  private:
    size_t query_floats() const { return static_cast<size_t>(num_heads) * cache.head_dim; }
    // What scoring needs besides, and afterwards selecting.
    size_t working_floats(const Limits& limits) const;
    void turn(const Worker& worker, int row, float* queries) const;
};

struct IndexScoreStage final : Stage {
    PositionIndex index;

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;

  private:
    int num_blocks(const StepView& step) const;
};

// out [rows][top_k]: positions as int32, ascending, behind the last of them -1.
struct SelectStage final : Stage {
    PositionIndex index;
    FloatBuffer out;

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;

  private:
    int select(const Worker& worker, int row, int32_t* ids) const;
};

}  // namespace tailrace
