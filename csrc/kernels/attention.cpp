// Attention of a few tokens' query heads over one KV head's paged cache.
#include "kernels/attention_codes.h"
#include "kernels/attention_pairs.h"
#include "kernels/attention_walk.h"
#include "kernels/functions.h"

namespace tailrace::TAILRACE_ISA {

namespace {

// Values lie behind the keys.
template <class Cache>
struct Paged : Cache {
    static constexpr int kValueDims = kMaxHeadDim;

    TAILRACE_INLINE Values find_values(const KeyBlock& block, HeadDims dims, ValueDims wanted, uint8_t*) {
        const size_t place = kv_tile_bytes(Cache::kFormat, dims.key) + wanted.first * Cache::kValueBytes;
        return {block.keys, block.next_keys, place, dims.padded_value()};
    }
    TAILRACE_INLINE void finish(float*, HeadDims) {}
};

template <class Cache>
void attend(const AttentionTask& task) {
    AttentionWalk<Paged<Cache>>(task, {task.head_dim, task.head_dim}).run();
}

}  // namespace

void attention(const AttentionTask& task) {
    switch (task.format) {
        case KvFormat::kF32:
            return attend<PairCache<FloatPairs>>(task);
        case KvFormat::kBf16:
            return attend<PairCache<HalfPairs>>(task);
        case KvFormat::kInt8:
            return attend<CodeCache>(task);
    }
}

}  // namespace tailrace::TAILRACE_ISA
