/* SPDX-License-Identifier: Apache-2.0 */
/* Owners: the foreground command itself, or a monitor in the background. */
#ifndef CLI_OWNER_H
#define CLI_OWNER_H

#include "launch.h"

/* Be the owner in the foreground, until the process ends. The exit code of the command. */
int owner_foreground(cchv_ctx *ctx, struct record *record, const struct run_options *options,
		     cchv_image *image);
/* Start a monitor for the record; returns when its process runs (0) or could not (an exit code, after an
 * error line). */
int owner_background(struct record *record);
/* The options that the record's words hold. 0, or an exit code. */
int owner_read_options(struct record *record, struct run_options *ret_options);

#endif
