/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel modules. /modules/index, made with the kernel package (kernel-package.sh), names them: one line each,
 *   NAME STAGE DEPENDENCIES ALIAS...
 * STAGE is "boot" (loaded before anything else) or "demand"; DEPENDENCIES are names in load order, with commas, or
 * "-"; aliases are shell patterns, as modinfo shows them. Without an index the kernel has all built in.
 */
#ifndef GUEST_MODULE_H
#define GUEST_MODULE_H

#include "guest/agent.h"

/* The modules that vsock needs. */
void module_load_boot(const struct log_sink *log);
/* Load what the present devices ask for, in a worker. */
int module_coldplug(struct agent *agent, cchv_error **err);
/* A device with that alias has appeared: load its driver, in a worker, if there is one that is not loaded. */
void module_hotplug(struct agent *agent, const char *alias);
/* Blocks; for workers. How many modules of that alias or name were loaded or are there; negative errno. */
int module_load_alias(const char *alias);

/* Blocks; for workers. Load all that there are: what cannot be is left out, since its device may be missing. */
void module_load_all(void);

/* The kernel runs /sbin/modprobe, a link to us (of boot.c), when it wants a module (a file system, a protocol). */
int module_is_helper(const char *argv0);
int module_helper(int argc, char **argv);

#endif
