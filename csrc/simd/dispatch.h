// From an instruction set to the kernels compiled for it.
#pragma once

#include "kernels/kernels.h"
#include "simd/isa.h"

namespace tailrace {

const Kernels& kernels_for(Isa isa);

}  // namespace tailrace
