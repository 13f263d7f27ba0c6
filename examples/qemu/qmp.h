/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A conversation with QEMU's monitor. A call runs the loop until its reply is there (the vsock device works in the
 * meantime: QEMU may wait for it before it answers). Events are kept in order for whoever asks; nobody is called
 * back, so that nothing of ours runs inside a call.
 */
#ifndef QEMU_QMP_H
#define QEMU_QMP_H

#include "base/loop.h"
#include "fault.h"
#include "qmp_message.h"

struct qmp;

/* Takes the socket and asks for capabilities at once. */
int qmp_new(struct loop *loop, int fd, struct qmp **ret_qmp, cchv_error **err);
void qmp_free(struct qmp *qmp);

/* The monitor has answered for the first time: QEMU's main loop runs, so the machine is complete. */
int qmp_is_ready(const struct qmp *qmp);
int qmp_is_closed(const struct qmp *qmp);

/*
 * arguments may be NULL and are taken. ret_body may be NULL. An error reply is a fault with its description; the end
 * of QEMU and a reply that does not come are faults too. fds: to be sent along (getfd).
 */
int qmp_call(struct qmp *qmp, const char *command, struct json *arguments, struct json **ret_body,
             struct fault *fault);
int qmp_call_fd(struct qmp *qmp, const char *command, struct json *arguments, int fd, struct fault *fault);

/* The oldest event, which the caller frees. 0: none. */
int qmp_next_event(struct qmp *qmp, struct qmp_message *ret_event);
/* The oldest one of that name (and with that value, where a key is given), out of its turn. 0: none. */
int qmp_take_event(struct qmp *qmp, const char *name, const char *key, const char *value,
                   struct qmp_message *ret_event);

DEFINE_CLEANUP(qmp, struct qmp, qmp_free)
#define cleanup_qmp __attribute__((cleanup(qmp_cleanup)))

#endif
