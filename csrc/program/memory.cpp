#include "program/memory.h"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace tailrace {

Memory::Memory(size_t bytes) {
    if (bytes == 0) return;
    constexpr size_t kHugePage = size_t{2} << 20;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
    flags |= MAP_NORESERVE;
#endif
    // A little more than asked for, so that the part that is used starts at a huge page; the rest is never touched.
    const size_t padded = bytes >= kHugePage ? bytes + kHugePage : bytes;
    void* start = mmap(nullptr, padded, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (start == MAP_FAILED) throw std::bad_alloc();
    auto* first = static_cast<uint8_t*>(start);
    size_t skipped = 0;
    if (padded > bytes) {
        skipped = (kHugePage - reinterpret_cast<uintptr_t>(first) % kHugePage) % kHugePage;
        if (skipped > 0) munmap(first, skipped);
#ifdef MADV_HUGEPAGE
        madvise(first + skipped, bytes, MADV_HUGEPAGE);  // a wish: without it everything works, a little slower
#endif
    }
    data_ = first + skipped;
    size_ = padded - skipped;
}

Memory::~Memory() {
    if (data_) munmap(data_, size_);
}

Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

}  // namespace tailrace
