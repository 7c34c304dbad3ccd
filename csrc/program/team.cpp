#include "program/team.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tailrace {

namespace {

void relax() {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

// Spins for a few microseconds: about as much as threads of one step differ. Spinning longer would keep the core from
// whoever waits for it, perhaps the very thread this one waits for: measured beside a busy process, 500 spins instead
// of 150 make a step of one row a third slower; on a quiet machine they change nothing.
void wait_while_equal(const std::atomic<uint32_t>& value, uint32_t old) {
    constexpr int kSpins = 150;
    for (int i = 0; i < kSpins; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
        relax();
    }
    value.wait(old, std::memory_order_acquire);
}

}  // namespace

Team::Team(int num_threads) : num_threads_(num_threads) {
    for (int thread = 1; thread < num_threads; ++thread) {
        threads_.emplace_back([this, thread] { serve(thread); });
    }
}

Team::~Team() {
    is_closing_.store(true, std::memory_order_relaxed);
    steps_.fetch_add(1, std::memory_order_release);
    steps_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void Team::run(const std::function<void(int)>& work) {
    work_ = &work;
    if (num_threads_ > 1) {
        steps_.fetch_add(1, std::memory_order_release);
        steps_.notify_all();
    }
    work(0);
    barrier();
}

void Team::serve(int thread) {
    for (uint32_t step = 0;; ++step) {
        wait_while_equal(steps_, step);
        if (is_closing_.load(std::memory_order_relaxed)) return;
        (*work_)(thread);
        barrier();
    }
}

void Team::barrier() {
    if (num_threads_ == 1) {
        claimed_.store(0, std::memory_order_relaxed);
        return;
    }
    const uint32_t pass = passes_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == num_threads_ - 1) {
        arrived_.store(0, std::memory_order_relaxed);
        claimed_.store(0, std::memory_order_relaxed);
        passes_.fetch_add(1, std::memory_order_release);
        passes_.notify_all();
        return;
    }
    wait_while_equal(passes_, pass);
}

}  // namespace tailrace
