/* SPDX-License-Identifier: Apache-2.0 */
/* What the administrator has set: /etc/cchv/config.toml, or what the runtime's options name in its place. */
#ifndef SHIM_SHIM_CONFIG_H
#define SHIM_SHIM_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "cgroup_path.h"
#include "wire.h"

#define SHIM_CONFIG_PATH "/etc/cchv/config.toml"

struct shim_config {
	/* NULL, 0: the default */
	char *runtime_dir, *state_dir, *vmm, *kernel, *initramfs, *cmdline, *rootfs, *write_back;
	uint64_t memory_mib, vcpus, scratch_mib;
	int build_templates;
	enum cgroup_style systemd_cgroup;
	char **allow_annotations; /* NULL: nothing was said of them */
	size_t allow_count;
	uint64_t least_memory_mib, least_vcpus; /* what an annotation asks for; 0: none does */
};

/* options: the runtime's options, an Any, or empty. 0, or CCHV_ERR_* and *ret_error, one line with file and
 * line. */
int shim_config_read(struct wire_view options, struct shim_config *ret, char **ret_error);
/* Text in TOML, of which tables, texts, lists of texts on one line, whole numbers and booleans are understood.
 * "is_ours": unknown keys are an error; else they may be another runtime's. */
int shim_config_parse(const char *text, const char *name, int is_ours, struct shim_config *config,
		      char **ret_error);
void shim_config_free(struct shim_config *config);

#endif
