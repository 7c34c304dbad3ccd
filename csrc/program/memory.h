// Large memory straight from the system, zeroed or the bytes of a file; touched pages only are resident.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tailrace {

class Memory {
  public:
    Memory() = default;
    // This process's own, in huge pages where the system gives them. Throws std::bad_alloc.
    explicit Memory(size_t bytes);
    // This process's own, in pages as small as they come, so that as little as one can be given back.
    static Memory of_small_pages(size_t bytes);
    // Also of the processes that are forked from here on: what one writes, all see.
    static Memory shared(size_t bytes);
    // The first bytes of a file, which has to be as long, for reading or for writing it too.
    static Memory of_file(int file, size_t bytes, bool is_writable);
    ~Memory();
    Memory(Memory&& other) noexcept;
    Memory& operator=(Memory&& other) noexcept;

    uint8_t* data() const { return data_; }
    size_t size() const { return size_; }
    // What the system gives at a time, if it does what it was asked for. The memory begins with a whole page.
    size_t page_bytes() const { return page_bytes_; }

    // Makes bytes [begin, end) resident; they keep what they hold. Throws std::bad_alloc.
    void populate(size_t begin, size_t end);
    // Maps what is there into this process at once, rather than page by page as it is touched; where the system can.
    void map_in() const;
    // Gives back the whole pages within [begin, end): they are zero when they are touched again.
    void release(size_t begin, size_t end);
    size_t resident_bytes() const;

  private:
    static Memory mapped(size_t bytes, int protection, int flags, int file);

    uint8_t* data_ = nullptr;
    size_t size_ = 0;
    size_t page_bytes_ = 1;
};

}  // namespace tailrace
