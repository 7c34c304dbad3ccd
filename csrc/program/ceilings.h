// Measures what the machine can do at best, with the same threads and instruction set as a program.
#pragma once

#include <cstddef>

#include "simd/isa.h"

namespace tailrace {

struct Ceilings {
    double read_bytes_per_s;  // of `num_bytes`, read again and again
    double dot_ops_per_s;     // int8 multiplies and adds
};

Ceilings measure_ceilings(Isa isa, int num_threads, size_t num_bytes);

}  // namespace tailrace
