#include "program/queries.h"

#include <algorithm>

#include "kernels/kernels.h"

namespace tailrace {

namespace {

constexpr int kPiecesPerThread = 4;

// A sequence's blocks that are full.
struct FullBlocks {
    const int32_t* ids;
    int count;

    FullBlocks(const Limits& limits, const Step& step, int sequence)
        : ids(step.block_tables + static_cast<size_t>(step.slots[sequence]) * limits.max_blocks_per_sequence),
          count(step.starts[sequence] / limits.block_tokens) {}
};

}  // namespace

QueryPlan::QueryPlan(const Limits& limits, int num_kv_heads)
    : limits_(limits),
      min_groups_((kPiecesPerThread * limits.num_threads + num_kv_heads - 1) / num_kv_heads),
      max_tokens_(kAttentionRows) {
    tiles_.reserve(limits.max_tokens);
    common_.reserve(limits.max_sequences);
    groups_.reserve(limits.max_tokens);
}

void QueryPlan::build(const Step& step) {
    tiles_.clear();
    groups_.clear();
    for (int sequence = 0; sequence < step.num_sequences; ++sequence) {
        if (step.row_starts[sequence + 1] - step.row_starts[sequence] == 1) add_tiles(step, sequence);
    }
    num_decoding_ = static_cast<int>(tiles_.size());
    sort_decoding(step);
    group_decoding();
    for (int sequence = 0; sequence < step.num_sequences; ++sequence) {
        if (step.row_starts[sequence + 1] - step.row_starts[sequence] != 1) add_tiles(step, sequence);
    }
    for (int tile = num_decoding_; tile < static_cast<int>(tiles_.size()); ++tile) groups_.push_back({tile, 1, 0});
}

int64_t QueryPlan::saved_tokens() const {
    int64_t tokens = 0;
    for (const QueryGroup& group : groups_) tokens += int64_t{group.num_tiles - 1} * group.shared_tokens;
    return tokens;
}

void QueryPlan::add_tiles(const Step& step, int sequence) {
    const int last = step.row_starts[sequence + 1];
    for (int row = step.row_starts[sequence]; row < last; row += max_tokens_) {
        tiles_.push_back({sequence, row, std::min(max_tokens_, last - row)});
    }
}

// By their block tables, so that those which begin alike are neighbours.
void QueryPlan::sort_decoding(const Step& step) {
    std::sort(tiles_.begin(), tiles_.end(), [&](const QueryTile& a, const QueryTile& b) {
        const FullBlocks one(limits_, step, a.sequence), other(limits_, step, b.sequence);
        const int shorter = std::min(one.count, other.count);
        const auto [x, y] = std::mismatch(one.ids, one.ids + shorter, other.ids);
        if (x != one.ids + shorter) return *x < *y;
        return one.count != other.count ? one.count < other.count : a.sequence < b.sequence;
    });
    common_.assign(num_decoding_, 0);
    for (int i = 0; i + 1 < num_decoding_; ++i) {
        if (std::max(step.starts[tiles_[i].sequence], step.starts[tiles_[i + 1].sequence]) >= max_shared_) continue;
        const FullBlocks one(limits_, step, tiles_[i].sequence), next(limits_, step, tiles_[i + 1].sequence);
        const int32_t* end = one.ids + std::min(one.count, next.count);
        const auto blocks = static_cast<int>(std::mismatch(one.ids, end, next.ids).first - one.ids);
        common_[i] = blocks * limits_.block_tokens / kKeyBlock * kKeyBlock;
    }
}

// Takes neighbours together as long as the group with the next saves no less than the group without it and the next
// with the one behind.
void QueryPlan::group_decoding() {
    for (int first = 0, last; first < num_decoding_; first = last) {
        int shared = 0;
        for (last = first + 1; last < num_decoding_; ++last) {
            const int size = last - first, joint = size == 1 ? common_[first] : std::min(shared, common_[last - 1]);
            if (joint == 0 || size * joint < (size - 1) * shared + common_[last]) break;
            shared = joint;
        }
        add_groups(first, last, shared);
    }
}

// In equal parts, of as many as attention takes at once and leaves work for all threads.
void QueryPlan::add_groups(int first, int last, int shared_tokens) {
    const int most = std::clamp((num_decoding_ + min_groups_ - 1) / min_groups_, 1, max_tokens_);
    const int count = last - first, parts = (count + most - 1) / most;
    for (int part = 0; part < parts; ++part) {
        const int begin = first + count * part / parts, end = first + count * (part + 1) / parts;
        groups_.push_back({begin, end - begin, end - begin > 1 ? shared_tokens : 0});
    }
}

}  // namespace tailrace
