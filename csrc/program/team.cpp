#include "program/team.h"

#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tailrace {

namespace {

constexpr uint64_t kNoPiece = std::numeric_limits<int>::max();  // stands behind the last piece of any step

void relax() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");  // about as long; its own yield takes no time on most processors
#endif
}

// Spins for a few microseconds: about as much as threads of one step differ. Spinning longer would keep the core from
// whoever waits for it, perhaps the very thread this one waits for: measured beside a busy process, 500 spins instead
// of 150 make a step of one row a third slower; on a quiet machine they change nothing.
template <class Value, class Until>
void wait_until(const std::atomic<Value>& value, Until until) {
    constexpr int kSpins = 150;
    for (int i = 0; i < kSpins; ++i) {
        if (until(value.load(std::memory_order_acquire))) return;
        relax();
    }
    for (Value seen = value.load(std::memory_order_acquire); !until(seen);
         seen = value.load(std::memory_order_acquire)) {
        value.wait(seen, std::memory_order_acquire);
    }
}

}  // namespace

Team::Team(int num_threads, int num_stages)
    : num_threads_(num_threads), num_stages_(num_stages), ends_(new std::atomic<int>[num_stages]()) {
    try {
        for (int thread = 1; thread < num_threads; ++thread) {
            threads_.emplace_back([this, thread] { serve(thread); });
        }
    } catch (...) {
        close();
        throw;
    }
}

Team::~Team() { close(); }

void Team::close() {
    if (getpid() != process_) {  // forked: the threads have stayed behind, so nobody would ever be joined
        new std::vector<std::thread>(std::move(threads_));  // never destroyed, which ends a process that did not join
        return;
    }
    is_closing_.store(true, std::memory_order_relaxed);
    steps_.fetch_add(1, std::memory_order_release);
    steps_.notify_all();
    // A late thread may still sleep in a step that is over, because as many pieces are done now as were when it looked.
    num_done_.store(std::numeric_limits<int>::max(), std::memory_order_seq_cst);
    num_done_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void Team::run(Work& work, const std::vector<int>& counts) {
    const uint32_t step = steps_.load(std::memory_order_relaxed) + 1;
    const uint64_t first = static_cast<uint64_t>(step) << 32;
    // Before anything of the new step is there to be seen: a late thread that has looked at the number behind the last
    // piece of the old step would else find that the new one has such a piece, and take it.
    next_.store(first | kNoPiece, std::memory_order_relaxed);
    work_ = &work;
    int end = 0;
    for (int stage = 0; stage < num_stages_; ++stage) {
        end += counts[stage];
        ends_[stage].store(end, std::memory_order_release);
    }
    num_pieces_.store(end, std::memory_order_release);
    num_done_.store(0, std::memory_order_release);
    next_.store(first, std::memory_order_release);
    steps_.store(step, std::memory_order_release);
    steps_.notify_all();
    take_part(0);
    wait_until(num_done_, [end](int done) { return done == end; });
}

void Team::serve(int thread) {
    for (uint32_t seen = 0;;) {
        wait_until(steps_, [seen](uint32_t step) { return step != seen; });
        // In this order: who has seen the number that the destructor counts up to also sees why.
        seen = steps_.load(std::memory_order_acquire);
        if (is_closing_.load(std::memory_order_relaxed)) return;
        take_part(thread);
    }
}

void Team::take_part(int thread) {
    uint64_t step = 0;
    int stage = 0, entered = -1;
    for (uint64_t ticket = next_.load(std::memory_order_acquire);;) {
        if (ticket >> 32 != step) {
            step = ticket >> 32;
            stage = 0;
            entered = -1;
        }
        const int number = static_cast<int>(ticket & 0xffffffff);
        // Who sees anything of a later step sees that the ticket is of an earlier one, and does not get the piece.
        if (number >= num_pieces_.load(std::memory_order_acquire)) return;
        while (stage < num_stages_ - 1 && ends_[stage].load(std::memory_order_acquire) <= number) ++stage;
        const int begin = stage > 0 ? ends_[stage - 1].load(std::memory_order_acquire) : 0;
        if (num_done_.load(std::memory_order_acquire) < begin) {
            // Not taken yet: whoever is awake when the stage may begin shall have the piece.
            wait_until(num_done_, [this, begin, step](int done) {
                return done >= begin || next_.load(std::memory_order_relaxed) >> 32 != step;
            });
            ticket = next_.load(std::memory_order_acquire);
            continue;
        }
        if (!next_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
            continue;
        }
        if (entered != stage) work_->enter(thread, stage);
        entered = stage;
        work_->run(thread, stage, number - begin);
        const int end = ends_[stage].load(std::memory_order_relaxed);
        // With its last piece a step may be over, and all that belongs to it gone: from here on only the team's own.
        if (num_done_.fetch_add(1, std::memory_order_acq_rel) + 1 == end) num_done_.notify_all();
        ticket = next_.load(std::memory_order_acquire);
    }
}

}  // namespace tailrace
