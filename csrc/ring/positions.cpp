#include "ring/positions.h"

#include <string>

namespace tailrace {

Positions* positions_at(void* memory, size_t num_bytes, size_t least_bytes) {
    if (num_bytes < least_bytes) {
        throw std::invalid_argument("a ring needs at least " + std::to_string(least_bytes) + " bytes of memory, not " +
                                    std::to_string(num_bytes));
    }
    if (reinterpret_cast<uintptr_t>(memory) % alignof(Positions) != 0) {
        throw std::invalid_argument("the memory of a ring must begin at a multiple of 64 bytes");
    }
    return static_cast<Positions*>(memory);
}

}  // namespace tailrace
