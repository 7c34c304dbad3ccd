#include "program/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <new>
#include <utility>
#include <vector>

#if defined(__linux__) && !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23  // since Linux 5.14
#endif

namespace tailrace {

namespace {

size_t system_page() {
    static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

// Whether the kernel knows how; throws when it does but has no memory.
bool populate_at_once([[maybe_unused]] uint8_t* first, [[maybe_unused]] size_t bytes) {
#ifdef MADV_POPULATE_WRITE
    while (madvise(first, bytes, MADV_POPULATE_WRITE) != 0) {
        if (errno == EINVAL) return false;
        if (errno != EINTR && errno != EAGAIN) throw std::bad_alloc();
    }
    return true;
#else
    return false;
#endif
}

}  // namespace

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
    page_bytes_ = system_page();
    if (padded > bytes) {
        skipped = (kHugePage - reinterpret_cast<uintptr_t>(first) % kHugePage) % kHugePage;
        if (skipped > 0) munmap(first, skipped);
#ifdef MADV_HUGEPAGE
        // A wish: without it everything works, a little slower.
        if (madvise(first + skipped, bytes, MADV_HUGEPAGE) == 0) page_bytes_ = kHugePage;
#endif
    }
    data_ = first + skipped;
    size_ = padded - skipped;
}

Memory Memory::of_small_pages(size_t bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
    flags |= MAP_NORESERVE;
#endif
    return mapped(bytes, PROT_READ | PROT_WRITE, flags, -1);
}

Memory Memory::shared(size_t bytes) {
    Memory memory = mapped(bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
#ifdef MADV_HUGEPAGE
    madvise(memory.data_, memory.size_, MADV_HUGEPAGE);  // a wish, which few systems grant to shared memory
#endif
    return memory;
}

Memory Memory::of_file(int file, size_t bytes, bool is_writable) {
    return mapped(bytes, is_writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file);
}

Memory Memory::mapped(size_t bytes, int protection, int flags, int file) {
    void* start = mmap(nullptr, bytes, protection, flags, file, 0);
    if (start == MAP_FAILED) throw std::bad_alloc();
    Memory memory;
    memory.data_ = static_cast<uint8_t*>(start);
    memory.size_ = bytes;
    memory.page_bytes_ = system_page();
    return memory;
}

Memory::~Memory() {
    if (data_) munmap(data_, size_);
}

Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      page_bytes_(std::exchange(other.page_bytes_, 1)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(page_bytes_, other.page_bytes_);
    return *this;
}

void Memory::populate(size_t begin, size_t end) {
    const size_t page = system_page();
    begin = begin / page * page;
    end = std::min((end + page - 1) / page * page, size_);
    if (begin >= end || populate_at_once(data_ + begin, end - begin)) return;
    for (size_t at = begin; at < end; at += page) {
        // A write that changes nothing, since others may write to the rest of the page meanwhile.
        std::atomic_ref<uint8_t>(data_[at]).fetch_or(0, std::memory_order_relaxed);
    }
}

void Memory::map_in() const {
#ifdef __linux__
    constexpr int kPopulateRead = 22;  // since Linux 5.14; without it everything works, a little slower at first
    madvise(data_, size_, kPopulateRead);
#endif
}

void Memory::release(size_t begin, size_t end) {
    begin = (begin + page_bytes_ - 1) / page_bytes_ * page_bytes_;
    if (end < size_) end = end / page_bytes_ * page_bytes_;  // else nothing follows
    if (begin < end) madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

size_t Memory::resident_bytes() const {
    constexpr size_t kPages = 4096;  // looked at together
    const size_t page = system_page();
#ifdef __linux__
    std::vector<unsigned char> is_resident(kPages);
#else
    std::vector<char> is_resident(kPages);
#endif
    size_t pages = 0;
    for (size_t begin = 0; begin < size_; begin += kPages * page) {
        const size_t bytes = std::min(kPages * page, size_ - begin);
        if (mincore(data_ + begin, bytes, is_resident.data()) != 0) continue;
        for (size_t i = 0; i < (bytes + page - 1) / page; ++i) pages += is_resident[i] & 1;
    }
    return pages * page;
}

}  // namespace tailrace
