/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is missing or in use, said with the code, the errno and the name. Enters: a world. Leaves: nothing; the process
 * ends where something is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "c_world.h"

static void no_vm_with(struct world *w, int (*set)(cchv_vm_config *, const char *), const char *part)
{
	cchv_vm_config *config = NULL;
	cchv_vm *vm = NULL;

	wanted(cchv_vm_config_new(&config) == CCHV_OK, "config");
	wanted(set(config, "/no/such/file") == CCHV_OK, "a path is looked for when the VM is made");
	REFUSED(cchv_vm_create(w->ctx, config, PATIENCE_MS, &vm, &err), CCHV_ERR_NOT_FOUND, ENOENT, part);
	wanted(vm == NULL, "no VM");
	cchv_vm_config_free(config);
}

static int add_disk(cchv_vm_config *config, const char *path)
{
	cchv_disk_config *disk = NULL;
	int r = cchv_disk_config_new(path, CCHV_DISK_RAW, &disk);

	if (r == CCHV_OK)
		r = cchv_disk_config_set_id(disk, "data");
	if (r == CCHV_OK)
		r = cchv_vm_config_add_disk(config, disk);
	cchv_disk_config_free(disk);
	return r;
}

/* A disk that a VM may write to is nobody else's, until that VM has ended. */
static void disk_in_use(struct world *w)
{
	cchv_vm_config *config = NULL;
	cchv_vm *first = NULL, *second = NULL;
	char path[4200];
	int fd;

	snprintf(path, sizeof(path), "%s/disk", w->argv[0]);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	wanted(fd >= 0 && ftruncate(fd, 1 << 20) == 0, "a disk");
	close(fd);
	wanted(cchv_vm_config_new(&config) == CCHV_OK && add_disk(config, path) == CCHV_OK, "config");
	MUST(cchv_vm_create(w->ctx, config, PATIENCE_MS, &first, &err));
	REFUSED(cchv_vm_create(w->ctx, config, PATIENCE_MS, &second, &err), CCHV_ERR_EXISTS, 0, "in use");
	cchv_vm_free(first);
	MUST(cchv_vm_create(w->ctx, config, PATIENCE_MS, &second, &err));
	cchv_vm_free(second);
	cchv_vm_config_free(config);
	unlink(path);
}

struct attempt {
	const char *program, *cwd, *user;
	int code, errno_value;
	const char *part;
};

static void no_exec_with(struct world *w, const struct attempt *a)
{
	cchv_exec_config *config = NULL;
	cchv_exec *exec = NULL;

	wanted(cchv_exec_config_new(&config) == CCHV_OK, "config");
	wanted(cchv_exec_config_add_arg(config, a->program) == CCHV_OK, "argument");
	wanted(!a->cwd || cchv_exec_config_set_cwd(config, a->cwd) == CCHV_OK, "directory");
	wanted(!a->user || cchv_exec_config_set_user(config, a->user) == CCHV_OK, "user");
	REFUSED(cchv_container_exec(w->container, config, PATIENCE_MS, &exec, &err), a->code, a->errno_value, a->part);
	wanted(exec == NULL, "no process");
	cchv_exec_config_free(config);
}

static void case_refusals(struct world *w)
{
	static const struct attempt attempts[] = {
		{ "no-such-program", NULL, NULL, CCHV_ERR_NOT_FOUND, ENOENT, "no-such-program" },
		{ "/no/such/program", NULL, NULL, CCHV_ERR_NOT_FOUND, ENOENT, "/no/such/program" },
		{ "/tmp/script", NULL, NULL, CCHV_ERR_NOT_FOUND, ENOENT, "/tmp/script" },
		{ "/etc", NULL, NULL, CCHV_ERR_DENIED, EACCES, "/etc" },
		{ "/etc/passwd", NULL, NULL, CCHV_ERR_DENIED, EACCES, "/etc/passwd" },
		{ "/tmp/text", NULL, NULL, CCHV_ERR_DENIED, ENOEXEC, "/tmp/text" },
		{ "true", "/no/such/directory", NULL, CCHV_ERR_NOT_FOUND, ENOENT, "/no/such/directory" },
		{ "true", "/etc/passwd", NULL, CCHV_ERR_NOT_FOUND, ENOTDIR, "/etc/passwd" },
		{ "true", NULL, "no-such-user", CCHV_ERR_NOT_FOUND, ENOENT, "no-such-user" },
		{ "true", NULL, "root:no-such-group", CCHV_ERR_NOT_FOUND, ENOENT, "no-such-group" },
	};
	cchv_container *container = NULL;
	cchv_image *image = NULL;
	cchv_exec *exec = NULL;
	cchv_vm *vm = NULL;

	REFUSED(cchv_image_open(w->ctx, "no-such-image", &image, &err), CCHV_ERR_NOT_FOUND, 0, "no-such-image");
	REFUSED(cchv_image_open(w->ctx, "/no/such.erofs", &image, &err), CCHV_ERR_NOT_FOUND, 0, "/no/such.erofs");
	REFUSED(cchv_vm_open(w->ctx, "no-such-vm", &vm, &err), CCHV_ERR_NOT_FOUND, 0, "no-such-vm");
	no_vm_with(w, cchv_vm_config_set_kernel, "/no/such/file");
	no_vm_with(w, cchv_vm_config_set_initramfs, "/no/such/file");
	no_vm_with(w, add_disk, "/no/such/file");
	disk_in_use(w);
	start_vm(w, NULL);
	expect_script(w, "echo text > /tmp/text; printf '#!/no/such\\n' > /tmp/script; chmod 755 /tmp/*", "");
	for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++)
		no_exec_with(w, &attempts[i]);
	REFUSED(cchv_vm_open_container(w->vm, "other", PATIENCE_MS, &container, &err), CCHV_ERR_NOT_FOUND, 0, "other");
	REFUSED(cchv_container_open_exec(w->container, "other", PATIENCE_MS, &exec, &err), CCHV_ERR_NOT_FOUND, 0,
	        "other");
	REFUSED(cchv_container_start(w->container, NULL, PATIENCE_MS, &exec, &err), CCHV_ERR_STATE, 0, "main");
	expect_script(w, "echo it goes on", "it goes on\n");
	end_vm(w);
}

const struct c_case c_refusal_cases[] = {
	{ "refusals", case_refusals, 1 },
	{ NULL, NULL, 0 },
};
