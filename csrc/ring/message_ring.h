// One writer, one reader, messages of any size up to half the ring.
//
//      0   head      bytes ever written
//     64   tail      bytes ever read
//    128   arena     `capacity` bytes, a multiple of 8; position p of the stream lies at p % capacity
//
//    a message, from a multiple of 8 on; its bytes may go on at the arena's start
//      0   mark u32 | length u32 | kind u32 | generation u32 | `length` bytes | up to 7 of padding
//
// The mark is made of the position, so that what is no message, or one of an earlier turn, is not taken for one.
#pragma once

#include <optional>

#include "ring/positions.h"

namespace tailrace {

struct Message {
    uint32_t length, kind, generation;
};

class MessageRing {
  public:
    static constexpr size_t kHeaderBytes = 16;
    static constexpr size_t kLeastCapacity = 64;

    static size_t bytes_for(size_t capacity) { return sizeof(Positions) + (capacity + 63) / 64 * 64; }

    MessageRing(void* memory, size_t num_bytes);

    size_t capacity() const { return capacity_; }
    size_t max_message_bytes() const { return capacity_ / 2; }
    size_t used_bytes() const { return positions_->used(capacity_); }

    // The writer: `begin`, `append` as many bytes as were announced, `publish`.
    // begin: false when there is no room now. Throws RingDamage.
    bool begin(const Message& message);
    void append(const void* bytes, size_t num_bytes);
    void publish();

    // The reader: `peek`, `copy`, `drop`. Throws RingDamage.
    std::optional<Message> peek() const;
    void copy(const Message& message, void* bytes) const;
    void drop(const Message& message);

  private:
    static size_t bytes_of(uint32_t length) { return kHeaderBytes + (static_cast<size_t>(length) + 7) / 8 * 8; }
    void write(uint64_t position, const void* bytes, size_t num_bytes);
    void read(uint64_t position, void* bytes, size_t num_bytes) const;

    Positions* positions_;
    uint8_t* arena_;
    size_t capacity_;
    uint64_t written_ = 0, end_ = 0;  // of the message that is being written
};

}  // namespace tailrace
