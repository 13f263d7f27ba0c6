/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of a container: its OCI runtime specification, what its root file system is made of, and
 * what stands behind its mounts.
 *
 * The root file system is made of images, the top one first, and a writable upper layer; or it is a shared
 * directory. Fields of the specification that this library applies, ignores or refuses are listed one by one
 * in guest/PROTOCOL.md; what is refused is named by the error of cchv_container_create().
 */
#ifndef CCHV_CONTAINER_CONFIG_H
#define CCHV_CONTAINER_CONFIG_H

#include <stdint.h>

#include <cchv/error.h>
#include <cchv/image.h>
#include <cchv/version.h>

CCHV_BEGIN_DECLS

typedef struct cchv_container_config cchv_container_config;

/* Where what a container writes to its root file system goes. Values are only appended. */
enum cchv_upper {
	CCHV_UPPER_DISK = 1,  /* a scratch disk on the host, sparse, ext4; the default */
	CCHV_UPPER_TMPFS = 2, /* the container's memory */
	CCHV_UPPER_NONE = 3   /* nowhere: the root file system is read-only */
};

/* What stands behind a mount. Values are only appended. */
enum cchv_mount {
	/* A disk with a file system. Source: the id of a disk of the VM, or the absolute path of a file or
	   block device, which is plugged for the container's life. */
	CCHV_MOUNT_VOLUME = 1,
	/* A directory of the host, live, by virtio-fs. Source: the tag of a shared directory of the VM, or an
	   absolute path, which is shared for the container's life. */
	CCHV_MOUNT_FS = 2,
	/* A small file or directory of the host, at most 1 MiB, copied, and kept current while the VM is served.
	   What the container writes there, where the mount's options let it, stays its own. Source: its absolute
	   path. */
	CCHV_MOUNT_COPY = 3,
	/* Memory. Source: NULL, or a name (1 to 64 letters, digits, '-', '_', '.', the first one a letter or a
	   digit): all containers of the VM that map this name see one and the same, from the first one's create, whose
	   options count, to the last one's delete. */
	CCHV_MOUNT_TMPFS = 4,
	/* A Unix socket of the host, relayed while the VM is served. Source: its absolute path. Not there yet in
	   this version: cchv_container_create() answers CCHV_ERR_UNSUPPORTED. */
	CCHV_MOUNT_SOCKET = 5
};

/**
 * cchv_container_config_new() - make the settings of a container, with a default specification
 * @id:         1 to 76 letters, digits, '-', '_', '.', the first one a letter or a digit, unique in
 *              the VM
 * @ret_config: receives the object (free it with cchv_container_config_free())
 *
 * The default specification: own PID, mount, UTS, IPC and cgroup namespaces, the guest's network,
 * the usual mounts of /proc, /sys, /dev, Docker's default capabilities, user root, directory "/", a
 * default PATH. It has no arguments and no root file system yet.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_container_config_new(const char *id, cchv_container_config **ret_config);

/**
 * cchv_container_config_new_from_image() - make the settings of a container that runs an image
 * @id:         as for cchv_container_config_new()
 * @image:      the image, which becomes the root file system
 * @ret_config: receives the object (free it with cchv_container_config_free())
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * The default specification, with the image's Entrypoint and Cmd, Env, WorkingDir and User.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_PROTOCOL when the image's config is
 *         malformed.
 */
int cchv_container_config_new_from_image(const char *id, cchv_image *image,
					 cchv_container_config **ret_config, cchv_error **err);

/**
 * cchv_container_config_free() - free the settings of a container
 * @config: the object; NULL is allowed
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 */
void cchv_container_config_free(cchv_container_config *config);

/**
 * cchv_container_config_set_spec_json() - set the whole OCI runtime specification
 * @config: the container's settings
 * @json:   the content of a config.json
 *
 * Replaces the specification as it is; later setters change the result. Images, upper layer and
 * mappings stay. Each bind mount of a path of the host must be mapped
 * (cchv_container_config_map_mount()), or creating fails and names it.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_NOMEM; CCHV_ERR_INVALID when @json is not an object.
 */
int cchv_container_config_set_spec_json(cchv_container_config *config, const char *json);

/**
 * cchv_container_config_get_spec_json() - show the OCI runtime specification as it is now
 * @config:   the container's settings
 * @ret_json: receives the JSON (free it with cchv_free())
 * @err:      NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_container_config_get_spec_json(cchv_container_config *config, char **ret_json,
					cchv_error **err);

/**
 * cchv_container_config_clear_args() - remove all arguments, the image's Entrypoint too
 * @config: the container's settings
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_container_config_clear_args(cchv_container_config *config);

/**
 * cchv_container_config_clear_cmd() - remove the arguments behind the image's Entrypoint
 * @config: the container's settings
 *
 * Arguments that are added next follow the Entrypoint, as the ones behind the image do in "docker
 * run". Without an image, or after cchv_container_config_set_spec_json() or _clear_args(), it
 * removes all.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_container_config_clear_cmd(cchv_container_config *config);

/**
 * cchv_container_config_add_arg() - add an argument
 * @config: the container's settings
 * @arg:    any bytes; the first one of all is the program, looked up in the container's PATH where
 *          it has no '/'
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_container_config_add_arg(cchv_container_config *config, const char *arg);

/**
 * cchv_container_config_set_env() - set an environment variable
 * @config: the container's settings
 * @name:   the name, without '='
 * @value:  any bytes
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_container_config_set_env(cchv_container_config *config, const char *name, const char *value);

/**
 * cchv_container_config_unset_env() - remove an environment variable
 * @config: the container's settings
 * @name:   the name, without '='; one that is not there is no error
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_container_config_unset_env(cchv_container_config *config, const char *name);

/**
 * cchv_container_config_set_cwd() - set the working directory
 * @config: the container's settings
 * @path:   absolute path in the container; made where it is missing
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_container_config_set_cwd(cchv_container_config *config, const char *path);

/**
 * cchv_container_config_set_user() - set the user
 * @config: the container's settings
 * @user:   "name", "uid", "name:group" or "uid:gid", looked up in the container's own files
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_container_config_set_user(cchv_container_config *config, const char *user);

/**
 * cchv_container_config_set_tty() - give init a terminal
 * @config: the container's settings
 * @tty:    1 or 0 (the default)
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_container_config_set_tty(cchv_container_config *config, int tty);

/**
 * cchv_container_config_set_check_program() - look for init's program when the container is made
 * @config: the container's settings
 * @check:  1: where the program is missing, or is a file that nobody may run, making the container
 *          fails (cchv_container_create(), or cchv_vm_boot() for one that was made before) with the
 *          code and the words that its start would fail with; 0 (the default): its start fails
 *
 * What only the start can tell, such as a user who may not run it, is told there in any case.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_container_config_set_check_program(cchv_container_config *config, int check);

/**
 * cchv_container_config_set_console_size() - set the size of init's terminal
 * @config: the container's settings
 * @rows:   rows, 1 to 65535
 * @cols:   columns, 1 to 65535
 *
 * The size is there before the first instruction. Without a terminal it has no effect.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_container_config_set_console_size(cchv_container_config *config, uint32_t rows, uint32_t cols);

/**
 * cchv_container_config_set_hostname() - set the host name
 * @config:   the container's settings
 * @hostname: 1 to 64 bytes; by default the container's id, cut to 64 bytes
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_container_config_set_hostname(cchv_container_config *config, const char *hostname);

/**
 * cchv_container_config_set_readonly() - make the root file system read-only
 * @config:   the container's settings
 * @readonly: 1 or 0 (the default)
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_container_config_set_readonly(cchv_container_config *config, int readonly);

/**
 * cchv_container_config_set_memory_limit() - limit the memory
 * @config: the container's settings
 * @bytes:  bytes, which the container's cgroup gets exactly; 0 (the default) for all that the VM
 *          has
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_container_config_set_memory_limit(cchv_container_config *config, uint64_t bytes);

/**
 * cchv_container_config_set_cpu_limit() - limit the CPU time
 * @config:    the container's settings
 * @millicpus: thousandths of a CPU; 0 (the default) for all that the VM has
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_container_config_set_cpu_limit(cchv_container_config *config, uint32_t millicpus);

/**
 * cchv_container_config_set_pids_limit() - limit the number of processes
 * @config: the container's settings
 * @count:  processes and threads; 0 (the default) for all that the guest can hold
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_container_config_set_pids_limit(cchv_container_config *config, uint64_t count);

/**
 * cchv_container_config_add_image() - add an image to the root file system
 * @config: the container's settings
 * @image:  the image, which stays in use as long as the config and the container; the top one is
 *          added first
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_LIMIT above 8 images.
 */
int cchv_container_config_add_image(cchv_container_config *config, cchv_image *image);

/**
 * cchv_container_config_set_upper() - choose the writable layer
 * @config: the container's settings
 * @kind:   one of enum cchv_upper; CCHV_UPPER_DISK by default
 * @bytes:  its size in bytes; 0 for the default: 10 GiB of disk (used as it fills), or half of the
 *          container's memory
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID; CCHV_ERR_UNSUPPORTED for an unknown @kind.
 */
int cchv_container_config_set_upper(cchv_container_config *config, int kind, uint64_t bytes);

/**
 * cchv_container_config_set_scratch_path() - put the scratch disk somewhere else
 * @config: the container's settings
 * @path:   absolute path of a file; NULL for the default, in the state directory
 *
 * A file that is not there is made. One that is there is the scratch disk of an earlier run, and is
 * used as it is: what the container wrote then is there again. A failed create leaves it alone;
 * cchv_container_delete() removes it.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_container_config_set_scratch_path(cchv_container_config *config, const char *path);

/**
 * cchv_container_config_set_keep_scratch() - leave the scratch disk to the next run
 * @config: the container's settings
 * @keep:   1: cchv_container_delete() does not remove it; 0 (the default): it does
 *
 * For a scratch disk of a path of your own (cchv_container_config_set_scratch_path()): a container that is
 * deleted and made again finds there what it has written.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_container_config_set_keep_scratch(cchv_container_config *config, int keep);

/**
 * cchv_container_config_set_rootfs_disk() - use a disk as the root file system
 * @config:   the container's settings
 * @path:     absolute path of a file or block device with a file system that the guest knows (ext2 to
 *            ext4, xfs, btrfs, erofs, squashfs, ...); NULL for none. Not together with images; what the
 *            container writes goes there, so there is no upper layer.
 * @readonly: 1: it is not written to; 0
 *
 * The disk is plugged for the container's life.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_container_config_set_rootfs_disk(cchv_container_config *config, const char *path, int readonly);

/**
 * cchv_container_config_set_rootfs_fs() - use a shared directory as the root file system
 * @config: the container's settings
 * @source: the tag of a shared directory of the VM, or an absolute path, which is shared for the
 *          container's life (the VM needs shared memory then); NULL for none. Not together with images;
 *          what the container writes goes there, so there is no upper layer.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_container_config_set_rootfs_fs(cchv_container_config *config, const char *source);

/**
 * cchv_container_config_map_mount() - say what stands behind a mount of the specification
 * @config:      the container's settings
 * @destination: destination of the mount, as it is written in the specification
 * @kind:        one of enum cchv_mount
 * @source:      as the kind says; NULL where the mount's own source is it
 *
 * The mount's options (ro, rbind, propagation, ...) are those of the specification.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_UNSUPPORTED for an unknown @kind.
 */
int cchv_container_config_map_mount(cchv_container_config *config, const char *destination, int kind,
				    const char *source);

/**
 * cchv_container_config_add_mount() - add a mount to the specification, and map it
 * @config:      the container's settings
 * @destination: absolute path in the container; made where it is missing
 * @kind:        one of enum cchv_mount
 * @source:      as the kind says
 * @options:     NULL, or mount options with commas, such as "ro" or "size=64m,mode=1777"
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_EXISTS when there is a mount on
 *         @destination; CCHV_ERR_UNSUPPORTED for an unknown @kind.
 */
int cchv_container_config_add_mount(cchv_container_config *config, const char *destination, int kind,
				    const char *source, const char *options);

CCHV_END_DECLS

#endif /* CCHV_CONTAINER_CONFIG_H */
