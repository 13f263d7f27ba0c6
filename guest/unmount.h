/* SPDX-License-Identifier: Apache-2.0 */
/* The last unmounting. */
#ifndef GUEST_UNMOUNT_H
#define GUEST_UNMOUNT_H

/* Unmount what has a device or a host behind it; what is busy becomes read-only. For the end of the VM. */
void unmount_all(void);

#endif
