/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/crc.h"

#include <assert.h>
#include <isa-l/crc.h>
#include <stdbool.h>

#if defined(__x86_64__) && !defined(URXE_CRC_PLAIN)
#define URXE_CRC_WIDE
#include <immintrin.h>

#define WIDE __attribute__((target("avx2,pclmul,vpclmulqdq,sse4.1")))

enum { LANE = 32, LANES = 4, LONG = LANE * LANES };

/*
 * The remainder of data followed by d more bits is that of data times x^d. Carry-less products with
 * x^n mod P, n near d, move a block d bits on without reducing it to 32 bits first: Gopal and
 * others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009.
 * Bits are reflected, products therefore one bit too low: each constant is shifted by one. The
 * half that comes first in memory has to go 64 bits further than the other.
 */
#define X_1056 0x1e88ef372 /* 128 bytes on */
#define X_992  0x14a7fe880
#define X_288  0x0f1da05aa /* 32 */
#define X_224  0x15a546366
#define X_160  0x1751997d0 /* 16 */
#define X_96   0x0ccaa009e
#define X_64   0x163cd6124
#define X_64_P 0x1f7011641 /* x^64 / P */
#define P      0x1db710641

WIDE static inline __m256i fold(__m256i block, __m256i by, __m256i next)
{
	__m256i first = _mm256_clmulepi64_epi128(block, by, 0x00);
	__m256i second = _mm256_clmulepi64_epi128(block, by, 0x11);

	return _mm256_xor_si256(_mm256_xor_si256(first, second), next);
}

WIDE static inline __m128i fold_half(__m128i block, __m128i by, __m128i next)
{
	__m128i first = _mm_clmulepi64_si128(block, by, 0x00);
	__m128i second = _mm_clmulepi64_si128(block, by, 0x11);

	return _mm_xor_si128(_mm_xor_si128(first, second), next);
}

WIDE static inline __m256i load(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i_u *)p);
}

/* 128 bits to 96, to 64, and by Barrett to 32. */
WIDE static uint32_t reduce(__m128i block)
{
	const __m128i low_32 = _mm_cvtsi64_si128(0xffffffff);
	__m128i x, quotient;

	x = _mm_clmulepi64_si128(block, _mm_cvtsi64_si128(X_96), 0x00);
	x = _mm_xor_si128(x, _mm_srli_si128(block, 8));
	block = _mm_clmulepi64_si128(_mm_and_si128(x, low_32), _mm_cvtsi64_si128(X_64), 0x00);
	x = _mm_xor_si128(block, _mm_srli_si128(x, 4));
	quotient = _mm_clmulepi64_si128(_mm_and_si128(x, low_32), _mm_cvtsi64_si128(X_64_P), 0x00);
	quotient =
		_mm_clmulepi64_si128(_mm_and_si128(quotient, low_32), _mm_cvtsi64_si128(P), 0x00);
	return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, quotient), 1);
}

WIDE static inline __m128i load_half(const uint8_t *p)
{
	return _mm_loadu_si128((const __m128i_u *)p);
}

/* block in front of the LONG bytes or more at *p, folded; *p and *len are moved behind them. */
WIDE static inline __m128i fold_long(__m128i block, const uint8_t **p, size_t *len)
{
	const __m256i by_128 = _mm256_set_epi64x(X_992, X_1056, X_992, X_1056);
	const __m256i by_32 = _mm256_set_epi64x(X_224, X_288, X_224, X_288);
	const __m128i by_16 = _mm_set_epi64x(X_96, X_160);
	const uint8_t *q = *p;
	size_t left = *len - LANES * LANE;
	__m256i a = load(q), b = load(q + LANE), c = load(q + 2 * LANE), d = load(q + 3 * LANE);

	a = _mm256_inserti128_si256(a, fold_half(block, by_16, load_half(q)), 0);
	for (q += LANES * LANE; left >= LANES * LANE; left -= LANES * LANE, q += LANES * LANE) {
		a = fold(a, by_128, load(q));
		b = fold(b, by_128, load(q + LANE));
		c = fold(c, by_128, load(q + 2 * LANE));
		d = fold(d, by_128, load(q + 3 * LANE));
	}
	d = fold(fold(fold(a, by_32, b), by_32, c), by_32, d);
	*p = q;
	*len = left;
	return fold_half(_mm256_castsi256_si128(d), by_16, _mm256_extracti128_si256(d, 1));
}

WIDE static uint32_t crc_wide(const uint8_t *head, size_t head_len, const uint8_t *data, size_t len)
{
	const __m128i by_16 = _mm_set_epi64x(X_96, X_160);
	__m128i block = load_half(head);

	for (size_t i = CRC_BLOCK; i < head_len; i += CRC_BLOCK)
		block = fold_half(block, by_16, load_half(head + i));
	if (len >= LONG)
		block = fold_long(block, &data, &len);
	for (; len; data += CRC_BLOCK, len -= CRC_BLOCK)
		block = fold_half(block, by_16, load_half(data));
	return ~reduce(block);
}

static bool is_wide(void)
{
	return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2");
}
#endif

uint32_t urxe_crc(const uint8_t *head, size_t head_len, const uint8_t *data, size_t len)
{
	assert(head_len >= CRC_BLOCK && (head_len | len) % CRC_BLOCK == 0);
#ifdef URXE_CRC_WIDE
	if (is_wide())
		return crc_wide(head, head_len, data, len);
#endif
	return crc32_gzip_refl(crc32_gzip_refl(UINT32_MAX, head, head_len), data, len);
}
