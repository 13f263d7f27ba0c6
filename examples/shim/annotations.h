/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Annotations io.cchv.*: what a user may ask for, as far as the administrator allows it. The table of them is in
 * annotations.c, and for people in examples/kubernetes/README.md.
 */
#ifndef SHIM_ANNOTATIONS_H
#define SHIM_ANNOTATIONS_H

#include <stdint.h>

#include "shim_config.h"

#define ANNOTATION_PREFIX "io.cchv."

/* NULL, 0: not asked for. */
struct annotations {
	char *rootfs, *write_back;               /* of the container */
	uint64_t scratch_mib;                    /* of the container */
	char *kernel, *initramfs, *cmdline;      /* of the VM */
	uint64_t memory_mib, vcpus;              /* of the VM, at least */
};

/*
 * One annotation, whatever its name: others than io.cchv.* are passed over. 0, or CCHV_ERR_* and *ret_error, one line
 * with its name: unknown, not allowed, or malformed.
 */
int annotations_take(struct annotations *annotations, const struct shim_config *config, const char *name,
		     const char *value, char **ret_error);
/* The VM's part over the administrator's settings. 0 or CCHV_ERR_NOMEM. */
int annotations_apply(const struct annotations *annotations, struct shim_config *config);
void annotations_free(struct annotations *annotations);

#endif
