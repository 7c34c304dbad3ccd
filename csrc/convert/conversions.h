// Conversions of weights on their way in, as a table of functions of one instruction set. All give the same bits.
#pragma once

#include "convert/stored.h"
#include "simd/isa.h"

namespace tailrace {

struct Conversions {
    Squares (*narrow)(const StoredRows& from, const NarrowRows& to);
    void (*widen)(const StoredRows& from, float* out);  // [rows, columns] without a gap
};

const Conversions& conversions_for(Isa isa);

}  // namespace tailrace
