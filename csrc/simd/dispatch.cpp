#include "simd/dispatch.h"

namespace tailrace {

namespace portable {
extern const Kernels kernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Kernels kernels;
}
namespace avx512vnni {
extern const Kernels kernels;
}
namespace avx512bf16 {
extern const Kernels kernels;
}
#endif

const Kernels& kernels_for(Isa isa) {
    switch (isa) {
#if defined(__x86_64__)
        case Isa::kAvx512Bf16:
            return avx512bf16::kernels;
        case Isa::kAvx512Vnni:
            return avx512vnni::kernels;
        case Isa::kAvx2:
            return avx2::kernels;
#endif
        default:
            return portable::kernels;
    }
}

}  // namespace tailrace
