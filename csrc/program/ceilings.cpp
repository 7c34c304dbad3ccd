#include "program/ceilings.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>

#include "program/memory.h"
#include "program/team.h"
#include "simd/dispatch.h"

namespace tailrace {

namespace {

double seconds_of(Team& team, const std::function<void(int)>& work) {
    const auto started = std::chrono::steady_clock::now();
    team.run(work);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

}  // namespace

Ceilings measure_ceilings(Isa isa, int num_threads, size_t num_bytes) {
    constexpr int kTries = 15;
    constexpr int64_t kDots = 3'000'000;
    const Kernels& kernels = kernels_for(isa);
    Team team(num_threads);
    const Memory memory(num_bytes);
    const auto* floats = reinterpret_cast<float*>(memory.data());
    const size_t share = num_bytes / sizeof(float) / num_threads;
    std::fill_n(reinterpret_cast<float*>(memory.data()), share * num_threads, 1.0f);
    std::atomic<float> kept{0.0f};  // results that are used cannot be optimised away
    const auto read = [&](int thread) { kept = kernels.read_floats(floats + share * thread, share); };
    const auto dot = [&](int) { kept = static_cast<float>(kernels.dot_codes(kDots)); };
    double read_s = 1e9, dot_s = 1e9;
    for (int i = 0; i < kTries; ++i) {
        read_s = std::min(read_s, seconds_of(team, read));
        dot_s = std::min(dot_s, seconds_of(team, dot));
    }
    return {static_cast<double>(num_bytes) / read_s, 128.0 * static_cast<double>(kDots) * num_threads / dot_s};
}

}  // namespace tailrace
