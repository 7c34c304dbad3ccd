// Which instruction set the kernels use. The one place that asks the processor what it can do.
#pragma once

#include <string>
#include <vector>

namespace tailrace {

enum class Isa { kPortable, kAvx2, kAvxVnni, kAvx512Vnni, kAvx512Bf16, kAmx, kNeon, kDotProd };

// The name used by TAILRACE_CPU_ISA and by tests: portable; avx2, avxvnni, avx512vnni, avx512bf16, amx; neon, dotprod.
const char* isa_name(Isa isa);

// What this machine runs, best first. Never empty: portable is always there.
std::vector<Isa> supported_isas();

// The instruction set with this name; an empty name is the best one. Throws std::invalid_argument with the choices.
Isa choose_isa(const std::string& name);

}  // namespace tailrace
