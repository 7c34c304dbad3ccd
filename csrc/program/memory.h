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

  private:
    uint8_t* data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace tailrace
