/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread works on may become of no use to anybody. Waits lie deep in rooms that know nothing of who wants what:
 * they watch this descriptor beside their own.
 */
#ifndef SHIM_CANCEL_FD_H
#define SHIM_CANCEL_FD_H

/* For this thread, from here on; -1: nobody breaks it off. Lent. */
void cancel_fd_set(int fd);
/* -1, which poll() passes over, or readable when it is time to give up. */
int cancel_fd_get(void);

#endif
