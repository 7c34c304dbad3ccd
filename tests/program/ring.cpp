// Rings and bells: first writers that are killed between any two calls of a write, then a writer and a reader on two
// threads that look again and again, or sleep when there is nothing to do, under the thread sanitizer.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ring/bell.h"
#include "ring/message_ring.h"
#include "ring/token_ring.h"

namespace {

using namespace tailrace;

constexpr uint32_t kMessages = 20'000;
constexpr uint32_t kTokens = 60'000;

void require(bool condition, const char* message) {
    if (condition) return;
    std::printf("wrong: %s\n", message);
    std::exit(1);
}

class Shared {
  public:
    explicit Shared(size_t num_bytes)
        : num_bytes_(num_bytes),
          memory_(mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
        require(memory_ != MAP_FAILED, "memory is there");
    }
    ~Shared() { munmap(memory_, num_bytes_); }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;

    void* data() const { return memory_; }
    size_t num_bytes() const { return num_bytes_; }

  private:
    size_t num_bytes_;
    void* memory_;
};

std::string text_of(uint32_t index) { return std::string(index * 31 % 200, static_cast<char>('a' + index % 26)); }

void send(MessageRing& ring, uint32_t index, int num_calls) {
    const std::string text = text_of(index);
    if (num_calls-- == 0 || !ring.begin({static_cast<uint32_t>(text.size()), index, 1})) return;
    if (num_calls-- == 0) return;
    ring.append(text.data(), text.size() / 2);
    if (num_calls-- == 0) return;
    ring.append(text.data() + text.size() / 2, text.size() - text.size() / 2);
    if (num_calls-- == 0) return;
    ring.publish();
}

constexpr int kAllCalls = 4;

std::optional<uint32_t> receive(MessageRing& ring) {
    const std::optional<Message> message = ring.peek();
    if (!message) return std::nullopt;
    std::string text(message->length, ' ');
    ring.copy(*message, text.data());
    require(message->generation == 1 && text == text_of(message->kind), "a message is whole");
    ring.drop(*message);
    return message->kind;
}

template <class Work>
void run_and_die(const Work& work) {
    const pid_t child = fork();
    require(child >= 0, "a process starts");
    if (child == 0) {
        work();
        kill(getpid(), SIGKILL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    require(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
            "the writer was killed and nothing else happened to it");
}

void check_killed_writers() {
    Shared memory(MessageRing::bytes_for(512));
    MessageRing ring(memory.data(), memory.num_bytes());
    for (uint32_t index = 0; index < 60; ++index) {
        for (int num_calls = 0; num_calls < kAllCalls; ++num_calls) {
            run_and_die([&] { send(ring, index, num_calls); });
            require(!receive(ring), "of a message that was not finished nothing is seen");
        }
        run_and_die([&] { send(ring, index, kAllCalls); });
        require(receive(ring) == index, "the next writer goes on");
    }
}

void check_killed_batches() {
    Shared memory(TokenRing::bytes_for(16));
    TokenRing ring(memory.data(), memory.num_bytes());
    for (uint32_t index = 0; index < 60; ++index) {
        const auto push = [&] {
            require(ring.begin() == 16, "there is room");
            ring.append({index, 1, 0.5f, 1, 1, 0, 0, 0, 0});
        };
        run_and_die(push);
        require(ring.num_used() == 0, "of a batch that was not finished nothing is seen");
        push();
        ring.publish();
        require(ring.num_used() == 1 && ring.peek(0).number == index, "the next writer goes on");
        ring.drop(1);
    }
}

// For ends that look again and again: nothing orders them but the ring.
struct NoBell {
    void ring() {}
    Waited wait(Deadline) {
        std::this_thread::yield();
        return Waited::kRung;
    }
};

template <class AnyBell>
void wait(AnyBell& bell) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    Waited waited;
    while ((waited = bell.wait(end)) == Waited::kAgain) {
    }
    require(waited == Waited::kRung, "a bell that was rung wakes");
}

// `filled` is rung by the writer, `drained` by the reader.
template <class AnyBell>
void check_messages(AnyBell& filled, AnyBell& drained) {
    Shared memory(MessageRing::bytes_for(1000));
    MessageRing written(memory.data(), memory.num_bytes()), read(memory.data(), memory.num_bytes());
    std::thread writer([&] {
        for (uint32_t index = 0; index < kMessages; ++index) {
            while (written.capacity() - written.used_bytes() < text_of(index).size() + 24) wait(drained);
            send(written, index, kAllCalls);
            filled.ring();
        }
    });
    for (uint32_t next = 0; next < kMessages;) {
        wait(filled);
        while (const std::optional<uint32_t> index = receive(read)) require(*index == next++, "messages are in order");
        drained.ring();
    }
    writer.join();
}

template <class AnyBell>
void check_tokens(AnyBell& filled, AnyBell& drained) {
    Shared memory(TokenRing::bytes_for(100));
    TokenRing written(memory.data(), memory.num_bytes()), read(memory.data(), memory.num_bytes());
    std::thread writer([&] {
        std::mt19937 random(3);
        for (uint32_t next = 0; next < kTokens;) {
            size_t room;
            while ((room = written.begin()) == 0) wait(drained);
            for (size_t left = std::min<size_t>(room, 1 + random() % 40); left > 0 && next < kTokens; --left) {
                written.append({next, static_cast<int32_t>(next), 0, next, 1, 0, 0, 0, 0});
                ++next;
            }
            written.publish();
            filled.ring();
        }
    });
    for (uint32_t next = 0; next < kTokens;) {
        wait(filled);
        const size_t count = read.num_used();
        for (size_t i = 0; i < count; ++i) {
            const TokenSlot slot = read.peek(i);
            require(slot.number == next && slot.position == next, "tokens are in order");
            ++next;
        }
        read.drop(count);
        drained.ring();
    }
    writer.join();
}

}  // namespace

int main() {
    check_killed_writers();
    check_killed_batches();

    NoBell no_bell;
    check_messages(no_bell, no_bell);
    check_tokens(no_bell, no_bell);

    Bell filled, drained;
    check_messages(filled, drained);
    check_tokens(filled, drained);

    Shared words(2 * sizeof(BellWords));
    FutexBell futex_filled(words.data(), sizeof(BellWords));
    FutexBell futex_drained(static_cast<BellWords*>(words.data()) + 1, sizeof(BellWords));
    check_messages(futex_filled, futex_drained);
    check_tokens(futex_filled, futex_drained);
    std::printf("all of %u messages and %u tokens\n", kMessages, kTokens);
}
