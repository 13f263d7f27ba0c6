/* SPDX-License-Identifier: Apache-2.0 */
/* VMs with the helper inside. Enters: a bench run. Leaves: booted VMs, helper processes, dialled ports. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <yajl/yajl_tree.h>

int complain(const char *what, cchv_error *err)
{
	fprintf(stderr, "cchv-bench: %s: %s\n", what, cchv_error_message(err));
	cchv_error_free(err);
	return -1;
}

static int append_file(FILE *to, const char *path, off_t *ret_size)
{
	FILE *from = fopen(path, "re");
	char data[65536];
	size_t n;

	if (!from)
		return -1;
	*ret_size = 0;
	while ((n = fread(data, 1, sizeof(data), from)) > 0) {
		if (fwrite(data, 1, n, to) != n)
			break;
		*ret_size += (off_t)n;
	}
	fclose(from);
	return 0;
}

static void pad(FILE *to)
{
	while (ftello(to) % 4)
		fputc(0, to);
}

static void cpio_header(FILE *to, const char *name, unsigned int mode, unsigned long size)
{
	fprintf(to, "070701%08x%08x%08x%08x%08x%08x%08lx%08x%08x%08x%08x%08zx%08x", 1u, mode, 0u, 0u, 1u, 0u,
		size, 0u, 0u, 0u, 0u, strlen(name) + 1, 0u);
	fwrite(name, 1, strlen(name) + 1, to);
	pad(to);
}

/* A later archive's file replaces an earlier one's: the kernel unpacks them in order. */
int initrd_with(const char *base, const char *file, const char *name, const char *path)
{
	FILE *to = fopen(path, "we");
	struct stat st;
	off_t size;
	int r = -1;

	if (to && stat(file, &st) == 0 && append_file(to, base, &size) == 0) {
		pad(to);
		cpio_header(to, name, 0100755, (unsigned long)st.st_size);
		if (append_file(to, file, &size) == 0 && size == st.st_size) {
			pad(to);
			cpio_header(to, "TRAILER!!!", 0, 0);
			r = 0;
		}
	}
	if (to && fclose(to) != 0)
		r = -1;
	if (r < 0)
		fprintf(stderr, "cchv-bench: initrd '%s': %m\n", path);
	return r;
}

static char *copy_member(yajl_val tree, const char *name)
{
	const char *keys[] = { "vmm_info", "config", "payload", name, NULL };
	yajl_val v = yajl_tree_get(tree, keys, yajl_t_string);

	const char *text = v ? YAJL_GET_STRING(v) : NULL;

	return text ? strdup(text) : NULL;
}

static cchv_vm_config *settings_of(const char *id, const char *initramfs)
{
	cchv_vm_config *config = NULL;

	if (cchv_vm_config_new(&config) < 0 || (id && cchv_vm_config_set_id(config, id) < 0) ||
	    cchv_vm_config_set_vcpus(config, 1, 1) < 0 || cchv_vm_config_set_memory(config, 256 << 20) < 0 ||
	    /* What is measured is no clone, and no template is built beside it. */
	    cchv_vm_config_set_start(config, CCHV_START_COLD) < 0 ||
	    (initramfs && cchv_vm_config_set_initramfs(config, initramfs) < 0)) {
		cchv_vm_config_free(config);
		return NULL;
	}
	return config;
}

int vm_parts(struct bench *bench, char **ret_kernel, char **ret_initramfs)
{
	cchv_vm_config *config = settings_of("bench-parts", NULL);
	cchv_error *err = NULL;
	cchv_vm *vm = NULL;
	char *json = NULL;
	yajl_val tree;
	int r = 0;

	if (cchv_vm_create(bench->ctx, config, CALL_MS, &vm, &err) < 0 ||
	    cchv_vm_get_info_json(vm, CALL_MS, &json, &err) < 0) {
		r = complain("create a VM", err);
	} else {
		tree = yajl_tree_parse(json, NULL, 0);
		*ret_kernel = copy_member(tree, "kernel");
		*ret_initramfs = copy_member(tree, "initramfs");
		yajl_tree_free(tree);
		if (!*ret_kernel || !*ret_initramfs)
			r = complain("the VMM does not tell the VM's kernel", NULL);
	}
	cchv_free(json);
	cchv_vm_free(vm);
	cchv_vm_config_free(config);
	return r;
}

cchv_vm *vm_start(struct bench *bench, const char *id, int helper)
{
	char *kernel = NULL, *base = NULL, path[128];
	cchv_vm_config *config;
	cchv_error *err = NULL;
	cchv_vm *vm = NULL;

	snprintf(path, sizeof(path), "%s/helper.img", bench->directory);
	if (helper && access(path, F_OK) < 0 &&
	    (vm_parts(bench, &kernel, &base) < 0 ||
	     initrd_with(base, bench->guest, "bench-guest", path) < 0))
		return NULL;
	free(kernel);
	free(base);
	config = settings_of(id, helper ? path : NULL);
	if (cchv_vm_create(bench->ctx, config, CALL_MS, &vm, &err) < 0 ||
	    cchv_vm_boot(vm, CALL_MS, &err) < 0) {
		complain("start a VM", err);
		cchv_vm_free(vm);
		vm = NULL;
	}
	cchv_vm_config_free(config);
	return vm;
}

int vm_cmdline(struct bench *bench, char *out, size_t room)
{
	static const char *const args[] = { "/bench-guest", "cmdline", NULL };
	cchv_vm *vm = vm_start(bench, "bench-cmdline", 1);
	int r = vm ? vm_helper_output(vm, args, out, room) : -1;

	cchv_vm_free(vm);
	return r;
}

cchv_exec *vm_helper(cchv_vm *vm, const char *const *args, cchv_stdio_config *stdio)
{
	cchv_exec_config *config = NULL;
	cchv_error *err = NULL;
	cchv_exec *exec = NULL;

	if (cchv_exec_config_new(&config) < 0)
		return NULL;
	for (; *args; args++)
		cchv_exec_config_add_arg(config, *args);
	if (stdio)
		cchv_exec_config_set_stdio(config, stdio);
	if (cchv_vm_exec(vm, config, CALL_MS, &exec, &err) < 0)
		complain("run the helper", err);
	cchv_exec_config_free(config);
	return exec;
}

int vm_helper_output(cchv_vm *vm, const char *const *args, char *out, size_t room)
{
	cchv_stdio_config *stdio = NULL;
	cchv_error *err = NULL;
	cchv_exec *exec = NULL;
	int fd = -1, code = -1;
	size_t done = 0;
	ssize_t n;

	if (cchv_stdio_config_new(&stdio) == CCHV_OK &&
	    cchv_stdio_config_set_pipe(stdio, CCHV_STDOUT) == CCHV_OK)
		exec = vm_helper(vm, args, stdio);
	if (exec && cchv_exec_take_fd(exec, CCHV_STDOUT, &fd, &err) == CCHV_OK) {
		while (done + 1 < room && (n = read(fd, out + done, room - 1 - done)) > 0)
			done += (size_t)n;
		close(fd);
		cchv_exec_wait(exec, CALL_MS, &code, NULL, NULL);
		cchv_exec_delete(exec, CALL_MS, NULL);
	}
	out[done] = '\0';
	cchv_exec_free(exec);
	cchv_stdio_config_free(stdio);
	return code == 0 ? 0 : complain("the helper failed", err);
}

cchv_exec *vm_serve(cchv_vm *vm, const char *what, const char *port)
{
	const char *const args[] = { "/bench-guest", what, port, NULL };
	cchv_stdio_config *stdio = NULL;
	cchv_exec *exec = NULL;
	char line[6];
	int fd = -1;

	if (cchv_stdio_config_new(&stdio) == CCHV_OK &&
	    cchv_stdio_config_set_pipe(stdio, CCHV_STDOUT) == CCHV_OK)
		exec = vm_helper(vm, args, stdio);
	if (exec && (cchv_exec_take_fd(exec, CCHV_STDOUT, &fd, NULL) < 0 ||
		     read(fd, line, sizeof(line)) != sizeof(line))) {
		fprintf(stderr, "cchv-bench: the helper does not serve\n");
		cchv_exec_free(exec);
		exec = NULL;
	}
	if (fd >= 0)
		close(fd);
	cchv_stdio_config_free(stdio);
	return exec;
}

int vm_dial(struct bench *bench, const char *id, unsigned int port)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), n;
	char line[64];
	size_t len = 0;

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/run/%s/vsock.sock", bench->directory, id);
	n = snprintf(line, sizeof(line), "CONNECT %u\n", port);
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    write(fd, line, (size_t)n) != n)
		goto failed;
	do {
		if (len == sizeof(line) || read(fd, line + len, 1) != 1)
			goto failed;
	} while (line[len++] != '\n');
	if (strncmp(line, "OK ", 3) == 0)
		return fd;
failed:
	fprintf(stderr, "cchv-bench: dial port %u: %m\n", port);
	if (fd >= 0)
		close(fd);
	return -1;
}
