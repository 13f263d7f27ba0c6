/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container's record: what the command remembers of it, in <state-dir>/containers/<id>/record.json, beside
 * the library's own files there. The VM and the container carry the record's id.
 */
#ifndef CLI_RECORD_H
#define CLI_RECORD_H

#include "cli.h"

enum status { STATUS_CREATED, STATUS_RUNNING, STATUS_PAUSED, STATUS_EXITED };

struct record {
	char *id;
	char *name;
	char *image; /* as the user typed it */
	char *image_digest;
	char *image_path; /* of a file outside of the cache, or NULL */
	char *command; /* for people */
	uint64_t created_ns;
	uint64_t started_ns; /* 0: never */
	int remove;          /* --rm */
	int from_run;        /* made by run: worth nothing if it never ran */
	int tty;
	int interactive;
	char *stop_signal;    /* or NULL: SIGTERM */
	char *snapshot;       /* a directory: it comes to life first out of that; or NULL */
	char *snapshot_id;    /* its id in the snapshot, with it */
	struct strings words; /* of run_options.h: options, image, command */
	/* Looked up, not kept: */
	enum status status;
	int exit_code; /* -1: unknown */
	int exit_signal;
	uint64_t finished_ns;
	int oom_killed;
	char *reason; /* why the VM stopped, or NULL */
};

struct records {
	struct record **items;
	size_t count;
};

/* Make a record under a fresh id; name NULL: invented. One of run's is held. 0, or an exit code after an error line. */
int record_create(cchv_ctx *ctx, const char *name, int from_run, struct record **ret_record);
int record_save(cchv_ctx *ctx, struct record *record);
/* Open the image that it was made from. 0, or an exit code after an error line. */
int record_open_image(cchv_ctx *ctx, const struct record *record, cchv_image **ret_image);
/* By name, id or unique beginning of an id; with its status. 0, or an exit code after an error line. */
int record_find(cchv_ctx *ctx, const char *name, struct record **ret_record);
int record_read(cchv_ctx *ctx, const char *id, struct record **ret_record);
/* The record in a file that is no container's own. 0, or an exit code after an error line. */
int record_read_file(const char *path, const char *id, struct record **ret_record);
int record_list(cchv_ctx *ctx, struct records *ret_records); /* newest first */
void record_look_up_status(cchv_ctx *ctx, struct record *record);
/* Forget what is known of an earlier end, before a new start. */
int record_forget_end(cchv_ctx *ctx, struct record *record);
/* Say that this process, until it ends, brings the container to life or serves it. 0, or an exit code. */
int record_hold(cchv_ctx *ctx, const struct record *record);
int record_is_held(cchv_ctx *ctx, const struct record *record);
/* Remove the record's directory with all that lies in it. */
int record_remove(cchv_ctx *ctx, struct record *record);
void record_free(struct record *record);
void records_free(struct records *records);

char *record_path(cchv_ctx *ctx, const char *id, const char *file); /* file NULL: the directory */
int record_name_is_valid(const char *name);
/* What the shell sees of an end: the code, or 128 + signal. */
int record_exit_status(const struct record *record);
const char *status_name(enum status status);

#endif
