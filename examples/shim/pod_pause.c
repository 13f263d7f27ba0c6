/* SPDX-License-Identifier: Apache-2.0 */
/* The holder of a pod's processes: see pod_pause.h. Enters: a VM. Leaves: a container whose init does nothing. */
#include "pod_pause.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault.h"
#include "log.h"
#include "memory.h"
#include "vm_making.h"

#define PROGRAM     "cchv-pause"
#define UPPER_BYTES (1U << 20)
#define CREATE_MS   60000
#define DELETE_MS   10000

static const char spec[] = "{\"ociVersion\":\"1.0.2\",\"root\":{\"path\":\"rootfs\"},\"mounts\":[],"
			   "\"process\":{\"args\":[\"/" PROGRAM "\"],\"cwd\":\"/\",\"user\":{\"uid\":0,\"gid\":0},"
			   "\"noNewPrivileges\":true,\"capabilities\":{}},"
			   "\"linux\":{\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"mount\"},"
			   "{\"type\":\"cgroup\"}]}}";

void pod_pause_init(struct pod_pause *pause)
{
	*pause = (struct pod_pause){ 0 };
	pthread_mutex_init(&pause->lock, NULL);
}

void pod_pause_drop(struct pod_pause *pause)
{
	cchv_error *error = NULL;

	cchv_exec_free(pause->exec);
	pause->exec = NULL;
	if (pause->container && cchv_container_delete(pause->container, DELETE_MS, &error) < 0)
		log_line(LOG_WARNING, "the holder of a pod's processes: %s", cchv_error_message(error));
	cchv_error_free(error);
	cchv_container_free(pause->container);
	pause->container = NULL;
}

void pod_pause_destroy(struct pod_pause *pause)
{
	pod_pause_drop(pause);
	free(pause->id);
	pthread_mutex_destroy(&pause->lock);
}

/* ---- its image: one program ---- */

/* Beside the server's. */
static int open_program(struct stat *st, char **ret_error)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof(PROGRAM) - 1);
	char *slash;
	int fd;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	strcpy(slash ? slash + 1 : path, PROGRAM);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, st) == 0)
		return fd;
	fault_set(ret_error, CCHV_ERR_SYSTEM, "%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static int copy_program(int from, off_t size, const char *directory)
{
	char *path = need_text("%s/" PROGRAM, directory);
	int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755), r = to < 0 ? -1 : 0;

	while (r == 0 && size > 0) {
		ssize_t n = sendfile(to, from, NULL, (size_t)size);

		if (n <= 0)
			r = -1;
		size -= n;
	}
	if (to >= 0 && close(to) < 0)
		r = -1;
	free(path);
	return r;
}

static void remove_copy(const char *directory)
{
	char *path = need_text("%s/" PROGRAM, directory);

	unlink(path);
	rmdir(directory);
	free(path);
}

static int import(cchv_ctx *ctx, int program, off_t size, const char *name, cchv_image **ret_image, char **ret_error)
{
	char *directory = need_text("%s/pause-XXXXXX", cchv_ctx_get_state_dir(ctx)), *text = NULL;
	cchv_image_source *source = NULL;
	cchv_error *error = NULL;
	int r;

	if (!mkdtemp(directory)) {
		r = fault_set(ret_error, fault_code(errno), "%s: %s", directory, strerror(errno));
		free(directory);
		return r;
	}
	if (chmod(directory, 0755) < 0 || copy_program(program, size, directory) < 0) {
		r = fault_set(ret_error, fault_code(errno), "%s: %s", directory, strerror(errno));
	} else {
		text = need_text("dir:%s", directory);
		r = cchv_image_source_new(&source);
		if (r == CCHV_OK)
			r = cchv_image_source_add(source, text);
		if (r == CCHV_OK)
			r = cchv_image_import(ctx, source, name, NULL, ret_image, &error);
		if (r < 0)
			fault_take(ret_error, r, error, "image of " PROGRAM);
	}
	cchv_image_source_free(source);
	remove_copy(directory);
	free(text);
	free(directory);
	return r;
}

/* Once per program: its name says which one is in it. */
static int open_image(cchv_ctx *ctx, cchv_image **ret_image, char **ret_error)
{
	struct stat st;
	int program = open_program(&st, ret_error), r;
	char *name;

	if (program < 0)
		return CCHV_ERR_SYSTEM;
	name = need_text(PROGRAM "-%lld-%lld", (long long)st.st_size, (long long)st.st_mtim.tv_sec);
	r = cchv_image_open(ctx, name, ret_image, NULL);
	if (r == CCHV_ERR_NOT_FOUND)
		r = import(ctx, program, st.st_size, name, ret_image, ret_error);
	else if (r < 0)
		fault_set(ret_error, r, "image '%s': %s", name, cchv_err_text(r));
	free(name);
	close(program);
	return r;
}

/* ---- the container ---- */

static int start(struct pod_pause *pause, cchv_vm *vm, cchv_container_config *config, char **ret_error)
{
	cchv_stdio_config *stdio = NULL;
	cchv_error *error = NULL;
	int r = cchv_container_create(vm, config, CREATE_MS, &pause->container, &error);

	if (r == CCHV_OK)
		r = cchv_stdio_config_new(&stdio);
	if (r == CCHV_OK)
		r = cchv_container_start(pause->container, stdio, CREATE_MS, &pause->exec, &error);
	cchv_stdio_config_free(stdio);
	if (r < 0)
		fault_take(ret_error, r, error, "the holder of the pod's processes");
	return r;
}

static int make(struct pod_pause *pause, cchv_ctx *ctx, cchv_vm *vm, char **ret_error)
{
	cchv_container_config *config = NULL;
	cchv_image *image = NULL;
	char *id = vm_making_id("pause");
	int r = open_image(ctx, &image, ret_error);

	if (r == CCHV_OK) {
		r = cchv_container_config_new(id, &config);
		if (r == CCHV_OK)
			r = cchv_container_config_set_spec_json(config, spec);
		if (r == CCHV_OK)
			r = cchv_container_config_add_image(config, image);
		if (r == CCHV_OK)
			r = cchv_container_config_set_upper(config, CCHV_UPPER_TMPFS, UPPER_BYTES);
		if (r < 0)
			fault_set(ret_error, r, "settings of " PROGRAM ": %s", cchv_err_text(r));
		else
			r = start(pause, vm, config, ret_error);
	}
	cchv_container_config_free(config);
	cchv_image_free(image);
	if (r == CCHV_OK) {
		pause->id = id;
		return r;
	}
	free(id);
	pod_pause_drop(pause);
	return r;
}

int pod_pause_need(struct pod_pause *pause, cchv_ctx *ctx, cchv_vm *vm, const char **ret_id, char **ret_error)
{
	int r = CCHV_OK;

	pthread_mutex_lock(&pause->lock);
	if (!pause->id)
		r = make(pause, ctx, vm, ret_error);
	*ret_id = pause->id;
	pthread_mutex_unlock(&pause->lock);
	return r;
}
