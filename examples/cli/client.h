/* SPDX-License-Identifier: Apache-2.0 */
/* A client's way to a running container: its VM, itself and its init, opened together. */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "record.h"

struct client {
	struct record *record;
	cchv_vm *vm;
	cchv_container *container;
	cchv_exec *init;
};

/* 0, or an exit code after an error line (no such container, it does not run). */
int client_open(cchv_ctx *ctx, const char *name, struct client *ret_client);
/* The same by a running container's id, without the record: a CCHV_ERR_ and no line. Close it either way. */
int client_open_quietly(cchv_ctx *ctx, const char *id, struct client *ret_client, cchv_error **err);
void client_close(struct client *client);
/* Until the VM's owner has let go of it: 0, or an exit code after an error line. */
int client_wait_gone(cchv_ctx *ctx, const char *id, int timeout_ms);
/* Call fn for each name; the first exit code that is not 0 counts. Prints the name where fn succeeded. */
int client_for_each(int argc, char **argv, int first, int (*fn)(cchv_ctx *ctx, const char *name, void *data),
		    void *data);

/* cmd_attach.c: show a running container's output, until its end: its exit code. */
int attach_to(cchv_ctx *ctx, const char *name, int with_stdin);

#endif
