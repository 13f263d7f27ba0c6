/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's news of devices. */
#ifndef GUEST_UEVENT_H
#define GUEST_UEVENT_H

#include "guest/agent.h"

int uevents_new(struct agent *agent, cchv_error **err);
void uevents_free(struct agent *agent);

/* For workers that wait for a device: a socket of their own. -1 and errno. */
int uevent_open(void);
/* Wait for any event until the deadline and drop it; 0, or -1 ETIMEDOUT. */
int uevent_wait(int fd, uint64_t deadline);
/* The value of KEY= in a message of NUL-ended strings, or NULL. */
const char *uevent_get(const char *message, size_t len, const char *key);

#endif
