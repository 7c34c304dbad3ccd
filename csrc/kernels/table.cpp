// The table of this instruction set.
#include "kernels/functions.h"
#include "kernels/kernels.h"

namespace tailrace::TAILRACE_ISA {

extern const Kernels kernels;
const Kernels kernels = {
    embed,      rms_norm,   layer_norm,  swiglu,       quantize,         gemm_quantized,  gemm_float,
    rotate,     store_kv,   attention,   store_latent, latent_attention, index_scores,    route,
    add_scaled, forbid,     arg_max,     top,          collect,          select,          sum_at_least,
    sum_exp,    exp_scaled, read_floats, dot_codes,    multiply_floats,  multiply_halves,
};

}  // namespace tailrace::TAILRACE_ISA
