/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a process, for the objects. */
#ifndef LIB_EXEC_CONFIG_H
#define LIB_EXEC_CONFIG_H

#include <cchv/exec.h>

#include "base/error.h"
#include "base/json.h"

#define EXEC_ID_MAX 76

/*
 * Setters write into "own". A process that was given whole is own alone; else own is laid over the process of the
 * container's init: its members replace, its variables join.
 */
struct cchv_exec_config {
	char *id;                  /* NULL: generated */
	int whole;
	struct json *own;
	struct json *unset_env;    /* array of names */
	cchv_stdio_config *stdio;  /* NULL: all /dev/null */
};

/* The "process" for the agent; base is the init's. Fails naming what is wrong. */
int exec_config_build(const cchv_exec_config *config, const struct json *base, struct json **ret_process,
                      cchv_error **err);

#endif
