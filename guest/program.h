/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a program: arguments, environment, and the files that argv[0] may mean. For bare and container plans. */
#ifndef GUEST_PROGRAM_H
#define GUEST_PROGRAM_H

#include "guest/agent.h"

struct program {
	char **argv;         /* NULL-ended, as the two others */
	char **envp;
	char **candidates;   /* paths, in the order of PATH; argv[0] itself when it has a slash */
};

/*
 * From an OCI process object: args (at least one, the first not empty: else EINVAL, kind "spec"), env (NAME=VALUE,
 * the last of one name counts), PATH out of env, or a usual one.
 */
int program_new(const struct json *process, struct program *ret_program, const char **kind, cchv_error **err);
/* Set a variable that is not set; 0 or CCHV_ERR_NOMEM. */
int program_default_env(struct program *program, const char *name, const char *value);
void program_free(struct program *program);

#endif
