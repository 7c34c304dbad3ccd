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
    std::printf("%d steps on %d threads\n", kSteps, num_threads);
}
