/* SPDX-License-Identifier: Apache-2.0 */
/* The client's end of a fifo. */
#ifndef SHIM_FIFO_READER_H
#define SHIM_FIFO_READER_H

/*
 * Open a fifo for both directions, once its client reads from it, or after timeout_ms without one. Blocks: call it in
 * an operation's thread. A descriptor that does not block, or -1 with errno.
 */
int fifo_open_when_read(const char *path, int timeout_ms);

#endif
