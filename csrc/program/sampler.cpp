#include "program/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "simd/half.h"

namespace tailrace {

Candidate candidate(float logit, int id) {
    if (logit != logit) return kNoCandidate;
    const uint32_t bits = float_bits(logit + 0.0f);  // the two zeros are one
    const uint32_t ascending = bits & 0x80000000 ? ~bits : bits | 0x80000000;
    return static_cast<uint64_t>(~ascending) << 32 | static_cast<uint32_t>(id);
}

int id_of(Candidate candidate) { return static_cast<int>(candidate & 0xffffffff); }

int mask_row(const Sampling& sampling, int row) { return sampling.mask_rows ? sampling.mask_rows[row] : -1; }

bool wants_best_only(const Sampling& sampling, int row) {
    return mask_row(sampling, row) < 0 && (sampling.temperature[row] == 0.0f || sampling.top_k[row] == 1) &&
           sampling.num_logprobs[row] < 0 && sampling.history_starts[row] == sampling.history_starts[row + 1] &&
           sampling.bias_starts[row] == sampling.bias_starts[row + 1];
}

double uniform(uint64_t seed, uint64_t position) {
    uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
    uint32_t x[4] = {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 0};
    for (int round = 0; round < 10; ++round) {
        const uint64_t a = uint64_t{0xD2511F53} * x[0], b = uint64_t{0xCD9E8D57} * x[2];
        const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ key[0], static_cast<uint32_t>(b),
                                  static_cast<uint32_t>(a >> 32) ^ x[3] ^ key[1], static_cast<uint32_t>(a)};
        std::memcpy(x, next, sizeof x);
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
    const uint64_t bits = static_cast<uint64_t>(x[0]) << 21 ^ x[1] >> 11;
    return static_cast<double>(bits) * 0x1p-53;
}

Sampler::Sampler(const Kernels& kernels, int vocab)
    : kernels_(kernels),
      vocab_(vocab),
      adjusted_(vocab),
      weights_(vocab),
      ids_(vocab),
      candidates_(vocab),
      counts_(vocab) {
    few_ids_.reserve(most_few() + 32);
}

void Sampler::draw(const float* logits, const Sampling& sampling, int row, const uint32_t* mask, const Samples& out) {
    const float* adjusted = adjust(logits, sampling, row);
    out.token_ids[row] = mask ? pick_allowed(adjusted, sampling, row, mask) : pick(adjusted, vocab_, sampling, row);
    if (sampling.num_logprobs[row] >= 0) {
        report(logits, row, std::min(sampling.num_logprobs[row], kMaxTopLogprobs), out);
    }
}

// The logits after penalties and biases: the row itself where it asks for neither.
const float* Sampler::adjust(const float* logits, const Sampling& sampling, int row) {
    const int first_bias = sampling.bias_starts[row], last_bias = sampling.bias_starts[row + 1];
    if (sampling.history_starts[row] == sampling.history_starts[row + 1] && first_bias == last_bias) return logits;
    std::copy(logits, logits + vocab_, adjusted_.begin());
    penalize(sampling, row);
    for (int i = first_bias; i < last_bias; ++i) adjusted_[sampling.bias_ids[i]] += sampling.bias_values[i];
    return adjusted_.data();
}

void Sampler::penalize(const Sampling& sampling, int row) {
    const int32_t* first = sampling.history_ids + sampling.history_starts[row];
    const int32_t* last = sampling.history_ids + sampling.history_starts[row + 1];
    const int32_t* output = first + sampling.history_prompt_tokens[row];
    const float repetition = sampling.repetition_penalty[row];
    constexpr int32_t kSeen = int32_t{1} << 30;  // above any count
    for (const int32_t* id = first; id < last; ++id) {
        int32_t& count = counts_[*id];
        float& logit = adjusted_[*id];
        if (count == 0) logit = logit > 0.0f ? logit / repetition : logit * repetition;
        count = (count | kSeen) + (id >= output);
    }
    for (const int32_t* id = first; id < last; ++id) {
        const int32_t count = counts_[*id] & ~kSeen;
        counts_[*id] = 0;
        if (count == 0) continue;
        adjusted_[*id] -= sampling.frequency_penalty[row] * static_cast<float>(count) + sampling.presence_penalty[row];
    }
}

int Sampler::pick_allowed(const float* logits, const Sampling& sampling, int row, const uint32_t* mask) {
    float* allowed = adjusted_.data();
    if (find_few(mask)) {
        // Side by side, they are chosen from as from a small vocabulary. The adjusted logits may be moved within
        // themselves: no id is lower than its place.
        const int count = static_cast<int>(few_ids_.size());
        for (int i = 0; i < count; ++i) allowed[i] = logits[few_ids_[i]];
        if (count == 0) return kNoToken;
        const int place = pick(allowed, count, sampling, row);
        return allowed[place] > -INFINITY ? few_ids_[place] : kNoToken;
    }
    kernels_.forbid(logits, mask, vocab_, allowed);
    const int id = pick(allowed, vocab_, sampling, row);
    return allowed[id] > -INFINITY ? id : kNoToken;
}

// Whether the mask allows so few tokens that it pays to look at nothing else; finds them then.
bool Sampler::find_few(const uint32_t* mask) {
    few_ids_.clear();
    for (int first = 0; first < vocab_; first += 32) {
        uint32_t word = mask[first / 32];
        if (vocab_ - first < 32) word &= (1u << (vocab_ - first)) - 1;
        for (; word != 0; word &= word - 1) few_ids_.push_back(first + __builtin_ctz(word));
        if (few_ids_.size() > most_few()) return false;
    }
    return true;
}

int Sampler::pick(const float* logits, int n, const Sampling& sampling, int row) {
    if (sampling.temperature[row] == 0.0f || sampling.top_k[row] == 1) return kernels_.arg_max(logits, n);
    return pick_by_chance(logits, n, sampling, row);
}

// Appends what weighs at least `least` and less than `below` to the candidates, in order; how many there are then.
int Sampler::collect(const float* logits, int n, float least, float below, int count) {
    const int found = kernels_.collect(weights_.data(), n, least, below, ids_.data());
    const int first = count;
    for (int i = 0; i < found; ++i) {
        const Candidate next = candidate(logits[ids_[i]], ids_[i]);
        if (next != kNoCandidate) candidates_[count++] = next;
    }
    std::sort(candidates_.begin() + first, candidates_.begin() + count);
    return count;
}

int Sampler::pick_by_chance(const float* logits, int n, const Sampling& sampling, int row) {
    const int best = kernels_.arg_max(logits, n);
    if (!(logits[best] > -INFINITY)) return best;  // every token is forbidden, or no logit a number
    kernels_.exp_scaled(logits, n, logits[best], sampling.temperature[row], weights_.data());
    // A weight of zero is never drawn.
    const float least = std::max(sampling.min_p[row], std::numeric_limits<float>::denorm_min());
    double total = kernels_.sum_at_least(weights_.data(), n, least);
    const int top_k = sampling.top_k[row] > 0 ? sampling.top_k[row] : n;
    const double chance = uniform(sampling.seed[row], static_cast<uint64_t>(sampling.position[row]));
    const auto weight = [this](int i) { return weights_[id_of(candidates_[i])]; };
    // The likeliest few nearly always decide: sort only them, and the tail bit by bit if they do not.
    int count = 0;
    float below = INFINITY;
    for (float wanted_least = 0x1p-4f;; wanted_least = wanted_least > 0x1p-24f ? wanted_least * 0x1p-4f : 0.0f) {
        const float threshold = std::max(wanted_least, least);
        count = collect(logits, n, threshold, below, count);
        below = threshold;
        const bool is_cut = count >= top_k;
        const bool is_complete = is_cut || threshold == least;
        if (!is_complete && top_k < n) continue;
        if (is_cut) {
            count = top_k;
            total = 0.0;
            for (int i = 0; i < count; ++i) total += weight(i);
        }
        // top_p keeps the shortest prefix that holds its share; the draw then falls into what is kept.
        double mass = total;
        if (sampling.top_p[row] < 1.0f) {
            const double wanted = static_cast<double>(sampling.top_p[row]) * total;
            mass = 0.0;
            int i = 0;
            while (i < count && (i == 0 || mass < wanted)) mass += weight(i++);
            if (mass < wanted && !is_complete) continue;
        }
        double sum = 0.0;
        for (int i = 0; i < count; ++i) {
            sum += weight(i);
            if (sum > chance * mass) return id_of(candidates_[i]);
        }
        // Rounding may leave the sum a hair below the total.
        if (is_complete) return count > 0 ? id_of(candidates_[count - 1]) : best;
    }
}

void Sampler::report(const float* logits, int row, int num_top, const Samples& out) const {
    const float max = logits[kernels_.arg_max(logits, vocab_)];
    const float log_total = max + std::log(kernels_.sum_exp(logits, vocab_, max));
    const int32_t drawn = out.token_ids[row];
    out.logprobs[row] = drawn == kNoToken ? -INFINITY : logits[drawn] - log_total;
    int32_t* ids = out.top_ids + static_cast<size_t>(row) * kMaxTopLogprobs;
    const int count = num_top > 0 ? kernels_.top(logits, vocab_, num_top, ids) : 0;
    for (int i = 0; i < count; ++i) out.top_logprobs[row * kMaxTopLogprobs + i] = logits[ids[i]] - log_total;
}

}  // namespace tailrace
