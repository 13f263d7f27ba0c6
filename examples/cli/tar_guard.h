/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes out of a container is bytes of a stranger. The guard stands before the tar that unpacks them: it lets a
 * stream pass whose names stay below one directory and whose entries and bytes stay below a limit, and nothing else.
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
	int in_records, zeros, ended;
	int has_size;                    /* what the extended header says of the entry that follows it */
	uint64_t size;
	char name[TAR_NAME_MAX], link[TAR_NAME_MAX], real_name[TAR_NAME_MAX];
	char error[2 * TAR_NAME_MAX];    /* why not, in one line */
};

void tar_guard_init(struct tar_guard *guard, uint64_t max_bytes, uint64_t max_entries);
/* One block of the stream, in its order. 0: it may pass; -1: the stream ends here, error says why. */
int tar_guard_block(struct tar_guard *guard, const unsigned char block[TAR_BLOCK]);
/* The stream has ended. 0, or -1 where it was cut. */
int tar_guard_end(struct tar_guard *guard);
void tar_guard_free(struct tar_guard *guard);

#endif
