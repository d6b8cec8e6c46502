/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/crc.h"

#include <assert.h>
#include <isa-l/crc.h>
#include <stdbool.h>

/* Bytes at a time, at most: less in tests, so that the other ways are gone, too. */
#ifndef URXE_CRC_WIDEST
#define URXE_CRC_WIDEST 64
#endif

#if defined(__x86_64__)
#include <immintrin.h>

#define BY_16 __attribute__((target("pclmul,sse4.1")))
#define BY_32 __attribute__((target("avx2,pclmul,vpclmulqdq,sse4.1")))
#define BY_64 __attribute__((target("avx512f,avx512dq,avx512vl,avx2,pclmul,vpclmulqdq,sse4.1")))

enum { LANES = 4 }; /* under way at once */

/*
 * The remainder of data followed by d more bits is that of data times x^d. Carry-less products with
 * x^n mod P, n near d, move a block d bits on without reducing it to 32 bits first: Gopal and
 * others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009.
 * Bits are reflected, products therefore one bit too low: each constant is shifted by one. The
 * half that comes first in memory has to go 64 bits further than the other.
 */
#define X_2080 0x11542778a /* 256 bytes on */
#define X_2016 0x1322d1430
#define X_1056 0x1e88ef372 /* 128 */
#define X_992  0x14a7fe880
#define X_544  0x154442bd4 /* 64 */
#define X_480  0x1c6e41596
#define X_288  0x0f1da05aa /* 32 */
#define X_224  0x15a546366
#define X_160  0x1751997d0 /* 16 */
#define X_96   0x0ccaa009e
#define X_64   0x163cd6124
#define X_64_P 0x1f7011641 /* x^64 / P */
#define P      0x1db710641

BY_16 static inline __m128i load_16(const uint8_t *p)
{
	return _mm_loadu_si128((const __m128i_u *)p);
}

BY_16 static inline __m128i fold_16(__m128i block, __m128i next)
{
	const __m128i by_16 = _mm_set_epi64x(X_96, X_160);
	__m128i first = _mm_clmulepi64_si128(block, by_16, 0x00);
	__m128i second = _mm_clmulepi64_si128(block, by_16, 0x11);

	return _mm_xor_si128(_mm_xor_si128(first, second), next);
}

/* 128 bits to 96, to 64, and by Barrett to 32. */
BY_16 static uint32_t reduce(__m128i block)
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

BY_16 static __m128i fold_head(const uint8_t *head, size_t len)
{
	__m128i block = load_16(head);

	for (size_t i = CRC_BLOCK; i < len; i += CRC_BLOCK)
		block = fold_16(block, load_16(head + i));
	return block;
}

BY_16 static uint32_t fold_tail(__m128i block, const uint8_t *p, size_t len)
{
	for (; len; p += CRC_BLOCK, len -= CRC_BLOCK)
		block = fold_16(block, load_16(p));
	return ~reduce(block);
}

BY_32 static inline __m256i load_32(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i_u *)p);
}

BY_32 static inline __m256i fold_32(__m256i block, __m256i by, __m256i next)
{
	__m256i first = _mm256_clmulepi64_epi128(block, by, 0x00);
	__m256i second = _mm256_clmulepi64_epi128(block, by, 0x11);

	return _mm256_xor_si256(_mm256_xor_si256(first, second), next);
}

BY_32 static uint32_t crc_by_32(const uint8_t *head, size_t head_len, const uint8_t *p, size_t len)
{
	enum { STEP = LANES * 32 };
	const __m256i by_128 = _mm256_set_epi64x(X_992, X_1056, X_992, X_1056);
	const __m256i by_32 = _mm256_set_epi64x(X_224, X_288, X_224, X_288);
	__m128i block = fold_head(head, head_len);
	__m256i a, b, c, d;

	if (len < STEP)
		return fold_tail(block, p, len);
	a = _mm256_inserti128_si256(load_32(p), fold_16(block, load_16(p)), 0);
	b = load_32(p + 32);
	c = load_32(p + 64);
	d = load_32(p + 96);
	for (p += STEP, len -= STEP; len >= STEP; p += STEP, len -= STEP) {
		a = fold_32(a, by_128, load_32(p));
		b = fold_32(b, by_128, load_32(p + 32));
		c = fold_32(c, by_128, load_32(p + 64));
		d = fold_32(d, by_128, load_32(p + 96));
	}
	d = fold_32(fold_32(fold_32(a, by_32, b), by_32, c), by_32, d);
	block = fold_16(_mm256_castsi256_si128(d), _mm256_extracti128_si256(d, 1));
	return fold_tail(block, p, len);
}

BY_64 static inline __m512i fold_64(__m512i block, __m512i by, __m512i next)
{
	__m512i first = _mm512_clmulepi64_epi128(block, by, 0x00);
	__m512i second = _mm512_clmulepi64_epi128(block, by, 0x11);

	return _mm512_xor_si512(_mm512_xor_si512(first, second), next);
}

BY_64 static uint32_t crc_by_64(const uint8_t *head, size_t head_len, const uint8_t *p, size_t len)
{
	enum { STEP = LANES * 64 };
	const __m512i by_256 = _mm512_broadcast_i64x2(_mm_set_epi64x(X_2016, X_2080));
	const __m512i by_64 = _mm512_broadcast_i64x2(_mm_set_epi64x(X_480, X_544));
	__m128i block = fold_head(head, head_len);
	__m512i a, b, c, d;

	if (len < 64)
		return fold_tail(block, p, len);
	a = _mm512_inserti64x2(_mm512_loadu_si512(p), fold_16(block, load_16(p)), 0);
	if (len < STEP) {
		p += 64;
		len -= 64;
	} else {
		b = _mm512_loadu_si512(p + 64);
		c = _mm512_loadu_si512(p + 128);
		d = _mm512_loadu_si512(p + 192);
		for (p += STEP, len -= STEP; len >= STEP; p += STEP, len -= STEP) {
			a = fold_64(a, by_256, _mm512_loadu_si512(p));
			b = fold_64(b, by_256, _mm512_loadu_si512(p + 64));
			c = fold_64(c, by_256, _mm512_loadu_si512(p + 128));
			d = fold_64(d, by_256, _mm512_loadu_si512(p + 192));
		}
		a = fold_64(fold_64(fold_64(a, by_64, b), by_64, c), by_64, d);
	}
	for (; len >= 64; p += 64, len -= 64)
		a = fold_64(a, by_64, _mm512_loadu_si512(p));
	block = fold_16(_mm512_castsi512_si128(a), _mm512_extracti64x2_epi64(a, 1));
	block = fold_16(block, _mm512_extracti64x2_epi64(a, 2));
	block = fold_16(block, _mm512_extracti64x2_epi64(a, 3));
	return fold_tail(block, p, len);
}

static bool has_32(void)
{
	return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2");
}

static bool has_64(void)
{
	return has_32() && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

uint32_t urxe_crc(const uint8_t *head, size_t head_len, const uint8_t *data, size_t len)
{
	assert(head_len >= CRC_BLOCK && (head_len | len) % CRC_BLOCK == 0);
#if defined(__x86_64__)
	if (URXE_CRC_WIDEST >= 64 && has_64())
		return crc_by_64(head, head_len, data, len);
	if (URXE_CRC_WIDEST >= 32 && has_32())
		return crc_by_32(head, head_len, data, len);
#endif
	return crc32_gzip_refl(crc32_gzip_refl(UINT32_MAX, head, head_len), data, len);
}
