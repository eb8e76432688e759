/* CRC-32 of a buffer: by carry-less multiplication where the processor has it, so that the mark is not slowed by zlib's. */
#ifndef COMETMQ_BENCH_CRC_H
#define COMETMQ_BENCH_CRC_H

#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#if defined(__x86_64__)
#include <immintrin.h>

/* x^(distance +- 32) mod P, bit-reflected, for a fold across 512 and across 128 bits (Gopal et al., Intel 2009). */
#define FOLD_512 _mm_set_epi64x(0x01c6e41596, 0x0154442bd4)
#define FOLD_128 _mm_set_epi64x(0x00ccaa009e, 0x01751997d0)

__attribute__((target("pclmul,sse4.1"))) static __m128i crc_fold(__m128i lane, __m128i next, __m128i across) {
    __m128i low = _mm_clmulepi64_si128(lane, across, 0x00), high = _mm_clmulepi64_si128(lane, across, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

__attribute__((target("pclmul,sse4.1"))) static uint32_t crc_by_folding(const unsigned char *at, size_t size) {
    __m128i lane[4];
    for (int i = 0; i < 4; i++)
        lane[i] = _mm_loadu_si128((const __m128i *)at + i);
    lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128(-1)); /* CRC-32 begins with all bits set */
    for (at += 64, size -= 64; size >= 64; at += 64, size -= 64)
        for (int i = 0; i < 4; i++)
            lane[i] = crc_fold(lane[i], _mm_loadu_si128((const __m128i *)at + i), FOLD_512);
    for (int i = 0; i < 3; i++)
        lane[i + 1] = crc_fold(lane[i], lane[i + 1], FOLD_128);
    /* What is left is a message of 16 bytes with the same remainder; zlib's inversions at begin and end are undone by the -1. */
    unsigned char left[16];
    _mm_storeu_si128((__m128i *)left, lane[3]);
    return (uint32_t)crc32(crc32(0xffffffff, left, 16), at, (unsigned)size);
}

static uint32_t crc_of(const unsigned char *at, size_t size) {
    if (size >= 64 && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"))
        return crc_by_folding(at, size);
    return (uint32_t)crc32(0, at, (unsigned)size);
}

#else

static uint32_t crc_of(const unsigned char *at, size_t size) {
    return (uint32_t)crc32(0, at, (unsigned)size);
}

#endif
#endif
