// Which experts are in memory, where not all are: a mixture says which ones its rows have chosen and waits for them;
// whoever fills them takes one after the other. Knows nothing of files, nor of how an expert is filled.
//
//   absent --choose--> wanted --take--> filling --done--> resident --(room is needed)--> absent
//   absent --foreseen--------------take--^   where the mixture behind is likely to choose it, and there is room
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "program/expert_plan.h"
#include "program/forecast.h"
#include "program/weights.h"

namespace tailrace {

// Since the beginning, but for the last two.
struct ResidencyCounts {
    uint64_t hits = 0;    // chosen, once for each mixture of a step, and there
    uint64_t misses = 0;  // chosen and not there
    uint64_t evictions = 0;
    uint64_t foreseen = 0;       // filled before anybody chose them
    uint64_t foreseen_hits = 0;  // of these, chosen before they had to go
    double waited_s = 0.0;       // steps, for what they had chosen
    uint64_t num_resident = 0;
    uint64_t resident_bytes = 0;
};

// An expert's place among all.
struct ExpertId {
    int mixture;
    int expert;
};

// What is resident or being filled takes `max_bytes` at most, or what one mixture has chosen in a step, if that is
// more.
class Residency {
  public:
    Residency(std::shared_ptr<Weights> weights, size_t max_bytes);
    Residency(const Residency&) = delete;
    Residency& operator=(const Residency&) = delete;

    // One more mixture, in the order in which they are computed, and of each expert the matrices; before anything runs.
    // Returns its number.
    int add(const std::vector<std::vector<int>>& experts);

    // Of who computes. A mixture's choice, while nobody computes with experts of another: they may go from now on.
    void choose(int mixture, const ExpertPlan& plan);
    // Until all that was chosen is resident, or nobody fills any more; whether that was not so yet.
    bool wait() const;
    // Why nobody fills any more; empty: all is well.
    std::string failure() const;

    // Of who fills, from any thread. Blocks until an expert is to be filled, and has memory for it; none after the end.
    std::optional<ExpertId> take();
    void done(ExpertId id);
    // It cannot be had. Who has chosen it fails, and all that come after; who is just foreseen may yet not be chosen.
    void fail(ExpertId id, const std::string& reason);
    // Nobody fills any more.
    void fail(const std::string& reason);
    void close();

    ResidencyCounts counts() const;

  private:
    enum class State : uint8_t { kAbsent, kWanted, kFilling, kResident };
    struct Expert {
        std::vector<int> matrices;
        size_t bytes = 0;
        State state = State::kAbsent;
        bool is_foreseen = false;   // filled ahead, and not chosen since
        bool has_failed = false;    // and is not filled ahead again
        uint64_t pinned = 0;        // when it was chosen last; time counts the choices of mixtures
        uint64_t used = 0;          // as that, but for choices of many experts, which tell nothing of the next
        uint64_t filled = 0;        // when
        uint64_t foreseen_for = 0;  // when it is likely to be chosen
    };
    struct Mixture {
        std::vector<Expert> experts;
        std::vector<int> chosen;  // in its last step
        std::vector<int> likely;  // to be chosen in this one, as far as anything is known
    };

    Expert& expert(ExpertId id) { return mixtures_[id.mixture].experts[id.expert]; }
    bool is_broad(const Mixture& mixture) const { return mixture.chosen.size() * 2 > mixture.experts.size(); }
    void touch(ExpertId id, bool is_broad);
    bool is_whole(const Mixture& mixture) const { return mixture.chosen.size() * 8 >= mixture.experts.size() * 7; }
    void judge(const Mixture& mixture);
    void foresee(int mixture);
    std::optional<ExpertId> next();
    bool make_room(size_t bytes, bool is_chosen);
    Expert* victim(bool is_chosen);
    void evict(Expert& expert);
    void forget(Expert& expert);
    void end(const std::string& failure);

    const std::shared_ptr<Weights> weights_;
    const size_t max_bytes_;
    mutable std::mutex mutex_;
    std::condition_variable news_;
    std::vector<Mixture> mixtures_;
    Forecast forecast_;
    double accuracy_ = 0.0;  // of forecasts, of late: how many of those that they named were chosen
    uint64_t now_ = 1;
    size_t bytes_ = 0;
    std::deque<ExpertId> wanted_;
    std::deque<ExpertId> foreseen_;
    std::atomic<int> num_missing_{0};
    std::chrono::steady_clock::time_point chosen_at_;
    bool is_over_ = false;
    std::string failure_;
    ResidencyCounts counts_;
};

}  // namespace tailrace
