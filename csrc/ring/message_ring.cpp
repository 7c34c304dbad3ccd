#include "ring/message_ring.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace tailrace {

namespace {

struct Header {
    uint32_t mark, length, kind, generation;
};

static_assert(sizeof(Header) == MessageRing::kHeaderBytes);

uint32_t mark_of(uint64_t position) { return static_cast<uint32_t>(position / 8) ^ 0x7461696c; }

[[noreturn]] void fail(uint64_t position, const char* reason) {
    throw RingDamage("no message lies at position " + std::to_string(position) + ": " + reason);
}

}  // namespace

MessageRing::MessageRing(void* memory, size_t num_bytes)
    : positions_(positions_at(memory, num_bytes, bytes_for(kLeastCapacity))),
      arena_(static_cast<uint8_t*>(memory) + sizeof(Positions)),
      capacity_((num_bytes - sizeof(Positions)) / 8 * 8) {}

bool MessageRing::begin(const Message& message) {
    const size_t needed = bytes_of(message.length);
    if (capacity_ - used_bytes() < needed) return false;
    written_ = positions_->head.load(std::memory_order_relaxed);
    if (written_ % 8 != 0) fail(written_, "none begins there");
    end_ = written_ + needed;
    const Header header{mark_of(written_), message.length, message.kind, message.generation};
    append(&header, sizeof header);
    return true;
}

void MessageRing::append(const void* bytes, size_t num_bytes) {
    write(written_, bytes, num_bytes);
    written_ += num_bytes;
}

void MessageRing::publish() { positions_->head.store(end_, std::memory_order_release); }

std::optional<Message> MessageRing::peek() const {
    const size_t used = used_bytes();
    if (used == 0) return std::nullopt;
    const uint64_t position = positions_->tail.load(std::memory_order_relaxed);
    if (position % 8 != 0 || used < kHeaderBytes) fail(position, "none begins there");
    Header header;
    read(position, &header, sizeof header);
    copied();
    if (header.mark != mark_of(position)) fail(position, "its mark is wrong");
    if (header.length > max_message_bytes() || bytes_of(header.length) > used) fail(position, "it is too long");
    return Message{header.length, header.kind, header.generation};
}

void MessageRing::copy(const Message& message, void* bytes) const {
    read(positions_->tail.load(std::memory_order_relaxed) + kHeaderBytes, bytes, message.length);
}

void MessageRing::drop(const Message& message) {
    const uint64_t position = positions_->tail.load(std::memory_order_relaxed);
    positions_->tail.store(position + bytes_of(message.length), std::memory_order_release);
}

void MessageRing::write(uint64_t position, const void* bytes, size_t num_bytes) {
    const size_t at = position % capacity_, first = std::min(num_bytes, capacity_ - at);
    if (first > 0) std::memcpy(arena_ + at, bytes, first);
    if (num_bytes > first) std::memcpy(arena_, static_cast<const uint8_t*>(bytes) + first, num_bytes - first);
}

void MessageRing::read(uint64_t position, void* bytes, size_t num_bytes) const {
    const size_t at = position % capacity_, first = std::min(num_bytes, capacity_ - at);
    if (first > 0) std::memcpy(bytes, arena_ + at, first);
    if (num_bytes > first) std::memcpy(static_cast<uint8_t*>(bytes) + first, arena_, num_bytes - first);
}

}  // namespace tailrace
