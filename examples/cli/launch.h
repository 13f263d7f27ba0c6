/* SPDX-License-Identifier: Apache-2.0 */
/* Launching: from a record and its options to a container whose init runs, in a VM that this process owns. */
#ifndef CLI_LAUNCH_H
#define CLI_LAUNCH_H

#include "record.h"
#include "run_options.h"

#define CALL_MS       60000 /* for calls that a loaded host may slow down */
#define BOOT_MS       180000
#define SHUTDOWN_MS   30000
#define LOG_MAX_BYTES (64ULL << 20) /* per stream and file; at most twice as much is kept */

struct launch {
	cchv_ctx *ctx;
	cchv_vm *vm;
	cchv_container *container;
	cchv_exec *init;
	struct record *record;
	uint64_t started_ns; /* of this launch, for --timing */
	int timing;
};

/* The image that a user means; imported or pulled where needed, with progress. 0, or an exit code. */
int image_resolve(cchv_ctx *ctx, const char *text, int show_progress, cchv_image **ret_image);
/* Import with progress on stderr when it is a terminal. 0, or an exit code after an error line. */
int image_import(cchv_ctx *ctx, const struct strings *sources, const char *name, cchv_image **ret_image);

/* A VM, the container in it, everything up to the start. 0, or an exit code after an error line; then all is
 * undone. */
int launch_prepare(cchv_ctx *ctx, struct record *record, const struct run_options *options, cchv_image *image,
		   struct launch *ret_launch);
/* Start init. stdio is what the caller wants beside the logs. 0, 127, 126 or 125 after an error line. */
int launch_go(struct launch *launch, const struct run_options *options, cchv_stdio_config *stdio);
/* In place of both: the container goes on out of the record's snapshot, its output into the logs. 0, or an exit code
 * after an error line; then all is undone. */
int launch_restore(cchv_ctx *ctx, struct record *record, const struct run_options *options, cchv_stdio_config *stdio,
		   struct launch *ret_launch);
/* After init's end, or a failure: end the VM, cleanly where it answers, and free everything. */
void launch_end(struct launch *launch);
/* The streams' logs beside the record, as both starts have them. 0, or an exit code after an error line. */
int launch_set_logs(cchv_ctx *ctx, const struct record *record, const struct run_options *options,
		    cchv_stdio_config *stdio);
void launch_note_time(struct launch *launch, const char *step);

/* Make an ext4 image of that size where there is none. 0, or an exit code after an error line. */
int disk_make(const char *path, uint64_t bytes);

#endif
