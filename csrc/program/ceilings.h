// Measures what the machine can do at best, with the same threads and instruction set as a program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/kernels.h"
#include "program/memory.h"
#include "program/team.h"
#include "simd/isa.h"

namespace tailrace {

// What is multiplied: codes as sums of integers, the others as sums of floats.
enum class Numbers { kInt8, kBf16, kF32 };

// One try at a time: whoever asks takes the best of several, and sees by how much they differ.
class Gauge final : Work {
  public:
    // Takes memory, and has each thread touch its own part. Throws std::bad_alloc, std::system_error.
    Gauge(Isa isa, int num_threads, size_t max_bytes);

    // Bytes a second of all threads together, each reading its part of the first `num_bytes`, which are `max_bytes` at
    // most: again and again, where they are few.
    double read(size_t num_bytes);
    // Multiplications and additions a second of all threads together, each doing `count` times 16 products. Whole
    // rounds are done and counted, of 98,304 products.
    double multiply(Numbers numbers, int64_t count);

  private:
    void run(int thread, int stage, int piece) override;
    double seconds_of(const std::function<void(int)>& work);

    const Kernels& kernels_;
    const Memory memory_;
    Team team_;
    const std::vector<int> counts_;  // one piece for each thread
    const std::function<void(int)>* work_ = nullptr;
};

struct Ceilings {
    double read_bytes_per_s;  // of `num_bytes`, read again and again
    double dot_ops_per_s;     // int8 multiplies and adds
};

Ceilings measure_ceilings(Isa isa, int num_threads, size_t num_bytes);

}  // namespace tailrace
