/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run one command in a container in a VM of its own, read its output through the stream's own socket, exit
 * with its code. Usage: run_command IMAGE COMMAND [ARG...]      (IMAGE: a name in the cache, a digest, or the
 * path of an .erofs file)
 */
#include <cchv/cchv.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MINUTE 60000

/* err by its address: a call and its error stand side by side among the arguments, in no order. */
static void check(int r, cchv_error **err, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, err ? cchv_error_message(*err) : cchv_err_text(r));
	cchv_error_free(err ? *err : NULL);
	exit(125);
}

static cchv_container *prepare(cchv_ctx *ctx, char **argv, cchv_vm **ret_vm)
{
	cchv_container_config *settings;
	cchv_container *container;
	cchv_vm_config *vm_settings;
	cchv_error *err;
	cchv_image *image;

	check(cchv_image_open(ctx, argv[1], &image, &err), &err, argv[1]);
	check(cchv_container_config_new_from_image("hello", image, &settings, &err), &err, "settings");
	check(cchv_container_config_clear_args(settings), NULL, "arguments");
	for (char **arg = argv + 2; *arg; arg++)
		check(cchv_container_config_add_arg(settings, *arg), NULL, "arguments");
	check(cchv_container_config_set_upper(settings, CCHV_UPPER_TMPFS, 0), NULL, "upper layer");

	check(cchv_vm_config_new(&vm_settings), NULL, "settings");
	check(cchv_vm_config_set_vcpus(vm_settings, 1, 1), NULL, "vCPUs");
	check(cchv_vm_config_set_memory(vm_settings, 256 << 20), NULL, "memory");

	/* A container that is made before the boot has its devices from the start: the quickest way. */
	check(cchv_vm_create(ctx, vm_settings, MINUTE, ret_vm, &err), &err, "create the VM");
	check(cchv_container_create(*ret_vm, settings, MINUTE, &container, &err), &err,
	      "create the container");
	check(cchv_vm_boot(*ret_vm, 2 * MINUTE, &err), &err, "boot");

	cchv_vm_config_free(vm_settings);
	cchv_container_config_free(settings);
	cchv_image_free(image);
	return container;
}

int main(int argc, char **argv)
{
	cchv_stdio_config *stdio;
	cchv_container *container;
	cchv_exec *init;
	cchv_error *err;
	cchv_ctx *ctx;
	cchv_vm *vm;
	char data[65536];
	int fd, code, sig;
	ssize_t n;

	if (argc < 3) {
		fprintf(stderr, "usage: %s IMAGE COMMAND [ARG...]\n", argv[0]);
		return 2;
	}
	check(cchv_ctx_new(&ctx, &err), &err, "context");
	if (getenv("CCHV_STATE_DIR"))
		check(cchv_ctx_set_state_dir(ctx, getenv("CCHV_STATE_DIR")), NULL, "CCHV_STATE_DIR");
	if (getenv("CCHV_RUNTIME_DIR"))
		check(cchv_ctx_set_runtime_dir(ctx, getenv("CCHV_RUNTIME_DIR")), NULL, "CCHV_RUNTIME_DIR");
	container = prepare(ctx, argv, &vm);

	check(cchv_stdio_config_new(&stdio), NULL, "streams");
	check(cchv_stdio_config_set_pipe(stdio, CCHV_STDOUT), NULL, "stdout");
	check(cchv_stdio_config_set_fd(stdio, CCHV_STDERR, STDERR_FILENO), NULL, "stderr");
	check(cchv_container_start(container, stdio, MINUTE, &init, &err), &err, argv[2]);
	check(cchv_exec_take_fd(init, CCHV_STDOUT, &fd, &err), &err, "stdout");
	while ((n = read(fd, data, sizeof(data))) > 0)
		if (fwrite(data, 1, (size_t)n, stdout) != (size_t)n)
			break;
	close(fd);

	check(cchv_exec_wait(init, -1, &code, &sig, &err), &err, "wait");
	check(cchv_vm_shutdown(vm, MINUTE, &err), &err, "shut down");
	check(cchv_container_delete(container, MINUTE, &err), &err, "delete the container");
	cchv_stdio_config_free(stdio);
	cchv_exec_free(init);
	cchv_container_free(container);
	cchv_vm_free(vm);
	cchv_ctx_free(ctx);
	return sig ? 128 + sig : code;
}
