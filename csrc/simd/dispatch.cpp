#include "simd/dispatch.h"

namespace tailrace {

// Defined by kernels/table.cpp, once for each instruction set of the build.
#if defined(__x86_64__)
namespace avx2 {
extern const Kernels kernels;
}
namespace avxvnni {
extern const Kernels kernels;
}
namespace avx512vnni {
extern const Kernels kernels;
}
namespace avx512bf16 {
extern const Kernels kernels;
}
namespace amx {
void gemm_quantized(Format format, const QuantizedRows& x, int first_row, int num_rows, const Tile* tiles,
                    int num_tiles, const GemmOutput& out);
void gemm_float(Format format, const float* x, size_t stride, int inputs, int first_row, int num_rows,
                const Tile* tiles, int num_tiles, const GemmOutput& out);
int32_t dot_codes(int64_t count);
float multiply_halves(int64_t count);
}  // namespace amx
#elif defined(__aarch64__)
namespace neon {
extern const Kernels kernels;
}
namespace dotprod {
extern const Kernels kernels;
}
#endif
namespace portable {
extern const Kernels kernels;
}

#if defined(__x86_64__)

// The tiles of AMX multiply; all else is done by the vectors beside them.
const Kernels& amx_kernels() {
    static const Kernels kernels = [] {
        Kernels with_tiles = avx512bf16::kernels;
        with_tiles.gemm_quantized = amx::gemm_quantized;
        with_tiles.gemm_float = amx::gemm_float;
        with_tiles.dot_codes = amx::dot_codes;
        with_tiles.multiply_halves = amx::multiply_halves;
        return with_tiles;
    }();
    return kernels;
}

#endif

const Kernels& kernels_for(Isa isa) {
    switch (isa) {
#if defined(__x86_64__)
        case Isa::kAmx:
            return amx_kernels();
        case Isa::kAvx512Bf16:
            return avx512bf16::kernels;
        case Isa::kAvx512Vnni:
            return avx512vnni::kernels;
        case Isa::kAvxVnni:
            return avxvnni::kernels;
        case Isa::kAvx2:
            return avx2::kernels;
#elif defined(__aarch64__)
        case Isa::kDotProd:
            return dotprod::kernels;
        case Isa::kNeon:
            return neon::kernels;
#endif
        default:
            return portable::kernels;
    }
}

}  // namespace tailrace
