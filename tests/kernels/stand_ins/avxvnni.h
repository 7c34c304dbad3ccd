// AVX-VNNI for processors that have only AVX-512 VNNI: the same instruction in its other encoding. Compiled ahead of a
// kernel with the flags of AVX2, it makes it the very kernel that processors with AVX-VNNI get.
#pragma once

#include <immintrin.h>

// Before the header above this would hide the intrinsic from the flags of AVX2.
#define __AVXVNNI__ 1
#define _mm256_dpbusd_avx_epi32 dpbusd_of_avx512

static inline __m256i dpbusd_of_avx512(__m256i sum, __m256i bytes, __m256i codes) {
    __asm__("vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(bytes), "x"(codes));
    return sum;
}
