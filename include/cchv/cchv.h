/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcchv: each container in a Cloud Hypervisor microVM of its own. This file includes all others, each of
 * which can also be included alone.
 *
 * Results. Functions return int: 0 (CCHV_OK) or more is success, a negative number is one of enum cchv_err.
 * Those that can fail in more than a setter's way take `cchv_error **err` as their last parameter; it may be
 * NULL, and is always written. Results in ret_ parameters are written only on success. What each function's
 * block lists under Return is what it can answer in good use; besides, every function answers
 * CCHV_ERR_INVALID to a NULL or malformed argument, CCHV_ERR_NOMEM when memory is short, and
 * CCHV_ERR_FORKED in a process that was forked from the one that made the object (only the free functions
 * work there; exec() or make your own context).
 *
 * Ownership. set_ and add_ copy, fds too (you still close yours); get_ lends; take_ gives; what ret_ receives
 * is yours to free with the function that the block names. Free functions accept NULL. Children keep their
 * parents alive: free in any order.
 *
 * Time. timeout_ms is in milliseconds: 0 looks once, -1 waits for ever. Points in time are nanoseconds since
 * the epoch (CLOCK_REALTIME).
 *
 * Threads. Contexts: set up in one thread, then shared. VMs, containers, execs, pools: any thread, any time; a
 * blocked call never keeps cchv_exec_signal() or cchv_vm_kill() of another thread waiting. Configs, errors,
 * events, stats, lists, findings: one thread at a time. The library starts no thread, installs no signal
 * handler, reads no environment variable but PATH, prints nothing and never exits.
 *
 * Strings are NUL-terminated bytes; those that the library makes itself are UTF-8. Paths are absolute.
 */
#ifndef CCHV_CCHV_H
#define CCHV_CCHV_H

#include <cchv/container.h>
#include <cchv/container_config.h>
#include <cchv/ctx.h>
#include <cchv/device.h>
#include <cchv/error.h>
#include <cchv/event.h>
#include <cchv/exec.h>
#include <cchv/findings.h>
#include <cchv/image.h>
#include <cchv/list.h>
#include <cchv/pool.h>
#include <cchv/snapshot.h>
#include <cchv/stats.h>
#include <cchv/template.h>
#include <cchv/version.h>
#include <cchv/vm.h>
#include <cchv/vm_config.h>

#endif /* CCHV_CCHV_H */
