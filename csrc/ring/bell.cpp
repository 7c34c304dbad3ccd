#include "ring/bell.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#endif

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tailrace {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLooksPerClock = 32;

void relax() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

[[noreturn]] void fail(const char* operation) { throw std::system_error(errno, std::generic_category(), operation); }

BellWords* shared_words() {
    void* memory = mmap(nullptr, sizeof(BellWords), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    return static_cast<BellWords*>(memory);
}

#if defined(__linux__)

std::pair<int, int> wake_fds() {
    const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0) fail("eventfd");
    return {fd, fd};
}

#else

std::pair<int, int> wake_fds() {
    int fds[2];
    if (pipe(fds) < 0) fail("pipe");
    for (int fd : fds) {
        fcntl(fd, F_SETFL, O_NONBLOCK);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    return {fds[0], fds[1]};
}

#endif

// Until then; nothing for a time that has passed.
std::chrono::nanoseconds left_until(Clock::time_point end) {
    return std::max(std::chrono::nanoseconds(end - Clock::now()), std::chrono::nanoseconds(0));
}

timespec timespec_of(std::chrono::nanoseconds time) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
    return {static_cast<time_t>(seconds.count()), static_cast<long>((time - seconds).count())};
}

}  // namespace

bool BellReader::take() {
    const uint32_t rung = words_->rung.load();
    return std::exchange(seen_, rung) != rung;
}

bool BellReader::arm() {
    words_->is_asleep.store(1);
    if (!take()) return true;
    disarm();
    return false;
}

bool BellReader::spin(Clock::time_point end) {
    do {
        for (int i = 0; i < kLooksPerClock; ++i) {
            if (take()) return true;
            relax();
        }
    } while (Clock::now() < end);
    return false;
}

Bell::Bell() : words_(shared_words()), reader_(words_) {
    try {
        std::tie(read_fd_, write_fd_) = wake_fds();
    } catch (...) {
        munmap(words_, sizeof(BellWords));
        throw;
    }
}

Bell::~Bell() {
    if (write_fd_ != read_fd_) close(write_fd_);
    close(read_fd_);
    munmap(words_, sizeof(BellWords));
}

void Bell::ring() {
    if (!words_->count_ring()) return;
    const uint64_t one = 1;
    // It fails when there is more to be read already than the descriptor can hold, which wakes as well.
    [[maybe_unused]] const ssize_t written = write(write_fd_, &one, sizeof one);
}

void Bell::clear() {
    empty();
    reader_.disarm();
    reader_.take();
}

void Bell::empty() {
    uint64_t count;
    while (read(read_fd_, &count, sizeof count) > 0 && write_fd_ != read_fd_) {
    }
}

Waited Bell::wait(Deadline deadline) {
    if (reader_.take() || !reader_.arm()) return Waited::kRung;
    pollfd polled{read_fd_, POLLIN, 0};
    int woken;
#if defined(__linux__)
    const timespec left = timespec_of(left_until(deadline.value_or(Clock::time_point())));
    woken = ppoll(&polled, 1, deadline ? &left : nullptr, nullptr);
#else
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(left_until(deadline.value_or(Clock::time_point())));
    woken = poll(&polled, 1, deadline ? static_cast<int>(left.count()) : -1);
#endif
    if (woken > 0) empty();
    reader_.disarm();
    if (reader_.take()) return Waited::kRung;
    return woken == 0 ? Waited::kTimedOut : Waited::kAgain;
}

FutexBell::FutexBell(void* memory, size_t num_bytes) : words_(static_cast<BellWords*>(memory)), reader_(words_) {
    if (num_bytes < sizeof(BellWords) || reinterpret_cast<uintptr_t>(memory) % alignof(BellWords) != 0) {
        throw std::invalid_argument("a bell needs 64 bytes of memory, from a multiple of 64 bytes on");
    }
}

#if defined(__linux__)

void FutexBell::ring() {
    if (words_->count_ring()) syscall(SYS_futex, &words_->rung, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

Waited FutexBell::wait(Deadline deadline) {
    if (reader_.take() || !reader_.arm()) return Waited::kRung;
    const timespec left = timespec_of(left_until(deadline.value_or(Clock::time_point())));
    const long woken =
        syscall(SYS_futex, &words_->rung, FUTEX_WAIT, reader_.seen(), deadline ? &left : nullptr, nullptr, 0);
    const bool is_late = woken < 0 && errno == ETIMEDOUT;
    reader_.disarm();
    if (reader_.take()) return Waited::kRung;
    return is_late ? Waited::kTimedOut : Waited::kAgain;
}

#else

void FutexBell::ring() { words_->count_ring(); }

// Without a futex that processes share: looks again from time to time.
Waited FutexBell::wait(Deadline deadline) {
    constexpr std::chrono::nanoseconds kPause = std::chrono::milliseconds(1);
    if (reader_.take()) return Waited::kRung;
    const timespec pause = timespec_of(deadline ? std::min(kPause, left_until(*deadline)) : kPause);
    nanosleep(&pause, nullptr);
    if (reader_.take()) return Waited::kRung;
    return deadline && Clock::now() >= *deadline ? Waited::kTimedOut : Waited::kAgain;
}

#endif

}  // namespace tailrace
