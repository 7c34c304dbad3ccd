// How an end that sleeps is woken. It costs a system call only while somebody sleeps.
//
//      0   rung u32      how often it was rung
//      4   is_asleep u32 1 while the reader wants to be woken
//
// Any number of ringers, one reader. A ringer counts up, then looks whether the reader sleeps; the reader says that it
// sleeps, then looks whether the count has grown: one of them sees the other, whatever the order.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tailrace {

struct BellWords {
    alignas(64) std::atomic<uint32_t> rung;
    std::atomic<uint32_t> is_asleep;

    // Whether the reader is to be woken: true for one ringer a sleep.
    bool count_ring() {
        rung.fetch_add(1);
        return is_asleep.load() != 0 && is_asleep.exchange(0) != 0;
    }
};

static_assert(sizeof(BellWords) == 64 && std::atomic<uint32_t>::is_always_lock_free);

using Deadline = std::optional<std::chrono::steady_clock::time_point>;

enum class Waited { kRung, kTimedOut, kAgain };

// What a reader knows of its bell; how it sleeps is told by who waits.
class BellReader {
  public:
    explicit BellReader(BellWords* words) : words_(words) {}

    // Whether it was rung since this was last true.
    bool take();
    // Says that the reader sleeps; false, and it does not, when it was rung meanwhile.
    bool arm();
    void disarm() { words_->is_asleep.store(0); }
    // Looks for it again and again until then, and sleeps not at all.
    bool spin(std::chrono::steady_clock::time_point end);
    uint32_t seen() const { return seen_; }

  private:
    BellWords* words_;
    uint32_t seen_ = 0;
};

// Through a file descriptor, for processes forked from the one that made it; an event loop may watch it.
class Bell {
  public:
    Bell();
    ~Bell();
    Bell(const Bell&) = delete;
    Bell& operator=(const Bell&) = delete;

    int fd() const { return read_fd_; }
    void ring();
    bool arm() { return reader_.arm(); }
    // Awake again: what was rung so far is known.
    void clear();
    bool spin(std::chrono::steady_clock::time_point end) { return reader_.spin(end); }
    // kAgain: by a signal, or by what was rung before; look at the time and wait again.
    Waited wait(Deadline deadline);

  private:
    void empty();

    BellWords* words_;
    BellReader reader_;
    int read_fd_, write_fd_;
};

// Through a word of memory that any two processes share. All zeros are a bell that was not rung.
class FutexBell {
  public:
    // Throws std::invalid_argument for memory that is too small or not at a multiple of 64 bytes.
    FutexBell(void* memory, size_t num_bytes);

    void ring();
    bool spin(std::chrono::steady_clock::time_point end) { return reader_.spin(end); }
    Waited wait(Deadline deadline);

  private:
    BellWords* words_;
    BellReader reader_;
};

}  // namespace tailrace
