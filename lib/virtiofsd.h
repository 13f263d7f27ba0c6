/* SPDX-License-Identifier: Apache-2.0 */
/* virtiofsd: the process behind a shared directory. Started, watched and reaped by the VM's owner. */
#ifndef LIB_VIRTIOFSD_H
#define LIB_VIRTIOFSD_H

#include "base/error.h"
#include "base/json.h"
#include "vmm/device.h"

struct cchv_vm;
struct virtiofsd;

/* The program and which of its two command lines it has. CCHV_ERR_NOT_FOUND says what to install. */
enum virtiofsd_flavour { VIRTIOFSD_RUST = 1, VIRTIOFSD_QEMU = 2 };

int virtiofsd_find(char **ret_path, int *ret_flavour, cchv_error **err);

/* Start one for the directory; its socket listens already when this returns. */
int virtiofsd_start(struct cchv_vm *vm, const struct cchv_fs_config *fs, struct virtiofsd **ret_daemon,
                    cchv_error **err);
/* Its socket, relative to the run directory; lent. */
const char *virtiofsd_socket(const struct virtiofsd *daemon);
/* {"pid","start"} for vm.json. */
struct json *virtiofsd_json(const struct virtiofsd *daemon);
/* Kill, reap, remove the socket. NULL is fine. */
/* In a child after fork(): only memory and descriptors are left to free. */
void virtiofsd_forget(struct virtiofsd *daemon);
void virtiofsd_free(struct virtiofsd *daemon);

#endif
