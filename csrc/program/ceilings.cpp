#include "program/ceilings.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <vector>

#include "program/memory.h"
#include "program/team.h"
#include "simd/dispatch.h"

namespace tailrace {

namespace {

// One piece for each thread.
class Timed final : public Work {
  public:
    explicit Timed(int num_threads) : team_(num_threads, 1), counts_{num_threads} {}

    double seconds_of(const std::function<void(int)>& work) {
        work_ = &work;
        const auto started = std::chrono::steady_clock::now();
        team_.run(*this, counts_);
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    }

  private:
    void run(int, int, int piece) override { (*work_)(piece); }

    Team team_;
    const std::vector<int> counts_;
    const std::function<void(int)>* work_ = nullptr;
};

}  // namespace

Ceilings measure_ceilings(Isa isa, int num_threads, size_t num_bytes) {
    constexpr int kTries = 15;
    constexpr int64_t kDots = 3'000'000;
    const Kernels& kernels = kernels_for(isa);
    Timed timed(num_threads);
    const Memory memory(num_bytes);
    const auto* floats = reinterpret_cast<float*>(memory.data());
    const size_t share = num_bytes / sizeof(float) / num_threads;
    std::fill_n(reinterpret_cast<float*>(memory.data()), share * num_threads, 1.0f);
    std::atomic<float> kept{0.0f};  // results that are used cannot be optimised away
    const std::function<void(int)> read = [&](int part) { kept = kernels.read_floats(floats + share * part, share); };
    const std::function<void(int)> dot = [&](int) { kept = static_cast<float>(kernels.dot_codes(kDots)); };
    double read_s = 1e9, dot_s = 1e9;
    for (int i = 0; i < kTries; ++i) {
        read_s = std::min(read_s, timed.seconds_of(read));
        dot_s = std::min(dot_s, timed.seconds_of(dot));
    }
    return {static_cast<double>(num_bytes) / read_s, 128.0 * static_cast<double>(kDots) * num_threads / dot_s};
}

}  // namespace tailrace
