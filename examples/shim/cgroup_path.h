/* SPDX-License-Identifier: Apache-2.0 */
/* Where on this host a VM's processes are counted and limited: linux.cgroupsPath, in the forms that clients write. */
#ifndef SHIM_CGROUP_PATH_H
#define SHIM_CGROUP_PATH_H

/* SystemdCgroup of the runtime's options and of config.toml. */
enum cgroup_style {
	CGROUP_BY_FORM = 0, /* nobody has said it: "slice:prefix:name" is systemd's, all else is a path */
	CGROUP_SYSTEMD,
	CGROUP_PLAIN /* each text is a path, whatever it looks like */
};

/*
 * *ret_path: below the root of the cgroup trees, allocated; NULL where the text is NULL or empty: the VM's processes
 * stay in the daemon's. 0, or CCHV_ERR_INVALID and *ret_error, which names the text.
 */
int cgroup_path_of(const char *text, enum cgroup_style style, char **ret_path, char **ret_error);
/* The text for a pod that comes with a parent alone, as the daemon writes it for containers. NULL: none. */
char *cgroup_path_text(const char *parent, const char *id);

#endif
