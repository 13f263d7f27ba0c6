/* SPDX-License-Identifier: Apache-2.0 */
/* A QEMU process: ours alone, dying with us, spoken to by QMP; what it says on stderr goes to the log. */
#ifndef QEMU_MACHINE_H
#define QEMU_MACHINE_H

#include "base/log.h"
#include "base/proc.h"
#include "qmp.h"

#define MACHINE_QMP_FD 3        /* the monitor's socket in the child */
#define MACHINE_FIRST_FD 10     /* the first one of a device */

struct machine;

/* Returns while the machine is being made. */
int machine_start(struct loop *loop, const struct log_sink *log, const char *const *argv, const struct proc_fd *fds,
                  size_t fd_count, struct machine **ret_machine, struct fault *fault);
/* Returns when it is complete and runs, or has failed (the fault is QEMU's last line). */
int machine_await(struct machine *machine, struct fault *fault);
/* Kills it, waits for its end (locks and files are free then). NULL is fine. */
void machine_free(struct machine *machine);

struct qmp *machine_qmp(struct machine *machine);
/* QEMU's last line on stderr, or "". Lent. */
const char *machine_last_words(const struct machine *machine);
/* It has died by itself, or closed its monitor. *ret_status: wait status. */
int machine_has_died(struct machine *machine, int *ret_status);
/* Devices whose driver has set DRIVER_OK since the last call: a count that says "look". */
int machine_take_activations(struct machine *machine);

DEFINE_CLEANUP(machine, struct machine, machine_free)
#define cleanup_machine __attribute__((cleanup(machine_cleanup)))

#endif
