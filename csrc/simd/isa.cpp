#include "simd/isa.h"

#include <cstdint>
#include <stdexcept>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <sys/auxv.h>
#endif
#endif

namespace tailrace {

namespace {

#if defined(__x86_64__)

// What some compilers' __builtin_cpu_supports does not know.
struct CpuId {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;

    CpuId(unsigned leaf, unsigned subleaf) { __get_cpuid_count(leaf, subleaf, &eax, &ebx, &ecx, &edx); }
};

bool has_f16c() { return (CpuId(1, 0).ecx >> 29 & 1) != 0; }

// __builtin_cpu_supports also asks the operating system whether it saves the wide registers.
bool has_avx2() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

bool has_avxvnni() { return has_avx2() && (CpuId(7, 1).eax >> 4 & 1) != 0; }

bool has_avx512vnni() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
}

bool has_avx512bf16() { return has_avx512vnni() && __builtin_cpu_supports("avx512bf16"); }

// A process must ask for the tiles before its threads touch them: they make what is saved of a thread much larger.
bool may_use_tiles() {
#if defined(__linux__)
    constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
    return false;
#endif
}

bool has_amx() {
    constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25, kAll = kBf16 | kTile | kInt8;
    return has_avx512bf16() && (CpuId(7, 0).edx & kAll) == kAll && may_use_tiles();
}

#elif defined(__aarch64__)

bool has_neon() { return true; }

bool has_dotprod() {
#if defined(__linux__)
    constexpr unsigned long kDotProd = 1ul << 20;  // HWCAP_ASIMDDP
    return (getauxval(AT_HWCAP) & kDotProd) != 0;
#elif defined(__APPLE__)
    return true;  // since the first of its processors that runs macOS
#else
    return false;
#endif
}

#endif

bool has_portable() { return true; }

struct Entry {
    Isa isa;
    const char* name;
    bool (*is_here)();
};

constexpr Entry kBestFirst[] = {
#if defined(__x86_64__)
    {Isa::kAmx, "amx", has_amx},
    {Isa::kAvx512Bf16, "avx512bf16", has_avx512bf16},
    {Isa::kAvx512Vnni, "avx512vnni", has_avx512vnni},
    {Isa::kAvxVnni, "avxvnni", has_avxvnni},
    {Isa::kAvx2, "avx2", has_avx2},
#elif defined(__aarch64__)
    {Isa::kDotProd, "dotprod", has_dotprod},
    {Isa::kNeon, "neon", has_neon},
#endif
    {Isa::kPortable, "portable", has_portable},
};

}  // namespace

const char* isa_name(Isa isa) {
    for (const Entry& entry : kBestFirst) {
        if (entry.isa == isa) return entry.name;
    }
    throw std::invalid_argument("an instruction set of another architecture");
}

std::vector<Isa> supported_isas() {
    std::vector<Isa> isas;
    for (const Entry& entry : kBestFirst) {
        if (entry.is_here()) isas.push_back(entry.isa);
    }
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
