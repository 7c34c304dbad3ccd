// Multi-head latent attention in its absorbed form: queries go to the latents that the cache holds. What turns them
// into queries of latents, and latents into values of heads, are matrices by head (GemmStage).
//
// One form for every row: which of the two a row takes must follow from the row alone, and any may be computed alone.
#pragma once

#include "program/stage.h"

namespace tailrace {

// Sizes of a head. The latent is padded to whole vectors of 16, in the cache as in queries and results.
struct LatentDims {
    int plain;   // of a query, beside what turns
    int latent;  // of these, the first are not padding

    int padded() const { return padded_head(latent); }
};

// Norms each token's latent and turns the key beside it, which go into the cache; turns the rotary part of the queries,
// each to its place behind the latent that another stage puts there; quantises the plain part.
struct LatentStoreStage final : Stage {
    FloatBuffer q;       // [heads][plain, turned]
    FloatBuffer latent;  // [latent, turned]
    FloatBuffer angles;
    CacheView cache;
    LatentDims dims;
    int num_heads;
    bool is_interleaved;
    const float* norm;
    float eps;
    FloatBuffer queries;                   // [heads][padded latent, turned]
    std::optional<QuantizedBuffer> plain;  // [heads][plain]

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;

  private:
    void keep(const Worker& worker, int row, const RotaryHead& rotary) const;
    void turn_queries(const Worker& worker, int row, RotaryHead rotary) const;
};

struct LatentAttentionStage final : Stage {
    FloatBuffer queries;  // [heads][padded latent, turned]
    CacheView cache;
    int latent_dim;  // padded
    int num_heads;
    float scale;
    std::optional<FloatBuffer> selection;  // of each token: positions as int32, ascending, behind the last of them -1
    FloatBuffer out;                       // [heads][padded latent]
    std::optional<QuantizedBuffer> quantized;

    int num_pieces(const StepView& step) const override;
    void run(const Worker& worker, int piece) const override;

  private:
    struct Heads {
        int first, count;
    };

    int head_parts(const StepView& step) const;
    bool sees_all(const Worker& worker, const QueryGroup& group) const;
    void attend(const Worker& worker, const QueryGroup& group, Heads heads) const;
    void attend_selected(const Worker& worker, const QueryTile& tile, Heads heads) const;
    AttentionSequence sequence(const Worker& worker, const QueryTile& tile, Heads heads) const;
    LatentTask task(const Worker& worker, const AttentionSequence* sequences, const QueryGroup& group,
                    Heads heads) const;
    void quantize(const Worker& worker, const QueryTile& tile, Heads heads) const;
};

}  // namespace tailrace
