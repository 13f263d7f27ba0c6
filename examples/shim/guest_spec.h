/* SPDX-License-Identifier: Apache-2.0 */
/* The specification as the guest shall have it: without what is the host's business. */
#ifndef SHIM_GUEST_SPEC_H
#define SHIM_GUEST_SPEC_H

#include <yajl/yajl_tree.h>

/* The library's id of the container whose process on this host has this pid; "": the VM itself, whose namespaces are
 * the pod's; NULL: none of this VM. */
typedef const char *(*guest_spec_find_fn)(int pid, const char *type, void *data);

/* Changes the tree. 0, or CCHV_ERR_* and *ret_error (free() it), which names the field. */
int guest_spec_adapt(yajl_val spec, guest_spec_find_fn find, void *data, char **ret_error);
/* linux.resources alone, of an update too. */
void guest_spec_adapt_resources(yajl_val resources);

#endif
