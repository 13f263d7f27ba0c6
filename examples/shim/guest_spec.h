/* SPDX-License-Identifier: Apache-2.0 */
/* The specification as the guest shall have it: without what is the host's business. */
#ifndef SHIM_GUEST_SPEC_H
#define SHIM_GUEST_SPEC_H

#include <yajl/yajl_tree.h>

/* The library's id of the container whose namespace this path is; "": the VM itself, whose namespaces are the pod's;
 * NULL: that of nobody in this VM. */
typedef const char *(*guest_spec_find_fn)(const char *path, const char *type, void *data);
/* What it returns for a namespace on the host that stands for one that is still to be made in the guest. */
extern const char guest_spec_new[];
/* "/proc/<pid>/ns/<kind>" -> pid; 0 for any other path. */
int guest_spec_pid(const char *path);

/* Changes the tree. 0, or CCHV_ERR_* and *ret_error (free() it), which names the field. */
int guest_spec_adapt(yajl_val spec, guest_spec_find_fn find, void *data, char **ret_error);
/* linux.resources alone, of an update too. */
void guest_spec_adapt_resources(yajl_val resources);

#endif
