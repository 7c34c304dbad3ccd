// What this core can do at best: the two ceilings that kernels are compared with.
#include "kernels/functions.h"
#include "simd/vec.h"

namespace tailrace::TAILRACE_ISA {

float read_floats(const float* x, size_t n) {
    Vec total[8];
    for (Vec& t : total) t = zero();
    for (size_t i = 0; i + 8 * kLanes <= n; i += 8 * kLanes) {
        for (int k = 0; k < 8; ++k) total[k] = max(total[k], load(x + i + k * kLanes));
    }
    for (int k = 1; k < 8; ++k) total[0] = max(total[0], total[k]);
    return largest(total[0]);
}

}  // namespace tailrace::TAILRACE_ISA
