// Threads that carry out one step together. The work of a step is cut into stages, and those into pieces; all pieces
// have one running number, and whoever is free takes the next.
//
// Nobody waits for a thread, only for pieces: a stage begins when the pieces of the stages before it are done, whoever
// did them. A thread that the system keeps from running between two pieces holds up no one, which matters where the
// cores are shared with those that read and write the streams.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace tailrace {

// What a team works on.
class Work {
  public:
    virtual ~Work() = default;
    // Before this thread's first piece of a stage; everything up to the stage before is done.
    virtual void enter(int /*thread*/, int /*stage*/) {}
    virtual void run(int thread, int stage, int piece) = 0;
};

class Team {
  public:
    // Throws std::system_error when the system gives no more threads.
    Team(int num_threads, int num_stages);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int size() const { return num_threads_; }

    // Runs counts[stage] pieces of each stage on all threads, thread 0 being the caller; returns when all are done.
    void run(Work& work, const std::vector<int>& counts);

  private:
    void serve(int thread);
    void take_part(int thread);
    void close();

    const int num_threads_;
    const int num_stages_;
    Work* work_ = nullptr;
    // Read by threads that may be late, and still in a step that is over: what they find is then of no consequence.
    std::unique_ptr<std::atomic<int>[]> ends_;  // of each stage, the number of its last piece plus one
    std::atomic<int> num_pieces_{0};
    alignas(64) std::atomic<uint32_t> steps_{0};
    // The step in the upper half, the number of the next piece in the lower one: a late thread cannot take a piece of
    // a step it has not looked at.
    alignas(64) std::atomic<uint64_t> next_{0};
    alignas(64) std::atomic<int> num_done_{0};
    std::atomic<bool> is_closing_{false};
    const pid_t process_ = getpid();
    std::vector<std::thread> threads_;
};

}  // namespace tailrace
