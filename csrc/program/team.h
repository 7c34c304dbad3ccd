// Threads that run one step together. Between steps they sleep; within a step a barrier spins briefly, then sleeps.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace tailrace {

class Team {
  public:
    explicit Team(int num_threads);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int size() const { return num_threads_; }

    // Calls work(thread) on every thread, thread 0 being the caller; returns when all are done.
    void run(const std::function<void(int)>& work);

    // Inside work: waits for all threads. Afterwards claim() counts from 0 again.
    void barrier();

    // Inside work, between two barriers: the next piece of work nobody has taken yet.
    int claim() { return claimed_.fetch_add(1, std::memory_order_relaxed); }

  private:
    void serve(int thread);

    const int num_threads_;
    const std::function<void(int)>* work_ = nullptr;
    alignas(64) std::atomic<uint32_t> steps_{0};
    alignas(64) std::atomic<uint32_t> passes_{0};
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<int> claimed_{0};
    std::atomic<bool> is_closing_{false};
    std::vector<std::thread> threads_;
};

}  // namespace tailrace
