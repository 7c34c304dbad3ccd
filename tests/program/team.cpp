// Random steps on a team of as many threads as the first argument says, more than there are cores or fewer.
//
// Every piece must run once, and see all that the stage before it wrote. What a step works on lives no longer than the
// step: whoever touches it later reads memory that is gone, which the sanitizer reports.
#include "program/team.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>

namespace {

constexpr int kStages = 24;
constexpr int kMostPieces = 7;
constexpr int kSteps = 2000;
constexpr int kMoments = 60000;

class Trial final : public tailrace::Work {
  public:
    explicit Trial(const std::vector<int>& counts)
        : counts_(counts), written_(kStages, std::vector<int>(kMostPieces, 0)) {}

    bool is_complete() const {
        for (int stage = 0; stage < kStages; ++stage) {
            for (int piece = 0; piece < kMostPieces; ++piece) {
                if (written_[stage][piece] != (piece < counts_[stage] ? 1 : 0)) return false;
            }
        }
        return num_wrong_.load() == 0;
    }

  private:
    void enter(int, int stage) override { look_back(stage); }

    void run(int, int stage, int piece) override {
        look_back(stage);
        ++written_[stage][piece];
    }

    void look_back(int stage) {
        for (int before = stage - 1; before >= 0; --before) {
            for (int piece = 0; piece < counts_[before]; ++piece) num_wrong_ += written_[before][piece] != 1;
        }
    }

    const std::vector<int> counts_;
    std::vector<std::vector<int>> written_;  // how often each piece ran
    std::atomic<int> num_wrong_{0};
};

// Steps so short that threads come late to nearly each. Whoever takes a piece that is not of its step is counted; a
// step of which too many pieces are done never ends.
class Moment final : public tailrace::Work {
  public:
    int num_runs() const { return num_runs_.load(); }

  private:
    void run(int, int, int) override { ++num_runs_; }

    std::atomic<int> num_runs_{0};
};

bool run_moments(int num_threads, int num_stages, std::mt19937& random) {
    tailrace::Team team(num_threads, num_stages);
    for (int step = 0; step < kMoments; ++step) {
        std::vector<int> counts(num_stages);
        int num_pieces = 0;
        for (int& count : counts) num_pieces += count = static_cast<int>(1 + random() % 3);
        Moment moment;
        team.run(moment, counts);
        if (moment.num_runs() != num_pieces) {
            std::printf("moment %d on %d threads went wrong\n", step, num_threads);
            return false;
        }
    }
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    const int num_threads = argc > 1 ? std::atoi(argv[1]) : 2;
    std::mt19937 random(7);
    tailrace::Team team(num_threads, kStages);
    for (int step = 0; step < kSteps; ++step) {
        std::vector<int> counts(kStages);
        for (int& count : counts) count = random() % 3 == 0 ? 0 : static_cast<int>(random() % (kMostPieces + 1));
        auto trial = std::make_unique<Trial>(counts);
        team.run(*trial, counts);
        if (!trial->is_complete()) {
            std::printf("step %d on %d threads went wrong\n", step, num_threads);
            return 1;
        }
    }
    if (!run_moments(num_threads, 1, random) || !run_moments(num_threads, 2, random)) return 1;
    std::printf("%d steps on %d threads\n", kSteps, num_threads);
}
