#include "program/step_times.h"

#include <algorithm>

namespace tailrace {

namespace {

double seconds(StepTimes::Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

std::vector<StageTime> StepTimes::stages() const {
    std::vector<StageTime> times(num_stages_);
    auto last = began_;
    for (int stage = 0; stage < num_stages_; ++stage) {
        const Visit all = together(stage);
        if (all.ended < all.entered) continue;  // nobody was there
        const auto waited = std::min(all.waited, all.ended - all.entered);
        times[stage] = {seconds(all.entered - last), seconds(waited), seconds(all.ended - all.entered - waited)};
        last = all.ended;
    }
    return times;
}

// From when the first thread came until the last one was done, and the longest of their waits.
StepTimes::Visit StepTimes::together(int stage) const {
    Visit all;
    for (size_t i = stage; i < visits_.size(); i += num_stages_) {
        all.entered = std::min(all.entered, visits_[i].entered);
        all.ended = std::max(all.ended, visits_[i].ended);
        all.waited = std::max(all.waited, visits_[i].waited);
    }
    return all;
}

}  // namespace tailrace
