/* SPDX-License-Identifier: Apache-2.0 */
/* What tar.c, tar_header.c, tar_pax.c and tar_sparse.c share. Nobody else includes this. */
#ifndef WIRE_TAR_PARSE_H
#define WIRE_TAR_PARSE_H

#include "wire/tar.h"

/* One header block, as far as it can be told alone. */
struct tar_header {
	struct tar_entry entry;   /* path and link are set; type of GNU's and pax's own headers is below */
	char type;                /* the type flag as it stands */
	uint64_t stored;          /* bytes of data that follow, before padding */
	int is_old_sparse;        /* GNU 'S': pieces begin in this block... */
	int has_more_pieces;      /* ...and go on in blocks of their own */
};

/* 1: a header; 0: a block of zeros; negative: CCHV_ERR_PROTOCOL (checksum, numbers) or CCHV_ERR_NOMEM. */
int tar_header_parse(const uint8_t block[TAR_BLOCK], struct tar_header *ret, cchv_error **err);
/* A number field: octal or base-256. 0, or CCHV_ERR_PROTOCOL. */
int tar_number(const uint8_t *field, size_t len, int64_t *ret);

/* What pax records say about the next entry, beyond what is put into it directly. */
struct tar_pax {
	int sparse_major, sparse_minor; /* -1: not said */
	char *sparse_name;              /* owned */
	uint64_t sparse_size;
	int has_sparse_size;
	struct tar_piece *pieces;       /* of the forms 0.0 and 0.1; owned */
	size_t piece_count;
	int has_pieces;
	uint64_t pending_offset;        /* 0.0: an offset waits for its length */
	int has_pending;
};

#define TAR_PAX_INIT { .sparse_major = -1, .sparse_minor = -1 }

/* Apply the records to the entry. is_global: only what may be said for all entries. */
int tar_pax_apply(const uint8_t *data, size_t len, int is_global, struct tar_header *header, struct tar_pax *pax,
                  cchv_error **err);
void tar_pax_free(struct tar_pax *pax);

/* Pieces: add one; check a whole map against the file's size and the bytes that are stored for it. */
int tar_piece_add(struct tar_piece **pieces, size_t *count, uint64_t offset, uint64_t len, cchv_error **err);
int tar_pieces_check(const struct tar_entry *entry, uint64_t stored, cchv_error **err);
/* The pieces in a GNU header block (4, at 386) or an extension block (21, at 0): 1 more follow, 0 not. */
int tar_pieces_of_block(const uint8_t block[TAR_BLOCK], int is_header, struct tar_entry *entry, cchv_error **err);

void tar_entry_free(struct tar_entry *entry); /* its inside */

#endif
