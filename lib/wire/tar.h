/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading tar archives: v7, ustar, pax, GNU (long names, sparse files in all four forms, base-256 numbers), star.
 * Our own, because libarchive brings 14 libraries (ICU among them) into each process and passes names through the
 * locale: here names are bytes. What cannot be kept is refused by name, never dropped.
 */
#ifndef WIRE_TAR_H
#define WIRE_TAR_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

#define TAR_BLOCK 512
#define TAR_META_MAX (16U << 20) /* of one pax header, long name or sparse map */
#define TAR_SPARSE_MAX (1U << 20) /* pieces of one file */

enum tar_type {
	TAR_FILE = '0',
	TAR_HARD_LINK = '1',
	TAR_SYMLINK = '2',
	TAR_CHAR = '3',
	TAR_BLOCK_DEVICE = '4',
	TAR_DIR = '5',
	TAR_FIFO = '6',
	TAR_SOCKET = 's', /* in no archive: a directory that is read as if it were one may have them */
};

struct tar_xattr {
	char *name;
	uint8_t *value;
	size_t len;
};

struct tar_piece {
	uint64_t offset;
	uint64_t len;
};

struct tar_entry {
	enum tar_type type;
	char *path;             /* as written in the archive; never NULL */
	char *link;             /* target of links, NULL for others */
	uint32_t mode;          /* permission bits, with the set-id bits and the sticky bit */
	uint64_t uid, gid;
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint64_t size;          /* of the file, holes included; 0 for all but files */
	uint32_t dev_major, dev_minor;
	struct tar_xattr *xattrs;
	size_t xattr_count;
	struct tar_piece *pieces; /* of a sparse file: where its data are */
	size_t piece_count;
	int is_sparse;
};

/* Bytes of the archive; 0 at its end; negative CCHV_ERR_*. May return less than asked for. */
typedef ssize_t (*tar_source_fn)(void *user_data, void *data, size_t len, cchv_error **err);

struct tar;

int tar_new(tar_source_fn source, void *user_data, struct tar **ret_tar, cchv_error **err);
void tar_free(struct tar *tar);
/* The next entry, lent until the next call; data of the last one that were not read are skipped. 1, or 0: end. */
int tar_next(struct tar *tar, const struct tar_entry **ret_entry, cchv_error **err);
/* The next data of a file and their place in it, lent until the next call. 1, or 0: no more. */
int tar_read(struct tar *tar, uint64_t *ret_offset, const void **ret_data, size_t *ret_len, cchv_error **err);

DEFINE_CLEANUP(tar, struct tar, tar_free)
#define cleanup_tar __attribute__((cleanup(tar_cleanup)))

#endif
