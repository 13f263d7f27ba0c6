/* SPDX-License-Identifier: Apache-2.0 */
/* Guest memory: see ram.h. Enters: sizes, files of clients, snapshots. Leaves: memfds with what belongs in them. */
#include "ram.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

#define CHUNK (256u * 1024)

static int new_block(struct ram *ram, const char *name, uint64_t size, struct ram_block **ret, struct fault *fault)
{
	struct ram_block *block = mem_zalloc(sizeof(*block)), **end = &ram->blocks;

	if (!block)
		return fault_nomem(fault);
	snprintf(block->name, sizeof(block->name), "%s", name);
	block->fd = block->source = -1;
	block->size = size;
	while (*end)
		end = &(*end)->next;
	*end = block;
	*ret = block;
	return CCHV_OK;
}

void ram_drop(struct ram *ram, struct ram_block *block)
{
	struct ram_block **p = &ram->blocks;

	while (*p != block)
		p = &(*p)->next;
	*p = block->next;
	fd_close(&block->fd);
	fd_close(&block->source);
	free(block);
}

void ram_free(struct ram *ram)
{
	while (ram->blocks)
		ram_drop(ram, ram->blocks);
}

struct ram_block *ram_find(const struct ram *ram, const char *name)
{
	for (struct ram_block *block = ram->blocks; block; block = block->next)
		if (strcmp(block->name, name) == 0)
			return block;
	return NULL;
}

int ram_add_kept(struct ram *ram, const char *name, uint64_t size, struct fault *fault)
{
	struct ram_block *block;

	return new_block(ram, name, size, &block, fault);
}

static unsigned int memfd_flags(const struct json *options)
{
	uint64_t page = config_u64(options, "hugepage_size");
	unsigned int flags = MFD_CLOEXEC, shift = 0;

	if (!config_bool(options, "hugepages"))
		return flags;
	while (page >> shift > 1)
		shift++;
	return flags | MFD_HUGETLB | shift << MFD_HUGE_SHIFT;
}

int ram_add(struct ram *ram, const char *name, uint64_t size, const struct json *options,
            struct ram_block **ret_block, struct fault *fault)
{
	struct ram_block *block = NULL;
	int r = new_block(ram, name, size, &block, fault);

	if (r < 0)
		return r;
	block->fd = memfd_create("cchv-ram", memfd_flags(options));
	if (block->fd < 0 || ftruncate(block->fd, (off_t)size) < 0) {
		fault_os(fault, errno);
		fault_wrap(fault, "Cannot create the file of guest memory '%s'", name);
		ram_drop(ram, block);
		return CCHV_ERR_VMM;
	}
	*ret_block = block;
	return CCHV_OK;
}

/* Files of huge pages take no write(): what goes into them goes through a mapping. */
static int write_mapped(int fd, const uint8_t *data, size_t len, off_t offset)
{
	struct stat st;
	size_t skip;
	uint8_t *map;

	if (fstat(fd, &st) < 0 || st.st_blksize < 4096)
		return -1;
	skip = (size_t)(offset % st.st_blksize);
	map = mmap(NULL, len + skip, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset - (off_t)skip);
	if (map == MAP_FAILED)
		return -1;
	memcpy(map + skip, data, len);
	return munmap(map, len + skip);
}

static int write_at(int fd, const uint8_t *data, size_t len, off_t offset)
{
	if (fd_pwrite_full(fd, data, len, offset) == 0)
		return 0;
	return errno == EINVAL ? write_mapped(fd, data, len, offset) : -1;
}

static int copy_extent(int from, off_t from_at, int to, off_t to_at, uint64_t len, uint8_t *chunk)
{
	while (len) {
		size_t part = len < CHUNK ? (size_t)len : CHUNK;
		ssize_t n = fd_pread_full(from, chunk, part, from_at);

		if (n < 0)
			return -1;
		if ((size_t)n < part) {
			errno = ENODATA;
			return -1;
		}
		if (write_at(to, chunk, part, to_at) < 0)
			return -1;
		from_at += (off_t)part;
		to_at += (off_t)part;
		len -= part;
	}
	return 0;
}

/* The next data from at on, before end: [*start, *stop). 0: there is none. */
static int next_extent(int fd, off_t at, off_t end, off_t *start, off_t *stop)
{
	*start = lseek(fd, at, SEEK_DATA);
	if (*start < 0 && errno == ENXIO)
		return 0;
	if (*start < 0 && errno == EINVAL) {
		/* A file system that does not tell (huge pages): all of it. */
		*start = at;
		*stop = end;
		return at < end;
	}
	if (*start < 0)
		return -1;
	if (*start >= end)
		return 0;
	*stop = lseek(fd, *start, SEEK_HOLE);
	if (*stop < 0)
		return -1;
	if (*stop > end)
		*stop = end;
	return 1;
}

static int copy_data(int from, uint64_t from_at, int to, uint64_t to_at, uint64_t len)
{
	off_t at = (off_t)from_at, end = (off_t)(from_at + len), start, stop;
	cleanup_free uint8_t *chunk = mem_alloc(CHUNK);
	struct stat st;
	int r;

	if (!chunk) {
		errno = ENOMEM;
		return -1;
	}
	if (fstat(from, &st) < 0)
		return -1;
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size < from_at + len) {
		errno = ENODATA;
		return -1;
	}
	while ((r = next_extent(from, at, end, &start, &stop)) > 0) {
		if (copy_extent(from, start, to, (off_t)to_at + (start - (off_t)from_at), (uint64_t)(stop - start),
		                chunk) < 0)
			return -1;
		at = stop;
	}
	return r;
}

int ram_end(const struct ram_block *block, uint64_t *ret_end)
{
	off_t at = 0, end = (off_t)block->size, start;
	int r;

	*ret_end = 0;
	while ((r = next_extent(block->fd, at, end, &start, &at)) > 0)
		*ret_end = (uint64_t)at;
	return r;
}

int ram_save(const struct ram_block *block, int file, uint64_t offset, uint64_t len)
{
	return copy_data(block->fd, 0, file, offset, len);
}

int ram_load(const struct ram_block *block, int file, uint64_t offset, uint64_t len)
{
	return copy_data(file, offset, block->fd, 0, len);
}

/* A file without a name beside the one given, with its blocks; -1 where the file system does not do that. */
static int clone_file(const char *path, int source)
{
	const char *slash = strrchr(path, '/');
	cleanup_free char *dir = slash ? mem_printf("%.*s", slash == path ? 1 : (int)(slash - path), path) :
	                         mem_strdup(".");
	cleanup_close int fd = dir ? open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;

	if (fd < 0 || ioctl(fd, FICLONE, source) < 0)
		return -1;
	return fd_steal(&fd);
}

int ram_add_copy(struct ram *ram, const char *name, uint64_t size, const char *path, const struct json *options,
                 struct ram_block **ret_block, struct fault *fault)
{
	cleanup_close int source = open(path, O_RDONLY | O_CLOEXEC);
	struct ram_block *block;
	struct stat st;
	int r, clone;

	if (source < 0 || fstat(source, &st) < 0) {
		fault_os(fault, errno);
		return fault_wrap(fault, "Cannot open the file '%s' of guest memory", path);
	}
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != size)
		return fault_set(fault, 500, "The file '%s' of guest memory has %llu bytes, not %llu", path,
		                 (unsigned long long)st.st_size, (unsigned long long)size);
	r = ram_add(ram, name, size, options, &block, fault);
	if (r < 0)
		return r;
	clone = config_bool(options, "hugepages") ? -1 : clone_file(path, source);
	if (clone >= 0) {
		fd_close(&block->fd);
		block->fd = clone;
	} else {
		block->source = fd_steal(&source);
	}
	*ret_block = block;
	return CCHV_OK;
}

int ram_fill(struct ram *ram, struct fault *fault)
{
	for (struct ram_block *block = ram->blocks; block; block = block->next) {
		if (block->source < 0)
			continue;
		if (ram_load(block, block->source, 0, block->size) < 0) {
			fault_os(fault, errno);
			return fault_wrap(fault, "Cannot copy the file of guest memory '%s'", block->name);
		}
		fd_close(&block->source);
	}
	return CCHV_OK;
}
