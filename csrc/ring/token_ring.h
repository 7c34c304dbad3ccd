// One writer, one reader, slots of 32 bytes: what a step has to say of one request.
//
//      0   head      slots ever written
//     64   tail      slots ever read
//    128   slots     position p of the stream lies in slot p % num_slots
#pragma once

#include "ring/positions.h"

namespace tailrace {

struct TokenSlot {
    uint64_t number;      // of the request
    int32_t token_id;     // kNoToken: none
    float logprob;        // NaN: none
    uint32_t position;    // tokens of the request so far, this one included
    uint32_t generation;  // of the engine that wrote it
    uint32_t mark;        // made of the slot's position by the ring, so that what is no slot is not taken for one
    uint8_t finish;       // 0: goes on; otherwise the place of the reason among all, from 1
    uint8_t has_detail;   // 1: a message in another ring belongs to it
    uint16_t zero;
};

static_assert(sizeof(TokenSlot) == 32);

inline constexpr int32_t kNoToken = -1;
inline constexpr uint8_t kNumFinishReasons = 5;

class TokenRing {
  public:
    static size_t bytes_for(size_t num_slots) { return sizeof(Positions) + num_slots * sizeof(TokenSlot); }

    TokenRing(void* memory, size_t num_bytes);

    size_t num_slots() const { return num_slots_; }
    size_t num_used() const { return positions_->used(num_slots_); }

    // The writer: `begin`, `append` as often as there is room, `publish`; until then nothing is seen.
    // begin: how many may be appended. Throws RingDamage.
    size_t begin();
    void append(TokenSlot slot);
    void publish();

    // The reader: a copy of the slot `ahead` of the next one, ahead < num_used(); then `drop` how many were taken.
    // Throws RingDamage.
    TokenSlot peek(size_t ahead) const;
    void drop(size_t count);

  private:
    Positions* positions_;
    TokenSlot* slots_;
    size_t num_slots_;
    uint64_t written_ = 0;
};

}  // namespace tailrace
