// Attention of a few tokens' query heads over one KV head's paged cache.
#include "kernels/attention_codes.h"
#include "kernels/attention_pairs.h"
#include "kernels/attention_walk.h"
#include "kernels/functions.h"
#include "kernels/widening.h"

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

struct PagedE4m3 : Paged<PairCache<HalfPairs>> {
    static void store_query(const float* q, HeadDims dims, float scale, uint8_t* out) {
        store_mixed(q, dims.key, scale, reinterpret_cast<Operand*>(out));
    }
    TAILRACE_INLINE KeyBlock find_block(const KeyBlock& block, HeadDims dims, uint8_t* memory) {
        const size_t code_bytes = kv_tile_bytes(KvFormat::kE4m3, dims.key);
        const size_t pair_bytes = kv_tile_bytes(KvFormat::kBf16, dims.key);
        const auto widen = [&](const uint8_t* tile, const uint8_t* next, uint8_t* out) {
            widen_keys(tile, dims.padded_key(), next, out);
            widen_values(tile + code_bytes, dims.padded_value(), next + code_bytes, out + pair_bytes);
        };
        return widen_groups(block, 2 * pair_bytes, memory, widen);
    }
};

template <class Cache>
void attend(const AttentionTask& task) {
    AttentionWalk<Cache>(task, {task.head_dim, task.head_dim}).run();
}

}  // namespace

void attention(const AttentionTask& task) {
    switch (task.format) {
        case KvFormat::kF32:
            return attend<Paged<PairCache<FloatPairs>>>(task);
        case KvFormat::kBf16:
            return attend<Paged<PairCache<HalfPairs>>>(task);
        case KvFormat::kInt8:
            return attend<Paged<CodeCache>>(task);
        case KvFormat::kE4m3:
            return attend<PagedE4m3>(task);
    }
}

}  // namespace tailrace::TAILRACE_ISA
