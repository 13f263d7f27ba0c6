/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's memory, as files of ours that QEMU maps: memfds, so that the vsock device and virtiofsd map the same
 * pages, and so that a snapshot can write what is in them. The one exception is a zone that the client keeps in a
 * file, shared: that is its own snapshot.
 */
#ifndef QEMU_RAM_H
#define QEMU_RAM_H

#include "config.h"

/* One memory back end of QEMU's. */
struct ram_block {
	struct ram_block *next;
	char name[16];                  /* QEMU's: "ram0", "d7m", "dimm0m" */
	int fd;                         /* -1: kept in the client's file */
	int source;                     /* a file that ram_fill() is to copy into it; -1: none */
	uint64_t size;
};

struct ram {
	struct ram_block *blocks;       /* in the order in which they were made */
};

/* options: an object with hugepages, hugepage_size. */
int ram_add(struct ram *ram, const char *name, uint64_t size, const struct json *options,
            struct ram_block **ret_block, struct fault *fault);
/* Remember one that the client keeps. */
int ram_add_kept(struct ram *ram, const char *name, uint64_t size, struct fault *fault);
struct ram_block *ram_find(const struct ram *ram, const char *name);
void ram_drop(struct ram *ram, struct ram_block *block);
void ram_free(struct ram *ram);

/*
 * A private copy of a file: its blocks are shared where the file system can (FICLONE); else the data that it has is
 * copied by ram_fill(), for which there is time until somebody looks at it.
 */
int ram_add_copy(struct ram *ram, const char *name, uint64_t size, const char *path, const struct json *options,
                 struct ram_block **ret_block, struct fault *fault);
int ram_fill(struct ram *ram, struct fault *fault);

/* Where its last data ends; 0: it is all holes. -1 with errno. */
int ram_end(const struct ram_block *block, uint64_t *ret_end);
/*
 * Write the first len bytes of a block into a file at an offset, or read them from there; holes stay holes. The block
 * read into must be fresh. -1 with errno; ENODATA: the file ends before.
 */
int ram_save(const struct ram_block *block, int file, uint64_t offset, uint64_t len);
int ram_load(const struct ram_block *block, int file, uint64_t offset, uint64_t len);

#endif
