/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files with large holes. mkfs.erofs 1.5 writes holes out (20 GiB for a 20 GiB hole), so it never sees them: the
 * file in the staging tree is emptied, its data are kept here in chunks, and when the image is built an inode of
 * the chunk layout is put in its place (erofs_patch.h). A hole then costs four bytes for each chunk.
 */
#ifndef IMAGE_SPARSE_H
#define IMAGE_SPARSE_H

#include <sys/stat.h>

#include "base/buf.h"
#include "base/error.h"
#include "image/map64.h"
#include "image/progress.h"

#define SPARSE_MIN_HOLE (1U << 20)      /* below it a hole is written out */
#define SPARSE_MAX_CHUNKS (64U << 10)   /* of one file: chunks grow with it */
#define SPARSE_MAX_TABLES (256U << 20)  /* bytes of all tables */

struct sparse_file {
	uint64_t ino;
	uint64_t size;
	uint8_t chunk_bits;
	uint32_t chunk_count;
	size_t table;           /* where in tables its entries begin: block in data, or EROFS_NULL_BLOCK */
};

struct sparse {
	int fd;                 /* the data, chunk after chunk, each at a multiple of 4096 */
	uint64_t blocks;        /* of the data */
	struct buf tables;      /* uint32_t */
	struct sparse_file *files;
	size_t count;
	struct map64 by_ino;    /* inode: index in files */
};

int sparse_open(struct sparse *sparse, const char *data_path, cchv_error **err); /* makes the file */
void sparse_close(struct sparse *sparse);
#define cleanup_sparse __attribute__((cleanup(sparse_close)))

int sparse_is_wanted(const struct stat *st); /* a regular file with large holes */
/* Take the data out of a file of the staging tree, and leave it empty with its old times. */
int sparse_take(struct sparse *sparse, int root_fd, const char *path, const struct stat *st, cchv_progress *progress,
                cchv_error **err);
const struct sparse_file *sparse_find(const struct sparse *sparse, uint64_t ino); /* NULL: none; sparse may be NULL */
const uint32_t *sparse_table(const struct sparse *sparse, const struct sparse_file *file);

#endif
