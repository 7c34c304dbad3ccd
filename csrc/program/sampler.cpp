#include "program/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "simd/half.h"

namespace tailrace {

namespace {

// Sorts ascending as: larger logit first, then lower id.
uint64_t candidate(float logit, int id) {
    const uint32_t bits = float_bits(logit);
    const uint32_t ascending = bits & 0x80000000 ? ~bits : bits | 0x80000000;
    return static_cast<uint64_t>(~ascending) << 32 | static_cast<uint32_t>(id);
}

int id_of(uint64_t candidate) {
    return static_cast<int>(candidate & 0xffffffff);
}

}  // namespace

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
    : kernels_(kernels), vocab_(vocab), adjusted_(vocab), weights_(vocab), candidates_(vocab), counts_(vocab) {}

void Sampler::draw(const float* logits, const Sampling& sampling, int row, const Samples& out) {
    out.token_ids[row] = pick(adjust(logits, sampling, row), sampling, row);
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

int Sampler::pick(const float* logits, const Sampling& sampling, int row) {
    if (sampling.temperature[row] == 0.0f || sampling.top_k[row] == 1) return kernels_.arg_max(logits, vocab_);
    return pick_by_chance(logits, sampling, row);
}

// Everything at least as likely as `threshold` beside the best, in order: a prefix of the sorted vocabulary.
int Sampler::collect(const float* logits, float threshold) {
    int count = 0;
    for (int id = 0; id < vocab_; ++id) {
        candidates_[count] = candidate(logits[id], id);
        count += weights_[id] >= threshold && weights_[id] > 0.0f;
    }
    std::sort(candidates_.begin(), candidates_.begin() + count);
    return count;
}

int Sampler::pick_by_chance(const float* logits, const Sampling& sampling, int row) {
    const int best = kernels_.arg_max(logits, vocab_);
    if (logits[best] == -INFINITY) return best;  // every token is forbidden
    kernels_.exp_scaled(logits, vocab_, logits[best], sampling.temperature[row], weights_.data());
    const float min_p = sampling.min_p[row];
    double total = 0.0;
    int kept = 0;
    for (int id = 0; id < vocab_; ++id) {
        if (weights_[id] < min_p || weights_[id] == 0.0f) continue;
        total += weights_[id];
        ++kept;
    }
    const int top_k = sampling.top_k[row];
    const bool is_cut = top_k > 0 && top_k < kept;
    if (is_cut) kept = top_k;
    const double chance = uniform(sampling.seed[row], static_cast<uint64_t>(sampling.position[row]));
    // The likeliest few nearly always decide: sort only them, and more of the tail if they do not.
    for (float threshold = 0x1p-6f;; threshold = threshold > 0x1p-24f ? threshold * 0x1p-6f : 0.0f) {
        const int count = std::min(collect(logits, std::max(threshold, min_p)), kept);
        const bool is_complete = count == kept;
        if (is_cut && !is_complete) continue;
        if (is_cut) {
            total = 0.0;
            for (int i = 0; i < count; ++i) total += weights_[id_of(candidates_[i])];
        }
        // top_p keeps the shortest prefix that holds its share; the draw then falls into what is kept.
        double mass = total;
        if (sampling.top_p[row] < 1.0f) {
            const double wanted = static_cast<double>(sampling.top_p[row]) * total;
            mass = 0.0;
            int i = 0;
            while (i < count && (i == 0 || mass < wanted)) mass += weights_[id_of(candidates_[i++])];
            if (mass < wanted && !is_complete) continue;
        }
        double sum = 0.0;
        for (int i = 0; i < count; ++i) {
            sum += weights_[id_of(candidates_[i])];
            if (sum > chance * mass) return id_of(candidates_[i]);
        }
        // Rounding may leave the sum a hair below the total.
        if (is_complete) return count > 0 ? id_of(candidates_[count - 1]) : best;
    }
}

void Sampler::report(const float* logits, int row, int num_top, const Samples& out) const {
    const float max = logits[kernels_.arg_max(logits, vocab_)];
    const float log_total = max + std::log(kernels_.sum_exp(logits, vocab_, max));
    out.logprobs[row] = logits[out.token_ids[row]] - log_total;
    uint64_t best[kMaxTopLogprobs];
    int count = 0;
    for (int id = 0; num_top > 0 && id < vocab_; ++id) {
        const uint64_t entry = candidate(logits[id], id);
        if (count == num_top && entry > best[count - 1]) continue;
        int i = count < num_top ? count++ : count - 1;
        for (; i > 0 && best[i - 1] > entry; --i) best[i] = best[i - 1];
        best[i] = entry;
    }
    for (int i = 0; i < count; ++i) {
        out.top_ids[row * kMaxTopLogprobs + i] = id_of(best[i]);
        out.top_logprobs[row * kMaxTopLogprobs + i] = logits[id_of(best[i])] - log_total;
    }
}

}  // namespace tailrace
