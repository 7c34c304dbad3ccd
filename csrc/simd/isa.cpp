#include "simd/isa.h"

#include <stdexcept>

namespace tailrace {

const char* isa_name(Isa isa) {
    switch (isa) {
        case Isa::kAvx512Bf16:
            return "avx512bf16";
        case Isa::kAvx512Vnni:
            return "avx512vnni";
        case Isa::kAvx2:
            return "avx2";
        default:
            return "portable";
    }
}

std::vector<Isa> supported_isas() {
    std::vector<Isa> isas;
#if defined(__x86_64__)
    // __builtin_cpu_supports also asks the operating system whether it saves the wide registers.
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512vnni");
    if (avx512 && __builtin_cpu_supports("avx512bf16")) isas.push_back(Isa::kAvx512Bf16);
    if (avx512) isas.push_back(Isa::kAvx512Vnni);
    if (avx2) isas.push_back(Isa::kAvx2);
#endif
    isas.push_back(Isa::kPortable);
    return isas;
}

Isa choose_isa(const std::string& name) {
    const std::vector<Isa> isas = supported_isas();
    if (name.empty()) return isas.front();
    std::string names;
    for (Isa isa : isas) {
        if (name == isa_name(isa)) return isa;
        names += (names.empty() ? "" : ", ") + std::string(isa_name(isa));
    }
    throw std::invalid_argument("no instruction set '" + name + "' on this machine: choose one of " + names);
}

}  // namespace tailrace
