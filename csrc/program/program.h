// A model lowered to stages, with its KV pool, its activations and its threads: one call computes one step.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "program/masks.h"
#include "program/memory.h"
#include "program/pool.h"
#include "program/queries.h"
#include "program/residency.h"
#include "program/sampler.h"
#include "program/stage.h"
#include "program/step_times.h"
#include "simd/isa.h"

namespace tailrace {

struct CacheShape {
    int num_kv_heads;
    int head_dim;
    bool has_values;  // else keys alone
};

class Program final : private Work {
  public:
    // Throws std::invalid_argument for shapes the kernels do not take, std::bad_alloc without memory.
    Program(std::shared_ptr<const Weights> weights, Isa isa, const Limits& limits,
            const std::vector<CacheShape>& caches, KvFormat kv_format, size_t activation_bytes, size_t private_bytes);
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    void add(std::unique_ptr<Stage> stage) { stages_.push_back(std::move(stage)); }
    // The stage that was added last, if any.
    Stage* last_stage() const { return stages_.empty() ? nullptr : stages_.back().get(); }
    // The last stage waits until so many of the weights are whole.
    void need(uint32_t num_weights) { needed_.resize(stages_.size() - 1), needed_.push_back(num_weights); }
    // Experts come and go: once that has failed, no step is right any more.
    void watch(std::shared_ptr<const Residency> residency) { residency_ = std::move(residency); }
    // Says that the last stage puts out the logits, into which buffer, and how many token ids there are.
    void finish(const FloatBuffer& logits, int num_embeddings);

    const Weights& weights() const { return *weights_; }
    const Limits& limits() const { return limits_; }
    CacheView cache(int index) const { return caches_.at(index); }
    void limit_heads(int heads_per_kv_head);  // of an attention stage
    void limit_shared(int num_positions);     // of a sequence that attention reads together with another
    void reserve_scratch(size_t bytes);       // for each thread, at least
    size_t block_bytes() const { return block_bytes_; }
    uint8_t* pool() const { return pool_.data(); }  // [num_blocks][block_bytes]
    int vocab() const { return logits_.cols; }

    // One caller at a time: a second one is refused. Computes a step; draws into `samples` where sampling is given.
    // Throws std::invalid_argument for a step out of bounds, before anything is computed; std::runtime_error when an
    // expert that it needed cannot be had: what it has computed is then wrong.
    void run(const Step& step, const Sampling* sampling, const Samples& samples);
    // As run; what each stage took, and behind them drawing.
    std::vector<StageTime> time(const Step& step, const Sampling* sampling, const Samples& samples);
    // Tokens of the last step's contexts that attention read once for several sequences, not counting that once.
    int64_t shared_reads() const { return queries_.saved_tokens(); }
    // Of the rows that a sampling names; there from `finish` on.
    const std::shared_ptr<Masks>& masks() const { return masks_; }
    const float* logits() const { return reinterpret_cast<const float*>(activations_.data() + logits_.offset); }

    void copy_block(int source, int target, int num_tokens);
    // Blocks [first, first + count) keep their memory from now on, get it at once, or give it back with what they hold.
    void commit(int first, int count);
    void populate(int first, int count);
    void release(int first, int count);
    size_t resident_pool_bytes() const { return pool_.resident_bytes(); }

  private:
    void compute(const Step& step, const Sampling* sampling, const Samples& samples, StepTimes* times);
    void enter(int thread, int stage) override;
    void run(int thread, int stage, int piece) override;
    bool wait_for_data(int stage) const;
    StepView view() const;
    Worker worker(int thread) const;
    void check(const Step& step) const;
    void check(const Sampling& sampling, int num_samples) const;
    void check_blocks(const char* what, int first, int count) const;
    void lay_out(const Step& step);
    void look_at_sampling();
    void draw(int thread, int row);
    const uint32_t* mask_of(int thread, int row);

    std::shared_ptr<const Weights> weights_;
    const Kernels& kernels_;
    const Limits limits_;
    std::vector<CacheView> caches_;
    size_t block_bytes_ = 0;
    size_t scratch_bytes_ = kScratchFloats * sizeof(float);
    Pool pool_;
    Memory activations_;
    std::vector<Memory> copies_;
    std::vector<Memory> scratches_;
    std::vector<std::unique_ptr<Stage>> stages_;
    std::shared_ptr<const Residency> residency_;  // or null
    std::vector<uint32_t> needed_;                // of the weights, by each stage
    FloatBuffer logits_{0, 0};
    int num_embeddings_ = 0;
    bool picks_best_ = false;  // the last stage can choose the best token itself
    std::vector<Sampler> samplers_;
    std::shared_ptr<Masks> masks_;
    std::unique_ptr<std::atomic<Candidate>[]> bests_;  // [max_samples]
    std::vector<int32_t> row_sequences_;
    QueryPlan queries_;
    bool is_decode_ = false;
    std::atomic<bool> is_busy_{false};

    // Of the step that is being run.
    const Step* step_ = nullptr;
    const Sampling* sampling_ = nullptr;
    bool is_best_only_ = false;  // no sampled row needs its logits, just the best token
    const Samples* samples_ = nullptr;
    StepTimes* times_ = nullptr;   // or null: nobody wants to know
    std::vector<int> num_pieces_;  // of each stage; behind them, of sampling
    std::unique_ptr<Team> team_;   // last: its threads end before anything they use
};

}  // namespace tailrace
