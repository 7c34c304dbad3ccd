// How a row chooses its experts, and how what an expert makes of it is added up.
#include "kernels/functions.h"
#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

namespace {

constexpr float kNever = -__builtin_inff();  // the rank of what cannot be chosen
constexpr float kLeast = -__FLT_MAX__;       // the least rank of what can: what is no number has it
constexpr float kSmallestSum = 1e-20f;

// Calls compute(column, lanes) for sixteen columns at a time.
template <class Compute>
TAILRACE_INLINE void each_vector(int n, Compute compute) {
    for (int i = 0; i < n; i += kLanes) compute(i, n - i < kLanes ? n - i : kLanes);
}

TAILRACE_INLINE Vec sigmoid(Vec x) { return set1(1.0f) / (set1(1.0f) + exp(zero() - x)); }

void score(const Routing& routing, const float* logits, float* scores) {
    const int n = routing.num_experts;
    if (routing.is_sigmoid) {
        return each_vector(
            n, [&](int i, int lanes) { store_first(scores + i, sigmoid(load_first(logits + i, lanes)), lanes); });
    }
    const float top = logits[arg_max(logits, n)];
    const Vec total = set1(sum_exp(logits, n, top));
    exp_scaled(logits, n, top, 1.0f, scores);
    each_vector(n, [&](int i, int lanes) { store_first(scores + i, load_first(scores + i, lanes) / total, lanes); });
}

void rank(const Routing& routing, const float* scores, const float* bias, float* ranks) {
    each_vector(routing.num_experts, [&](int i, int lanes) {
        Vec ranks_of = load_first(scores + i, lanes);
        if (bias) ranks_of = ranks_of + load_first(bias + i, lanes);
        store_first(ranks + i, max(ranks_of, set1(kLeast)), lanes);
    });
}

// Not kNever either.
float group_rank(const float* ranks, int size, bool is_by_two) {
    float best = kNever, second = kNever;
    for (int i = 0; i < size; ++i) {
        const float lower = ranks[i] < best ? ranks[i] : best;
        best = ranks[i] > best ? ranks[i] : best;
        second = lower > second ? lower : second;
    }
    const float both = best + second;
    return !is_by_two ? best : both > kLeast ? both : kLeast;
}

// Ranks of all but the best groups become kNever. `scratch`: two numbers a group.
void leave_best_groups(const Routing& routing, float* ranks, float* scratch) {
    const int count = routing.num_groups, size = routing.num_experts / count;
    auto* best = reinterpret_cast<int32_t*>(scratch + count);
    for (int g = 0; g < count; ++g) scratch[g] = group_rank(ranks + g * size, size, routing.is_ranked_by_two);
    top(scratch, count, routing.top_groups, best);
    for (int i = 0; i < routing.top_groups; ++i) scratch[best[i]] = kNever;
    for (int g = 0; g < count; ++g) {
        for (int i = g * size; scratch[g] != kNever && i < (g + 1) * size; ++i) ranks[i] = kNever;
    }
}

void sort(int32_t* numbers, int count) {
    for (int i = 1; i < count; ++i) {
        const int32_t number = numbers[i];
        int place = i;
        for (; place > 0 && numbers[place - 1] > number; --place) numbers[place] = numbers[place - 1];
        numbers[place] = number;
    }
}

}  // namespace

void route(const Routing& routing, const float* logits, const float* bias, float* scratch, int32_t* experts,
           float* weights) {
    const int n = routing.num_experts;
    float* scores = scratch;
    float* ranks = scores + n;
    score(routing, logits, scores);
    rank(routing, scores, bias, ranks);
    if (routing.top_groups < routing.num_groups) leave_best_groups(routing, ranks, ranks + n);
    top(ranks, n, routing.top_k, experts);
    sort(experts, routing.top_k);
    float total = kSmallestSum;
    for (int i = 0; i < routing.top_k; ++i) total += scores[experts[i]];
    for (int i = 0; i < routing.top_k; ++i) {
        const float score = scores[experts[i]];
        weights[i] = (routing.is_normalized ? score / total : score) * routing.scale;
    }
}

void add_scaled(const float* x, float scale, int n, float* out) {
    const Vec factor = set1(scale);
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) store(out + i, fma(load(x + i), factor, load(out + i)));
    if (i < n) store_first(out + i, fma(load_first(x + i, n - i), factor, load_first(out + i, n - i)), n - i);
}

}  // namespace tailrace::TAILRACE_ISA
