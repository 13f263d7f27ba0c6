/* SPDX-License-Identifier: Apache-2.0 */
/* What the erofs_*.c files share: little-endian numbers, checked access. Nobody else includes this. */
#ifndef IMAGE_EROFS_BYTES_H
#define IMAGE_EROFS_BYTES_H

#include "image/erofs.h"

static inline uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) | (uint32_t)get16(p + 2) << 16;
}

static inline uint64_t get64(const uint8_t *p)
{
	return (uint64_t)get32(p) | (uint64_t)get32(p + 4) << 32;
}

static inline void put16(uint8_t *p, uint16_t value)
{
	p[0] = (uint8_t)value;
	p[1] = (uint8_t)(value >> 8);
}

static inline void put32(uint8_t *p, uint32_t value)
{
	put16(p, (uint16_t)value);
	put16(p + 2, (uint16_t)(value >> 16));
}

static inline void put64(uint8_t *p, uint64_t value)
{
	put32(p, (uint32_t)value);
	put32(p + 4, (uint32_t)(value >> 32));
}

const uint8_t *erofs_at(const struct erofs *fs, uint64_t place, uint64_t len); /* NULL when outside */
int erofs_damaged(const struct erofs_inode *inode, const char *what, cchv_error **err);

#endif
