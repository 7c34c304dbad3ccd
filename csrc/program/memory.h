// Large zeroed memory straight from the system, in huge pages where it gives them; touched pages only are resident.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tailrace {

class Memory {
  public:
    Memory() = default;
    // Throws std::bad_alloc.
    explicit Memory(size_t bytes);
    ~Memory();
    Memory(Memory&& other) noexcept;
    Memory& operator=(Memory&& other) noexcept;

    uint8_t* data() const { return data_; }
    size_t size() const { return size_; }
    // What the system gives at a time, if it does what it was asked for. The memory begins with a whole page.
    size_t page_bytes() const { return page_bytes_; }

    // Makes bytes [begin, end) resident; they keep what they hold. Throws std::bad_alloc.
    void populate(size_t begin, size_t end);
    // Gives back the whole pages within [begin, end): they are zero when they are touched again.
    void release(size_t begin, size_t end);
    size_t resident_bytes() const;

  private:
    uint8_t* data_ = nullptr;
    size_t size_ = 0;
    size_t page_bytes_ = 1;
};

}  // namespace tailrace
