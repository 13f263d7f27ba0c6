/* SPDX-License-Identifier: Apache-2.0 */
/* What the VMM says about itself and its VM: replies of vmm.ping, vm.info, vm.counters and the add calls. */
#ifndef VMM_INFO_H
#define VMM_INFO_H

#include "base/json.h"

#define VMM_MIN_VERSION 53        /* half-close, the guest's clock, memory fixes */
#define VMM_PCI_ADDRESS_SIZE 16   /* "0000:00:05.0" and its NUL */

/* The version as text (lent); CCHV_ERR_UNSUPPORTED below VMM_MIN_VERSION, CCHV_ERR_PROTOCOL for rubbish. */
int vmm_ping_check(const struct json *reply, const char **ret_version, cchv_error **err);

struct vmm_info {
	const char *state;        /* "Created", "Running", "Paused", ...; lent */
	uint64_t memory_bytes;    /* the VM's size now */
	uint32_t vcpus;
	const char *console_path; /* the pty, or NULL; lent */
};

int vmm_info_parse(const struct json *info, struct vmm_info *ret_info, cchv_error **err);
/* The PCI address of a device in vm.info's device_tree. CCHV_ERR_NOT_FOUND when the tree has none for it. */
int vmm_info_device_address(const struct json *info, const char *id, char ret_address[VMM_PCI_ADDRESS_SIZE],
                            cchv_error **err);
/* The PCI address in the reply of an add call. */
int vmm_added_address(const struct json *reply, char ret_address[VMM_PCI_ADDRESS_SIZE], cchv_error **err);

#endif
