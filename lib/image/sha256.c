/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4). Enters: bytes. Leaves: their digest. */
#include "image/sha256.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

typedef void (*blocks_fn)(uint32_t h[8], const uint8_t *data, size_t count);

static const uint32_t k[64] __attribute__((aligned(16))) = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t ror(uint32_t x, int n)
{
	return (x >> n) | (x << (32 - n));
}

static void blocks_portable(uint32_t h[8], const uint8_t *data, size_t count)
{
	uint32_t w[64];

	for (; count; count--, data += 64) {
		uint32_t s[8];

		for (int i = 0; i < 16; i++)
			w[i] = (uint32_t)data[4 * i] << 24 | (uint32_t)data[4 * i + 1] << 16 |
			       (uint32_t)data[4 * i + 2] << 8 | data[4 * i + 3];
		for (int i = 16; i < 64; i++) {
			uint32_t a = w[i - 15], b = w[i - 2];

			w[i] = w[i - 16] + (ror(a, 7) ^ ror(a, 18) ^ a >> 3) + w[i - 7] +
			       (ror(b, 17) ^ ror(b, 19) ^ b >> 10);
		}
		memcpy(s, h, sizeof(s));
		/* Instead of moving a..h by one, their names move: n is where round i finds the n-th of them. */
#define AT(n) s[((n) - i) & 7]
#pragma GCC unroll 8
		for (int i = 0; i < 64; i++) {
			uint32_t t1 = AT(7) + (ror(AT(4), 6) ^ ror(AT(4), 11) ^ ror(AT(4), 25)) +
				      ((AT(4) & AT(5)) ^ (~AT(4) & AT(6))) + k[i] + w[i];
			uint32_t t2 = (ror(AT(0), 2) ^ ror(AT(0), 13) ^ ror(AT(0), 22)) +
				      ((AT(0) & AT(1)) ^ (AT(0) & AT(2)) ^ (AT(1) & AT(2)));

			AT(3) += t1;
			AT(7) = t1 + t2;
		}
#undef AT
		for (int i = 0; i < 8; i++)
			h[i] += s[i];
	}
}

#if defined(__x86_64__)
/* The instructions keep the state as ABEF and CDGH, and do four rounds a step. */
__attribute__((target("sha,sse4.1,ssse3")))
static void blocks_sha_ni(uint32_t h[8], const uint8_t *data, size_t count)
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
	__m128i t = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)h), 0xb1);
	__m128i cdgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(h + 4)), 0x1b);
	__m128i abef = _mm_alignr_epi8(t, cdgh, 8);

	cdgh = _mm_blend_epi16(cdgh, t, 0xf0);
	for (; count; count--, data += 64) {
		__m128i abef_old = abef, cdgh_old = cdgh, m[4];

		for (int i = 0; i < 4; i++)
			m[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(data + 16 * i)), swap);
#pragma GCC unroll 16
		for (int i = 0; i < 16; i++) {
			__m128i x = _mm_add_epi32(m[i & 3], _mm_load_si128((const __m128i *)(k + 4 * i)));

			cdgh = _mm_sha256rnds2_epu32(cdgh, abef, x);
			abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(x, 0x0e));
			if (i < 12) {
				__m128i next = _mm_alignr_epi8(m[(i + 3) & 3], m[(i + 2) & 3], 4);

				next = _mm_add_epi32(_mm_sha256msg1_epu32(m[i & 3], m[(i + 1) & 3]), next);
				m[i & 3] = _mm_sha256msg2_epu32(next, m[(i + 3) & 3]);
			}
		}
		abef = _mm_add_epi32(abef, abef_old);
		cdgh = _mm_add_epi32(cdgh, cdgh_old);
	}
	t = _mm_shuffle_epi32(abef, 0x1b);
	cdgh = _mm_shuffle_epi32(cdgh, 0xb1);
	_mm_storeu_si128((__m128i *)h, _mm_blend_epi16(t, cdgh, 0xf0));
	_mm_storeu_si128((__m128i *)(h + 4), _mm_alignr_epi8(cdgh, t, 8));
}

static int has_sha_ni(void)
{
	unsigned int a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) || !(c & bit_SSSE3))
		return 0;
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1u << 29));
}
#endif

static _Atomic(blocks_fn) blocks;

static blocks_fn pick(void)
{
	blocks_fn fn = atomic_load_explicit(&blocks, memory_order_relaxed);

	if (fn)
		return fn;
	fn = blocks_portable;
#if defined(__x86_64__)
	if (has_sha_ni())
		fn = blocks_sha_ni;
#endif
	atomic_store_explicit(&blocks, fn, memory_order_relaxed);
	return fn;
}

void sha256_set_portable(int on)
{
	atomic_store_explicit(&blocks, on ? blocks_portable : NULL, memory_order_relaxed);
}

void sha256_init(struct sha256 *s)
{
	static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

	memcpy(s->h, start, sizeof(start));
	s->len = 0;
	s->used = 0;
}

void sha256_update(struct sha256 *s, const void *data, size_t len)
{
	const uint8_t *p = data;
	blocks_fn fn = pick();

	if (!len)
		return;
	s->len += len;
	if (s->used) {
		size_t n = sizeof(s->block) - s->used;

		if (n > len)
			n = len;
		memcpy(s->block + s->used, p, n);
		s->used += n;
		p += n;
		len -= n;
		if (s->used < sizeof(s->block))
			return;
		fn(s->h, s->block, 1);
		s->used = 0;
	}
	fn(s->h, p, len / 64);
	p += len & ~(size_t)63;
	s->used = len & 63;
	memcpy(s->block, p, s->used);
}

void sha256_final(struct sha256 *s, uint8_t digest[SHA256_SIZE])
{
	uint64_t bits = s->len * 8;
	uint8_t pad[72] = { 0x80 };
	size_t zeros = (s->used < 56 ? 56 : 120) - s->used;

	for (int i = 0; i < 8; i++)
		pad[zeros + i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_update(s, pad, zeros + 8);
	for (int i = 0; i < 8; i++)
		for (int j = 0; j < 4; j++)
			digest[4 * i + j] = (uint8_t)(s->h[i] >> (24 - 8 * j));
}

void sha256_final_hex(struct sha256 *s, char hex[SHA256_HEX_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	uint8_t digest[SHA256_SIZE];

	sha256_final(s, digest);
	for (int i = 0; i < SHA256_SIZE; i++) {
		hex[2 * i] = digits[digest[i] >> 4];
		hex[2 * i + 1] = digits[digest[i] & 15];
	}
	hex[64] = 0;
}

int sha256_hex_is_valid(const char *hex)
{
	return strspn(hex, "0123456789abcdef") == 64 && strlen(hex) == 64;
}
