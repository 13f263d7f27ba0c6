/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two VMs in one epoll loop of the program's own: each VM has one descriptor; when it is readable, dispatch,
 * then take events. Usage: watch_events IMAGE
 */
#include <cchv/cchv.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#define MINUTE 60000

/* err by its address: a call and its error stand side by side among the arguments, in no order. */
static void check(int r, cchv_error **err, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, err ? cchv_error_message(*err) : cchv_err_text(r));
	exit(1);
}

static cchv_vm *start(cchv_ctx *ctx, cchv_image *image, const char *id, const char *script,
		      cchv_container **ret_container)
{
	cchv_container_config *settings;
	cchv_container *container;
	cchv_vm_config *vm_settings;
	cchv_error *err;
	cchv_exec *init;
	cchv_vm *vm;

	check(cchv_vm_config_new(&vm_settings), NULL, "settings");
	check(cchv_vm_config_set_id(vm_settings, id), NULL, "id");
	check(cchv_vm_config_set_memory(vm_settings, 256 << 20), NULL, "memory");
	check(cchv_container_config_new_from_image(id, image, &settings, &err), &err, "settings");
	check(cchv_container_config_clear_args(settings), NULL, "arguments");
	check(cchv_container_config_add_arg(settings, "/bin/sh"), NULL, "arguments");
	check(cchv_container_config_add_arg(settings, "-c"), NULL, "arguments");
	check(cchv_container_config_add_arg(settings, script), NULL, "arguments");
	check(cchv_container_config_set_upper(settings, CCHV_UPPER_TMPFS, 0), NULL, "upper layer");
	check(cchv_vm_create(ctx, vm_settings, MINUTE, &vm, &err), &err, id);
	check(cchv_container_create(vm, settings, MINUTE, &container, &err), &err, id);
	check(cchv_vm_boot(vm, 2 * MINUTE, &err), &err, id);
	check(cchv_container_start(container, NULL, MINUTE, &init, &err), &err, id);
	/* Handles may go before what they stand for: the process runs on. */
	cchv_exec_free(init);
	*ret_container = container;
	cchv_container_config_free(settings);
	cchv_vm_config_free(vm_settings);
	return vm;
}

/* 1 when the VM has stopped. */
static int serve(cchv_vm *vm)
{
	cchv_event *event;
	cchv_error *err;
	int stopped = 0, r;

	check(cchv_vm_dispatch(vm, &err), &err, cchv_vm_get_id(vm));
	while (cchv_vm_next_event(vm, &event) > 0) {
		int type = cchv_event_get_type(event);

		printf("%s: %s", cchv_vm_get_id(vm), cchv_event_get_type_name(event));
		if (type == CCHV_EVENT_EXEC_EXITED) {
			printf(" code %d", cchv_event_get_exit_code(event));
			/* Press the button, and hear of the end; a guest without processes ends by itself too. */
			r = cchv_vm_power_button(vm, MINUTE, &err);
			if (r != CCHV_ERR_GUEST_GONE)
				check(r, &err, "power button");
			cchv_error_free(err);
		}
		printf("\n");
		stopped |= type == CCHV_EVENT_STOPPED;
		cchv_event_free(event);
	}
	fflush(stdout);
	return stopped;
}

int main(int argc, char **argv)
{
	int running = 2, epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	cchv_container *containers[2];
	cchv_image *image;
	cchv_error *err;
	cchv_vm *vms[2];
	cchv_ctx *ctx;

	if (argc != 2 || epoll_fd < 0)
		return 2;
	check(cchv_ctx_new(&ctx, &err), &err, "context");
	if (getenv("CCHV_STATE_DIR"))
		check(cchv_ctx_set_state_dir(ctx, getenv("CCHV_STATE_DIR")), NULL, "CCHV_STATE_DIR");
	check(cchv_image_open(ctx, argv[1], &image, &err), &err, argv[1]);
	vms[0] = start(ctx, image, "first", "exit 3", &containers[0]);
	vms[1] = start(ctx, image, "second", "exit 4", &containers[1]);
	for (int i = 0; i < 2; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.ptr = vms[i] };

		epoll_ctl(epoll_fd, EPOLL_CTL_ADD, cchv_vm_get_fd(vms[i]), &ev);
	}
	while (running) {
		struct epoll_event ev;

		if (epoll_wait(epoll_fd, &ev, 1, -1) == 1 && serve(ev.data.ptr)) {
			epoll_ctl(epoll_fd, EPOLL_CTL_DEL, cchv_vm_get_fd(ev.data.ptr), NULL);
			running--;
		}
	}
	for (int i = 0; i < 2; i++) {
		check(cchv_container_delete(containers[i], MINUTE, &err), &err, "delete the container");
		cchv_container_free(containers[i]);
		cchv_vm_free(vms[i]);
	}
	cchv_image_free(image);
	cchv_ctx_free(ctx);
	return 0;
}
