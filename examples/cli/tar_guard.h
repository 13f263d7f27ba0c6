/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes out of a container is bytes of a stranger. The guard stands before the tar that unpacks them: it lets a
 * stream pass whose names stay below one directory and whose entries and bytes stay below a limit, and nothing else.
 * It takes no more than the forms that the agent writes: what is read in two ways by two programs, such as a size that
 * begins with a blank, would let entries through that only tar sees.
 */
#ifndef CLI_TAR_GUARD_H
#define CLI_TAR_GUARD_H

#include <stddef.h>
#include <stdint.h>

#define TAR_BLOCK 512
#define TAR_NAME_MAX 4096

struct tar_guard {
	uint64_t max_bytes, max_entries; /* of the data, and in number */
	uint64_t bytes, entries;         /* so far */
	uint64_t left;                   /* of the data of the entry at hand */
	char *records;                   /* of an extended header, which is kept until it is whole */
	size_t records_len, records_size;
	int in_records, zeros;
	int has_records;                 /* an extended header came, and its entry has not */
	int has_size, is_sparse, has_major, has_minor, has_real_size; /* what it says of that entry */
	uint64_t size, real_size;
	struct {                         /* of a sparse file, before its data: COUNT, then OFFSET, LENGTH of each */
		int on, digits;
		uint64_t number, left, offset, end, sum; /* left: numbers; end: of the last piece */
	} map;
	char name[TAR_NAME_MAX], link[TAR_NAME_MAX], real_name[TAR_NAME_MAX];
	char error[2 * TAR_NAME_MAX];    /* why not, in one line */
};

void tar_guard_init(struct tar_guard *guard, uint64_t max_bytes, uint64_t max_entries);
/* One block of the stream, in its order. 0: it may pass; -1: the stream ends here, error says why. */
int tar_guard_block(struct tar_guard *guard, const unsigned char block[TAR_BLOCK]);
/* The stream has ended. 0, or -1 where it was cut. */
int tar_guard_end(struct tar_guard *guard);
void tar_guard_free(struct tar_guard *guard);
/* All of in, as far as it may pass, to out: 0; -1 with an error, or with none where in or out failed. */
int tar_guard_copy(struct tar_guard *guard, int in, int out);

#endif
