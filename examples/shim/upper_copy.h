/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container wrote, in the upper directory of its overlay on the host: so that "docker cp", "diff" and "commit"
 * of a stopped container see it. The container itself writes to a scratch disk beside that directory, and once it has
 * ended, before anybody is told, the guest's upper layer is written back. Enters: two paths, a container that has
 * ended. Leaves: the upper directory, and a note of which of the two tells the truth.
 *
 * The note is a file beside the scratch disk, one line:
 *
 *   (none)     what is in upperdir, if anything, is a layer of its own below the scratch disk
 *   ahead F    the container runs, or did not come to its end properly: the scratch disk has it all, upperdir something
 *              older, which is passed over
 *   copied F   both are the same. F is what upperdir looked like then (inodes, sizes, times): where it looks otherwise,
 *              somebody has changed the stopped container ("docker cp" into it). Then the scratch disk is dropped, and
 *              what is in upperdir becomes a layer
 *   merged     upperdir has it all, the scratch disk is to be dropped: it lay over a layer that upperdir was then
 *
 * A crash at any moment leaves a note by which nothing is lost that was on the scratch disk.
 */
#ifndef SHIM_UPPER_COPY_H
#define SHIM_UPPER_COPY_H

#include <cchv/cchv.h>

struct upper_copy;

/*
 * Before the container's settings are made. scratch is the disk's path; NULL: it lies elsewhere and goes with the
 * container. scratch_bytes: the size of one that is not there yet; 0: the library's default. wanted: it is to be
 * written back at the end. *ret_below: what is in the directory is a layer. 0, or a code and *ret_error.
 */
int upper_copy_open(const char *upper, const char *scratch, uint64_t scratch_bytes, int wanted,
		    struct upper_copy **ret_copy, int *ret_below, char **ret_error);
/* Before the first instruction of the container. */
int upper_copy_begin(struct upper_copy *copy, char **ret_error);
/* Whether there is something to be written back: it has begun, and it is wanted. */
int upper_copy_is_due(const struct upper_copy *copy);
/* After its last instruction; the VM still runs. Once. A guest that sends more than fits on its disk is refused. */
int upper_copy_run(struct upper_copy *copy, cchv_container *container, int timeout_ms, char **ret_error);
/* NULL is allowed. */
void upper_copy_free(struct upper_copy *copy);

#endif
