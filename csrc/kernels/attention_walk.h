// The walk of an attention task over the paged cache, key block by key block.
//
// Key blocks of 64 positions are anchored at position 0: which blocks a row meets, and in which order, depends on its
// own position alone. A row's masked positions add exact zeros. Rows of several sequences meet the blocks that these
// share together, which changes when a row meets a block but not what it does with it.
#pragma once

#include "kernels/attention_rows.h"

namespace tailrace::TAILRACE_ISA {

// The group of 16 positions of a sequence with this number, counted from its start.
TAILRACE_INLINE const uint8_t* group_of(const AttentionTask& task, const AttentionSequence& sequence, int group) {
    return task.pool + sequence.blocks[group / task.block_groups] * task.block_stride +
           group % task.block_groups * task.group_stride;
}

template <class Cache>
class AttentionWalk {
  public:
    AttentionWalk(const AttentionTask& task, HeadDims dims) : task_(task), rows_(task, dims) {}

    void run() {
        const auto [first, last] = shared_blocks();
        rows_.load_queries();
        for (int n = 0; n < task_.num_sequences; ++n) walk(n, 0, first);
        for (int index = first; index < last; ++index) visit(task_.sequences[0], rows_.all(), index);
        for (int n = 0; n < task_.num_sequences; ++n) walk(n, last, last_block(task_.sequences[n]) + 1);
        attend_pending(pending_.keys);
        rows_.store_result();
    }

  private:
    // Key blocks [first, last).
    struct Blocks {
        int first, last;
    };

    // A key block that some rows are about to meet.
    struct Visit {
        KeyBlock keys;
        Rows rows;
    };

    static int last_block(const AttentionSequence& sequence) {
        return (sequence.position + sequence.num_tokens - 1) / kKeyBlock;
    }

    int first_block(const AttentionSequence& sequence) const {
        const int first = task_.window > 0 ? sequence.position - task_.window + 1 : 0;
        return (first > 0 ? first : 0) / kKeyBlock;
    }

    // The blocks that lie in the same memory for all sequences and that every row sees whole.
    Blocks shared_blocks() const {
        Blocks blocks{0, task_.shared_tokens / kKeyBlock};
        for (int n = 0; n < task_.num_sequences; ++n) {
            const AttentionSequence& sequence = task_.sequences[n];
            const int last_first = sequence.position + sequence.num_tokens - task_.window;  // seen by the last row
            const int whole = (sequence.position + 1) / kKeyBlock;
            if (task_.window > 0 && last_first > blocks.first * kKeyBlock) {
                blocks.first = (last_first + kKeyBlock - 1) / kKeyBlock;
            }
            if (whole < blocks.last) blocks.last = whole;
        }
        return blocks.first < blocks.last ? blocks : Blocks{0, 0};
    }

    // Blocks [first, last) of one sequence, from the first that it sees.
    void walk(int n, int first, int last) {
        const AttentionSequence& sequence = task_.sequences[n];
        const Rows rows = rows_.of(n);
        const int seen = first_block(sequence);
        for (int index = first > seen ? first : seen; index < last; ++index) visit(sequence, rows, index);
    }

    // Computes the visit before this one, now that it is known what to fetch meanwhile.
    void visit(const AttentionSequence& sequence, const Rows& rows, int index) {
        Visit visit{{}, rows};
        visit.keys.base = index * kKeyBlock;
        const int num_keys = sequence.position + sequence.num_tokens - visit.keys.base;
        const int num_groups = (num_keys + kKeyGroup - 1) / kKeyGroup;
        visit.keys.num_groups = num_groups < kKeyGroups ? num_groups : kKeyGroups;
        for (int g = 0; g < kKeyGroups; ++g) {
            visit.keys.keys[g] = group_of(task_, sequence, index * kKeyGroups + (g < num_groups ? g : 0));
        }
        if (has_pending_) attend_pending(visit.keys);
        pending_ = visit;
        has_pending_ = true;
    }

    void attend_pending(const KeyBlock& next) {
        for (int g = 0; g < kKeyGroups; ++g) pending_.keys.next_keys[g] = next.keys[g];
        rows_.attend(pending_.keys, pending_.rows);
    }

    const AttentionTask& task_;
    const QueryRows<Cache> rows_;
    Visit pending_{};
    bool has_pending_ = false;
};

}  // namespace tailrace::TAILRACE_ISA
