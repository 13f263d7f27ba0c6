/* SPDX-License-Identifier: Apache-2.0 */
/* Removing what dead owners left. */
#ifndef LIB_PRUNE_H
#define LIB_PRUNE_H

#include "findings.h"
#include "vm_record.h"

/*
 * End every process that lives in a run directory (the VMM, its QEMU, virtiofsd all have it as cwd), except ourselves.
 * Returns when they are gone, or at the deadline (CCHV_ERR_TIMEOUT).
 */
int prune_kill_residents(const char *run_dir, uint64_t deadline, cchv_error **err);

#endif
