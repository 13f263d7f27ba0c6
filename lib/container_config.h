/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a container, for the objects. */
#ifndef LIB_CONTAINER_CONFIG_H
#define LIB_CONTAINER_CONFIG_H

#include <cchv/container_config.h>

#include "base/error.h"
#include "base/json.h"

#define CONTAINER_ID_MAX 76
#define CONTAINER_MAX_IMAGES 8
#define CONTAINER_DEFAULT_SCRATCH_BYTES (10ULL << 30)

struct container_map {
	char *destination;
	int kind;            /* enum cchv_mount */
	char *source;        /* NULL: the mount's own */
	uint64_t copied;     /* of a COPY: what the guest was last given, as a hash; 0: nobody knows */
};

struct cchv_container_config {
	char *id;
	struct json *spec;
	int spec_is_given;   /* by set_spec_json(): /etc/hosts and its like are its own business */
	size_t entrypoint;   /* how many of the arguments are the image's entrypoint */
	cchv_image *images[CONTAINER_MAX_IMAGES]; /* references; the top one first */
	size_t image_count;
	int upper;           /* enum cchv_upper */
	uint64_t upper_bytes;
	char *scratch_path;
	int keep_scratch;
	int check_program;
	char *rootfs_fs;     /* the tag of a shared directory of the VM, or a path to share */
	char *rootfs_disk;
	int rootfs_disk_readonly;
	struct container_map *maps;
	size_t map_count;
};

int container_config_copy(const cchv_container_config *config, cchv_container_config **ret_copy);
/* What stands behind a destination, or NULL. */
const struct container_map *container_config_find_map(const cchv_container_config *config, const char *destination);
/* The whole, against itself; names what is wrong. The tags and ids of the VM are looked at elsewhere. */
int container_config_check(const cchv_container_config *config, cchv_error **err);

DEFINE_CLEANUP(container_config, cchv_container_config, cchv_container_config_free)
#define cleanup_container_config __attribute__((cleanup(container_config_cleanup)))

#endif
