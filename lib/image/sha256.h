/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256. Our own, because a crypto library in every process that links this one would cost more memory than
 * the whole of it may; with the processor's own instructions where it has them (x86).
 */
#ifndef IMAGE_SHA256_H
#define IMAGE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE 32
#define SHA256_HEX_SIZE 65 /* with the NUL */

struct sha256 {
	uint32_t h[8];
	uint64_t len;
	uint8_t block[64];
	size_t used;
};

void sha256_init(struct sha256 *s);
void sha256_update(struct sha256 *s, const void *data, size_t len);
void sha256_final(struct sha256 *s, uint8_t digest[SHA256_SIZE]);
void sha256_final_hex(struct sha256 *s, char hex[SHA256_HEX_SIZE]);
/* 64 lower case hex digits, and nothing after them. */
int sha256_hex_is_valid(const char *hex);
/* For tests: 1 forces the portable code. */
void sha256_set_portable(int on);

#endif
