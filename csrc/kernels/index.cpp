// The lightning indexer: how much each position of a sequence counts for one row. Sixteen positions lie side by side in
// a vector; a few heads share what is read of their keys.
#include "kernels/attention_pairs.h"
#include "kernels/functions.h"
#include "kernels/scan.h"
#include "kernels/widening.h"
#include "simd/bytes.h"

namespace tailrace::TAILRACE_ISA {

namespace {

constexpr int kHeads = 4;
#if defined(__AVX512F__)
constexpr int kGroups = 4;  // of sixteen positions
#else
constexpr int kGroups = 1;
#endif

// Keys in float32 or bfloat16.
template <class Pairs>
struct PairKeys {
    using Operand = typename Pairs::Operand;

    static constexpr size_t query_bytes(int dim) { return dim / 2 * sizeof(Operand); }

    // Returns what the products are to be multiplied with.
    static float store_query(const float* q, int head_dim, uint8_t* out) {
        for (int d = 0; d < head_dim; d += kLanes) {
            store_pairs(reinterpret_cast<Operand*>(out) + d / 2, load_head(q, d, head_dim));
        }
        return 1.0f;
    }

    template <int R>
    TAILRACE_INLINE void multiply(const uint8_t* const (&groups)[kGroups], const uint8_t* queries, int dim,
                                  Vec (&products)[R][kGroups]) {
        const auto* q = reinterpret_cast<const Operand*>(queries);
        for (int r = 0; r < R; ++r) {
            for (int g = 0; g < kGroups; ++g) products[r][g] = zero();
        }
        for (int d = 0; d < dim / 2; ++d) {
            for (int g = 0; g < kGroups; ++g) {
                for (int r = 0; r < R; ++r) {
                    products[r][g] = Pairs::step(products[r][g], groups[g] + d * Pairs::kPairBytes, q[r * dim / 2 + d]);
                }
            }
        }
    }

    // Groups as they are read: as they lie in the cache.
    TAILRACE_INLINE void find(const uint8_t* (&)[kGroups], int, uint8_t*) {}

    // What the scores of a group of positions are to be multiplied with.
    TAILRACE_INLINE Vec scales(const uint8_t*, int) { return set1(1.0f); }
};

struct E4m3Keys : PairKeys<HalfPairs> {
    static float store_query(const float* q, int head_dim, uint8_t* out) {
        store_mixed(q, head_dim, 1.0f, reinterpret_cast<Operand*>(out));
        return 1.0f;
    }
    TAILRACE_INLINE void find(const uint8_t* (&groups)[kGroups], int dim, uint8_t* memory) {
        for (int g = 0; g < kGroups; ++g) {
            uint8_t* widened = memory + g * kv_tile_bytes(KvFormat::kBf16, dim);
            widen_keys(groups[g], dim, groups[g], widened);
            groups[g] = widened;
        }
    }
};

// Keys in 8 bits; queries become as narrow, which is more than the 8-bit floats that the model was trained with have.
struct CodeKeys {
    static constexpr size_t query_bytes(int dim) { return dim + sizeof(int32_t); }

    static float store_query(const float* q, int head_dim, uint8_t* out) {
        const int dim = padded_head(head_dim);
        auto* codes = reinterpret_cast<int8_t*>(out);
        float mixed[kMaxHeadDim];
        mix(q, head_dim, mixed);
        const float scale = largest_of(mixed, dim) / 127.0f;
        const Vec steps = set1(scale > 1e-30f ? 1.0f / scale : 0.0f);
        VecI total = set1(int32_t{0});
        for (int d = 0; d < dim; d += kLanes) {
            const VecI numbers = max(nearest(min(load(mixed + d) * steps, set1(127.0f))), set1(int32_t{-127}));
            store_int8(codes + d, numbers);
            total = total + numbers;
        }
        const int32_t shift = -128 * sum(total);
        std::memcpy(codes + dim, &shift, sizeof shift);
        return scale;
    }

    template <int R>
    TAILRACE_INLINE void multiply(const uint8_t* const (&groups)[kGroups], const uint8_t* queries, int dim,
                                  Vec (&products)[R][kGroups]) {
        const auto* q = reinterpret_cast<const int8_t*>(queries);
        const size_t step = query_bytes(dim);
        VecI sums[R][kGroups];
        for (int r = 0; r < R; ++r) {
            const VecI start = start_q8(four_codes(q + r * step + dim));
            for (int g = 0; g < kGroups; ++g) sums[r][g] = start;
        }
        for (int d = 0; d < dim; d += 4) {
            for (int g = 0; g < kGroups; ++g) {
                const Bytes codes = load_bytes(groups[g] + d * kKeyGroup);
                for (int r = 0; r < R; ++r) sums[r][g] = dot_q8(sums[r][g], codes, four_codes(q + r * step + d));
            }
        }
        for (int r = 0; r < R; ++r) {
            for (int g = 0; g < kGroups; ++g) products[r][g] = to_float(sums[r][g]);
        }
    }

    TAILRACE_INLINE void find(const uint8_t* (&)[kGroups], int, uint8_t*) {}

    TAILRACE_INLINE Vec scales(const uint8_t* tile, int dim) {
        return load(reinterpret_cast<const float*>(tile + static_cast<size_t>(dim) * kKeyGroup));
    }
};

template <class Keys>
class Index {
  public:
    explicit Index(const IndexTask& task)
        : task_(task),
          dim_(padded_head(task.head_dim)),
          weights_(static_cast<float*>(task.scratch)),
          widened_(reinterpret_cast<uint8_t*>(weights_ + padded_head(task.num_heads))),
          queries_(widened_ + widened_block_bytes(task.head_dim)) {}

    void run() const {
        for (int h = 0; h < task_.num_heads; ++h) {
            weights_[h] = task_.head_weights[h] * Keys::store_query(task_.q + static_cast<size_t>(h) * task_.head_dim,
                                                                    task_.head_dim, query(h));
        }
        for (int first = task_.first; first < task_.last; first += kGroups * kKeyGroup) score(first);
    }

  private:
    uint8_t* query(int head) const { return queries_ + head * Keys::query_bytes(dim_); }

    const uint8_t* group_of(int position) const {
        const int group = position / kKeyGroup;
        return task_.pool + task_.blocks[group / task_.block_groups] * task_.block_stride +
               group % task_.block_groups * task_.group_stride;
    }

    void score(int first) const {
        const uint8_t* groups[kGroups];
        for (int g = 0; g < kGroups; ++g) {
            // Groups past the end are read from the first one, which exists; nobody looks at their scores.
            const int position = first + g * kKeyGroup;
            groups[g] = group_of(position < task_.last ? position : first);
        }
        Keys::find(groups, dim_, widened_);
        Vec scores[kGroups];
        for (int g = 0; g < kGroups; ++g) scores[g] = zero();
        int head = 0;
        for (; head + kHeads <= task_.num_heads; head += kHeads) add<kHeads>(groups, head, scores);
        for (; head < task_.num_heads; ++head) add<1>(groups, head, scores);
        float* out = task_.scores + (first - task_.first);
        for (int g = 0; g < kGroups; ++g) {
            // What is no number comes last.
            store(out + g * kKeyGroup, max(scores[g] * Keys::scales(groups[g], dim_), set1(kLowest)));
        }
    }

    template <int R>
    void add(const uint8_t* const (&groups)[kGroups], int head, Vec (&scores)[kGroups]) const {
        Vec products[R][kGroups];
        Keys::template multiply<R>(groups, query(head), dim_, products);
        for (int r = 0; r < R; ++r) {
            const Vec weight = set1(weights_[head + r]);
            for (int g = 0; g < kGroups; ++g) scores[g] = fma(max(products[r][g], zero()), weight, scores[g]);
        }
    }

    const IndexTask& task_;
    const int dim_;
    float* const weights_;
    uint8_t* const widened_;
    uint8_t* const queries_;
};

}  // namespace

void index_scores(const IndexTask& task) {
    switch (task.format) {
        case KvFormat::kF32:
            return Index<PairKeys<FloatPairs>>(task).run();
        case KvFormat::kBf16:
            return Index<PairKeys<HalfPairs>>(task).run();
        case KvFormat::kInt8:
            return Index<CodeKeys>(task).run();
        case KvFormat::kE4m3:
            return Index<E4m3Keys>(task).run();
    }
}

}  // namespace tailrace::TAILRACE_ISA
