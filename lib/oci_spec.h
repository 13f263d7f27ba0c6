/* SPDX-License-Identifier: Apache-2.0 */
/* The OCI runtime specification of a container: the default one, and editing. The process is in oci_process.h. */
#ifndef LIB_OCI_SPEC_H
#define LIB_OCI_SPEC_H

#include "base/error.h"
#include "base/json.h"

#define OCI_VERSION "1.2.0"

/* Docker's defaults, but for the network, which is the guest's, and seccomp, which is the agent's. NULL: no memory. */
struct json *oci_spec_new(const char *hostname);

/* CCHV_OK, CCHV_ERR_NOMEM, CCHV_ERR_INVALID where a member of another type is in the way. */
int oci_spec_set_hostname(struct json *spec, const char *hostname);
int oci_spec_set_readonly(struct json *spec, int readonly);
/* 0 removes a limit. */
int oci_spec_set_memory_limit(struct json *spec, uint64_t bytes);
int oci_spec_set_cpu_limit(struct json *spec, uint32_t millicpus);
int oci_spec_set_pids_limit(struct json *spec, uint64_t count);

/* The mount on a destination (the last one), or NULL. */
const struct json *oci_spec_find_mount(const struct json *spec, const char *destination);
/* 1 when linux.devices has a node of that path. */
int oci_spec_has_device(const struct json *spec, const char *path);
/* options: NULL or words with commas. */
int oci_spec_add_mount(struct json *spec, const char *destination, const char *type, const char *source,
                       const char *options);
/* 1 when the mount is a bind of something that exists outside of the container. */
int oci_mount_is_bind(const struct json *mount);
int oci_mount_has_option(const struct json *mount, const char *option);

/*
 * What an image's config (the OCI image spec's "config") says, applied: Entrypoint and Cmd, Env, WorkingDir, User.
 * *ret_entrypoint: how many of the arguments are the entrypoint's. CCHV_ERR_PROTOCOL when it is malformed.
 */
int oci_spec_apply_image(struct json *spec, const char *config_json, size_t *ret_entrypoint, cchv_error **err);

#endif
