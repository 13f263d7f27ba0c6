/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which template fits a VM. A key stands for all that a snapshot freezes: two VMs of one key may start from one
 * template.
 */
#ifndef LIB_TEMPLATE_KEY_H
#define LIB_TEMPLATE_KEY_H

#include <cchv/vm_config.h>

#include "base/buf.h"
#include "base/error.h"
#include "image/sha256.h"

#define TEMPLATE_MAX_VCPUS 8 /* of every template: processors that are not there cost a clone nothing */

struct template_parts {
	const char *vmm;             /* absolute paths */
	int vmm_kind;
	const char *kernel, *initramfs;
};

/* Why a VM of these settings cannot start from any template: a constant. NULL: it can. */
const char *template_why_not(const cchv_vm_config *config);
/* The settings that every template is booted with; memory of the caller's. */
int template_config_new(cchv_vm_config **ret_config, cchv_error **err);
/* CCHV_ERR_NOT_FOUND and the like when a part is not there. */
int template_key(const struct template_parts *parts, char ret_key[SHA256_HEX_SIZE], cchv_error **err);
/* What of /proc/cpuinfo tells one kind of processor from another, appended to out. For template_key(), and its test. */
int template_describe_cpu(const char *cpuinfo, struct buf *out);

#endif
