// Where the time of one step went, stage by stage, as its threads tell. Made for the few steps that are timed.
#pragma once

#include <chrono>
#include <vector>

namespace tailrace {

// What a stage took of the step's time, in seconds. One behind the other these add up to the step, but for its end.
struct StageTime {
    double before = 0.0;  // since the stage before it was done, while no thread was in any
    double waited = 0.0;  // for weights, experts or masks: as long as the thread that waited longest
    double busy = 0.0;    // the rest, until its last piece was done
};

class StepTimes {
  public:
    using Clock = std::chrono::steady_clock;

    // The step begins now.
    StepTimes(int num_threads, int num_stages)
        : num_stages_(num_stages), began_(Clock::now()), visits_(static_cast<size_t>(num_threads) * num_stages) {}

    // Each is called by the thread itself: before its first piece of a stage, when it has waited since then or for some
    // time, and after each of its pieces.
    void enter(int thread, int stage) { visit(thread, stage).entered = Clock::now(); }
    void wait(int thread, int stage) { wait(thread, stage, Clock::now() - visit(thread, stage).entered); }
    void wait(int thread, int stage, Clock::duration time) { visit(thread, stage).waited += time; }
    void end(int thread, int stage) { visit(thread, stage).ended = Clock::now(); }

    // Of each stage, once the step is done. What has no pieces of its own was done with the stage behind it: it took
    // no time.
    std::vector<StageTime> stages() const;

  private:
    struct Visit {
        Clock::time_point entered = Clock::time_point::max();
        Clock::time_point ended = Clock::time_point::min();
        Clock::duration waited{0};
    };

    Visit& visit(int thread, int stage) { return visits_[static_cast<size_t>(thread) * num_stages_ + stage]; }
    Visit together(int stage) const;

    int num_stages_;
    Clock::time_point began_;
    std::vector<Visit> visits_;  // [threads][stages]
};

}  // namespace tailrace
