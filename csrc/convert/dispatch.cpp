#include "convert/conversions.h"

namespace tailrace {

// Defined by convert.cpp, once for each instruction set that has vectors of its own: dots, bfloat16 and tiles, which
// others add, convert nothing.
#if defined(__x86_64__)
namespace avx2 {
extern const Conversions conversions;
}
namespace avx512vnni {
extern const Conversions conversions;
}
#elif defined(__aarch64__)
namespace neon {
extern const Conversions conversions;
}
#endif
namespace portable {
extern const Conversions conversions;
}

const Conversions& conversions_for(Isa isa) {
    switch (isa) {
#if defined(__x86_64__)
        case Isa::kAmx:
        case Isa::kAvx512Bf16:
        case Isa::kAvx512Vnni:
            return avx512vnni::conversions;
        case Isa::kAvxVnni:
        case Isa::kAvx2:
            return avx2::conversions;
#elif defined(__aarch64__)
        case Isa::kDotProd:
        case Isa::kNeon:
            return neon::conversions;
#endif
        default:
            return portable::conversions;
    }
}

}  // namespace tailrace
