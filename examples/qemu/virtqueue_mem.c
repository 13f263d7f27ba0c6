/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's memory: see virtqueue_mem.h. Enters: the front end's regions, the guest's addresses. Leaves: pointers. */
#include "virtqueue_mem.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

/* The first region that ends after the address: the one that holds it, if any does. */
static size_t find(const struct guest_mem *mem, uint64_t guest)
{
	size_t low = 0, high = mem->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct guest_range *r = &mem->regions[middle].range;

		if (guest - r->guest < r->size && guest >= r->guest)
			return middle;
		if (guest < r->guest)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static int check_range(const struct guest_mem *mem, const struct guest_range *r, uint64_t offset, cchv_error **err)
{
	size_t at = find(mem, r->guest);
	uint64_t end;

	if (!r->size || r->size > SIZE_MAX / 2 || __builtin_add_overflow(r->guest, r->size, &end) ||
	    __builtin_add_overflow(r->user, r->size, &end) || __builtin_add_overflow(offset, r->size, &end) ||
	    end > INT64_MAX)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "guest memory at 0x%llx: impossible size 0x%llx",
		               (unsigned long long)r->guest, (unsigned long long)r->size);
	if (at < mem->count && mem->regions[at].range.guest < r->guest + r->size)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "guest memory at 0x%llx: overlaps the region at 0x%llx",
		               (unsigned long long)r->guest, (unsigned long long)mem->regions[at].range.guest);
	if (mem->count >= GUEST_MEM_REGIONS_MAX)
		return err_set(err, CCHV_ERR_LIMIT, 0, "guest memory: more than %d regions", GUEST_MEM_REGIONS_MAX);
	return CCHV_OK;
}

/* A read-only file (an image on pmem) is mapped for reading alone: the guest may send from it. */
static int map_region(struct guest_region *region, int fd, uint64_t offset, cchv_error **err)
{
	const unsigned long long guest = region->range.guest;
	uint64_t align = (uint64_t)sysconf(_SC_PAGESIZE), start;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "guest memory at 0x%llx: fstat", guest);
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size < offset + region->range.size)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "guest memory at 0x%llx: the file is too short", guest);
	/* Files of huge pages can only be mapped from a multiple of the page, which is their block size. */
	if ((uint64_t)st.st_blksize > align && !(st.st_blksize & (st.st_blksize - 1)))
		align = (uint64_t)st.st_blksize;
	start = offset - offset % align;
	region->map_size = (size_t)(region->range.size + (offset - start));
	region->writable = 1;
	region->map = mmap(NULL, region->map_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
	                   (off_t)start);
	if (region->map == MAP_FAILED && errno == EACCES) {
		region->writable = 0;
		region->map = mmap(NULL, region->map_size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, (off_t)start);
	}
	if (region->map == MAP_FAILED)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "guest memory at 0x%llx: mmap", guest);
	/* The guest's secrets stay out of our core dumps; a kernel that cannot do it changes nothing else. */
	(void)madvise(region->map, region->map_size, MADV_DONTDUMP);
	region->host = (uint8_t *)region->map + (offset - start);
	return CCHV_OK;
}

int guest_mem_add(struct guest_mem *mem, const struct guest_range *range, int fd, uint64_t offset,
                  cchv_error **err)
{
	struct guest_region region = { .range = *range };
	struct guest_region *grown;
	size_t at;
	int r;

	r = check_range(mem, range, offset, err);
	if (r < 0)
		return r;
	grown = mem_realloc_array(mem->regions, mem->count + 1, sizeof(*grown));
	if (!grown)
		return err_nomem(err);
	mem->regions = grown;
	r = map_region(&region, fd, offset, err);
	if (r < 0)
		return r;
	at = find(mem, range->guest);
	memmove(&grown[at + 1], &grown[at], (mem->count - at) * sizeof(*grown));
	grown[at] = region;
	mem->count++;
	mem->last = 0;
	return CCHV_OK;
}

int guest_mem_remove(struct guest_mem *mem, const struct guest_range *range, cchv_error **err)
{
	size_t at = find(mem, range->guest);
	struct guest_region *region = at < mem->count ? &mem->regions[at] : NULL;

	if (!region || region->range.guest != range->guest || region->range.size != range->size ||
	    region->range.user != range->user)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "guest memory at 0x%llx: no such region to remove",
		               (unsigned long long)range->guest);
	munmap(region->map, region->map_size);
	mem->count--;
	memmove(region, region + 1, (mem->count - at) * sizeof(*region));
	mem->last = 0;
	return CCHV_OK;
}

void guest_mem_clear(struct guest_mem *mem)
{
	for (size_t i = 0; i < mem->count; i++)
		munmap(mem->regions[i].map, mem->regions[i].map_size);
	free(mem->regions);
	memset(mem, 0, sizeof(*mem));
}

void *guest_mem_at_user(const struct guest_mem *mem, uint64_t user, size_t len)
{
	for (size_t i = 0; i < mem->count; i++) {
		const struct guest_region *region = &mem->regions[i];
		uint64_t offset = user - region->range.user;

		if (user >= region->range.user && offset < region->range.size && len <= region->range.size - offset &&
		    region->writable)
			return region->host + offset;
	}
	return NULL;
}

int guest_mem_iov(struct guest_mem *mem, uint64_t guest, uint64_t len, int write, struct iovec *iov, size_t max)
{
	size_t n = 0;

	if (!len || guest + len < guest)
		return CCHV_ERR_PROTOCOL;
	while (len) {
		const struct guest_region *region;
		uint64_t offset, part;

		if (mem->last >= mem->count || guest < mem->regions[mem->last].range.guest ||
		    guest - mem->regions[mem->last].range.guest >= mem->regions[mem->last].range.size)
			mem->last = find(mem, guest);
		if (mem->last >= mem->count)
			return CCHV_ERR_PROTOCOL;
		region = &mem->regions[mem->last];
		if (guest < region->range.guest || (write && !region->writable))
			return CCHV_ERR_PROTOCOL;
		if (n == max)
			return CCHV_ERR_LIMIT;
		offset = guest - region->range.guest;
		part = region->range.size - offset;
		if (part > len)
			part = len;
		iov[n].iov_base = region->host + offset;
		iov[n].iov_len = (size_t)part;
		n++;
		guest += part;
		len -= part;
	}
	return (int)n;
}
