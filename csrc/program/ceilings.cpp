#include "program/ceilings.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "simd/dispatch.h"

namespace tailrace {

namespace {

constexpr size_t kLeastBytes = 32 << 20;  // that a thread reads in a try: many times as long as it takes to wake it
constexpr int64_t kRound = 6144;  // a multiple of what any instruction set does in a loop, in units of 16 products

std::atomic<float> kept{0.0f};  // results that are used cannot be optimised away

int64_t rounded_up(int64_t count) { return (count + kRound - 1) / kRound * kRound; }

}  // namespace

Gauge::Gauge(Isa isa, int num_threads, size_t max_bytes)
    : kernels_(kernels_for(isa)), memory_(max_bytes), team_(num_threads, 1), counts_{num_threads} {
    const size_t share = max_bytes / sizeof(float) / num_threads;
    auto* floats = reinterpret_cast<float*>(memory_.data());
    seconds_of([&](int part) { std::fill_n(floats + share * part, share, 1.0f); });
}

void Gauge::run(int, int, int piece) { (*work_)(piece); }

double Gauge::seconds_of(const std::function<void(int)>& work) {
    work_ = &work;
    const auto started = std::chrono::steady_clock::now();
    team_.run(*this, counts_);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

double Gauge::read(size_t num_bytes) {
    const auto* floats = reinterpret_cast<const float*>(memory_.data());
    const size_t share = num_bytes / sizeof(float) / team_.size(), part_bytes = share * sizeof(float);
    const size_t times = part_bytes == 0 ? 1 : std::max<size_t>(1, kLeastBytes / part_bytes);
    const double taken_s = seconds_of([&](int part) {
        for (size_t i = 0; i < times; ++i) kept = kernels_.read_floats(floats + share * part, share);
    });
    return static_cast<double>(part_bytes) * team_.size() * static_cast<double>(times) / taken_s;
}

double Gauge::multiply(Numbers numbers, int64_t count) {
    const int64_t whole = rounded_up(std::max<int64_t>(count, 1));
    const double taken_s = seconds_of([&](int) {
        switch (numbers) {
            case Numbers::kInt8:
                kept = static_cast<float>(kernels_.dot_codes(whole / 4));  // of 64 codes
                break;
            case Numbers::kBf16:
                kept = kernels_.multiply_halves(whole);
                break;
            default:
                kept = kernels_.multiply_floats(whole);
        }
    });
    return 32.0 * static_cast<double>(whole) * team_.size() / taken_s;
}

Ceilings measure_ceilings(Isa isa, int num_threads, size_t num_bytes) {
    constexpr int kTries = 15;
    constexpr int64_t kProducts = 12'000'000;
    Gauge gauge(isa, num_threads, num_bytes);
    Ceilings best{0.0, 0.0};
    for (int i = 0; i < kTries; ++i) {
        best.read_bytes_per_s = std::max(best.read_bytes_per_s, gauge.read(num_bytes));
        best.dot_ops_per_s = std::max(best.dot_ops_per_s, gauge.multiply(Numbers::kInt8, kProducts));
    }
    return best;
}

}  // namespace tailrace
