#include "ring/token_ring.h"

#include <string>

namespace tailrace {

namespace {

uint32_t mark_of(uint64_t position) { return static_cast<uint32_t>(position) ^ 0x746f6b65; }

}  // namespace

TokenRing::TokenRing(void* memory, size_t num_bytes)
    : positions_(positions_at(memory, num_bytes, bytes_for(1))),
      slots_(reinterpret_cast<TokenSlot*>(static_cast<uint8_t*>(memory) + sizeof(Positions))),
      num_slots_((num_bytes - sizeof(Positions)) / sizeof(TokenSlot)) {}

size_t TokenRing::begin() {
    written_ = positions_->head.load(std::memory_order_relaxed);
    return num_slots_ - num_used();
}

void TokenRing::append(TokenSlot slot) {
    slot.mark = mark_of(written_);
    slots_[written_ % num_slots_] = slot;
    ++written_;
}

void TokenRing::publish() { positions_->head.store(written_, std::memory_order_release); }

TokenSlot TokenRing::peek(size_t ahead) const {
    const uint64_t position = positions_->tail.load(std::memory_order_relaxed) + ahead;
    const TokenSlot slot = slots_[position % num_slots_];
    copied();
    const bool is_possible = slot.mark == mark_of(position) && slot.token_id >= kNoToken &&
                             slot.finish <= kNumFinishReasons && slot.has_detail <= 1 && slot.zero == 0;
    if (!is_possible) throw RingDamage("no token lies at position " + std::to_string(position));
    return slot;
}

void TokenRing::drop(size_t count) {
    const uint64_t position = positions_->tail.load(std::memory_order_relaxed);
    positions_->tail.store(position + count, std::memory_order_release);
}

}  // namespace tailrace
