/* SPDX-License-Identifier: Apache-2.0 */
/* The "process" object of the OCI runtime specification, edited. Names and values are bytes. */
#ifndef LIB_OCI_PROCESS_H
#define LIB_OCI_PROCESS_H

#include "base/error.h"
#include "base/json.h"

#define OCI_DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Root in "/", the default PATH, Docker's capabilities, no arguments. NULL when out of memory. */
struct json *oci_process_new(void);
/* The same for the bare guest: all capabilities. */
struct json *oci_process_new_bare(void);

/* All return CCHV_OK, CCHV_ERR_NOMEM, or CCHV_ERR_INVALID where the object has a member of another type there. */
int oci_process_add_arg(struct json *process, const char *arg);
/* Keep the first "keep" arguments. */
int oci_process_cut_args(struct json *process, size_t keep);
/* The value of a variable is replaced where it stands; value NULL removes it. INVALID for a name with '=' or none. */
int oci_process_set_env(struct json *process, const char *name, const char *value);
/* Whole "NAME=value" strings, as image configs have them. */
int oci_process_set_env_word(struct json *process, const struct json *word);
int oci_process_set_cwd(struct json *process, const char *path);
/* "name", "uid", "name:group", "uid:gid": names travel to the guest, which looks them up in the container. */
int oci_process_set_user(struct json *process, const char *user);
int oci_process_set_tty(struct json *process, int tty);
int oci_process_set_console_size(struct json *process, uint32_t rows, uint32_t cols);
int oci_process_get_tty(const struct json *process);

#endif
