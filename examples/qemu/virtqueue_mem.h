/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's memory as the front end describes it: regions of shared files, each with its address in the guest
 * and in the front end. Everything that the guest says about addresses is translated, and checked, here.
 */
#ifndef QEMU_VIRTQUEUE_MEM_H
#define QEMU_VIRTQUEUE_MEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/error.h"

#define GUEST_MEM_REGIONS_MAX 509

struct guest_range {
	uint64_t guest;       /* guest physical address */
	uint64_t size;
	uint64_t user;        /* address in the front end */
};

struct guest_region {
	struct guest_range range;
	uint8_t *host;        /* where range.guest lies in this process */
	void *map;            /* what to unmap */
	size_t map_size;
	int writable;
};

struct guest_mem {
	struct guest_region *regions; /* sorted by guest address, not overlapping */
	size_t count;
	size_t last;          /* the region of the last look-up: the next one is there too, nearly always */
};

/* Map a region; fd stays the caller's. Refuses what overlaps, wraps, or reaches beyond the file. */
int guest_mem_add(struct guest_mem *mem, const struct guest_range *range, int fd, uint64_t offset,
                  cchv_error **err);
int guest_mem_remove(struct guest_mem *mem, const struct guest_range *range, cchv_error **err);
void guest_mem_clear(struct guest_mem *mem);

/* len bytes at an address of the front end, writable and in one piece; NULL when they are not. */
void *guest_mem_at_user(const struct guest_mem *mem, uint64_t user, size_t len);

/*
 * The pieces of this process's memory that make up len bytes at a guest address. Their number (at least 1), or
 * CCHV_ERR_PROTOCOL (not memory, not writable, nothing, wraps), or CCHV_ERR_LIMIT (more than max pieces).
 */
int guest_mem_iov(struct guest_mem *mem, uint64_t guest, uint64_t len, int write, struct iovec *iov, size_t max);

#endif
