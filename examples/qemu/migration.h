/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's migration, by which it writes and reads the state of its devices; memory stays where it is (ram.h). */
#ifndef QEMU_MIGRATION_H
#define QEMU_MIGRATION_H

#include "base/loop.h"
#include "qmp.h"

#define MIGRATION_STATE_MAX (32u << 20)

/* Of a machine that stands still. state: empty; what comes is appended. */
int migration_save(struct loop *loop, struct qmp *qmp, struct buf *state, struct fault *fault);
/* Into a machine that was started to wait for it; it stands still afterwards. */
int migration_load(struct loop *loop, struct qmp *qmp, const void *state, size_t len, struct fault *fault);

#endif
