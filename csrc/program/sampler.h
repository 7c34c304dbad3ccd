// Draws one token from a row of logits (tailrace.ops.api.SamplingInputs says in which order what is done).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace tailrace {

struct Sampling {
    const float* temperature;
    const float* top_p;
    const int32_t* top_k;
    const float* min_p;
    const uint64_t* seed;
    const int64_t* position;
    const int32_t* num_logprobs;
    const float* repetition_penalty;
    const float* frequency_penalty;
    const float* presence_penalty;
    const int32_t* history_starts;
    const int32_t* history_ids;
    const int32_t* history_prompt_tokens;
    const int32_t* bias_starts;
    const int32_t* bias_ids;
    const float* bias_values;
    const int32_t* mask_rows;  // -1: every token may be drawn; null: no row has a mask
};

constexpr int kMaxTopLogprobs = 20;
constexpr int32_t kNoToken = -1;  // a mask leaves none that can be drawn

struct Samples {
    int32_t* token_ids;
    float* logprobs;
    int32_t* top_ids;  // [rows][kMaxTopLogprobs]
    float* top_logprobs;
};

// Philox4x32-10 keyed by seed, counted by position: the same number for the same token wherever it is drawn.
double uniform(uint64_t seed, uint64_t position);

// A token with its logit as one number: the better of two is the smaller, the lower id among equals.
using Candidate = uint64_t;
constexpr Candidate kNoCandidate = ~Candidate{0};
Candidate candidate(float logit, int id);
int id_of(Candidate candidate);

// The row of the masks that says what may be drawn, or -1.
int mask_row(const Sampling& sampling, int row);

// Whether nothing but the best token of a row is asked for.
bool wants_best_only(const Sampling& sampling, int row);

// One thread's sampler with its scratch memory.
class Sampler {
  public:
    Sampler(const Kernels& kernels, int vocab);

    // `mask`: a bit for each token, whether it may be drawn; null: all may.
    void draw(const float* logits, const Sampling& sampling, int row, const uint32_t* mask, const Samples& out);

  private:
    const float* adjust(const float* logits, const Sampling& sampling, int row);
    void penalize(const Sampling& sampling, int row);
    int pick_allowed(const float* logits, const Sampling& sampling, int row, const uint32_t* mask);
    bool find_few(const uint32_t* mask);
    size_t most_few() const { return static_cast<size_t>(vocab_) / 32; }
    // Of the first n logits.
    int pick(const float* logits, int n, const Sampling& sampling, int row);
    int pick_by_chance(const float* logits, int n, const Sampling& sampling, int row);
    int collect(const float* logits, int n, float least, float below, int count);
    void report(const float* logits, int row, int num_top, const Samples& out) const;

    const Kernels& kernels_;
    const int vocab_;
    std::vector<float> adjusted_;
    std::vector<float> weights_;  // exp((logit - max) / temperature)
    std::vector<int32_t> ids_;
    std::vector<Candidate> candidates_;  // best first
    std::vector<int32_t> few_ids_;       // that a mask allows, ascending; if they are few
    std::vector<int32_t> counts_;        // by token; all zero between rows
};

}  // namespace tailrace
