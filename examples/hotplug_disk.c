/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plug a disk into a running VM, let the bare guest count its sectors, take it out again.
 * Usage: hotplug_disk FILE
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
	exit(1);
}

static void wait_for(cchv_vm *vm, int type)
{
	cchv_error *err;
	int seen = 0;

	while (!seen) {
		cchv_event *event;

		check(cchv_vm_poll(vm, MINUTE, &err), &err, "poll");
		while (cchv_vm_next_event(vm, &event) > 0) {
			if (cchv_event_get_type(event) == type) {
				printf("%s %s\n", cchv_event_get_type_name(event),
				       cchv_event_get_device_id(event));
				seen = 1;
			}
			cchv_event_free(event);
		}
	}
}

int main(int argc, char **argv)
{
	cchv_vm_config *settings;
	cchv_disk_config *disk;
	cchv_stats *counters;
	cchv_error *err;
	uint64_t reads = 0;
	cchv_ctx *ctx;
	cchv_vm *vm;
	char *path;

	if (argc != 2 || !(path = realpath(argv[1], NULL))) {
		fprintf(stderr, "usage: %s FILE\n", argv[0]);
		return 2;
	}
	check(cchv_ctx_new(&ctx, &err), &err, "context");
	if (getenv("CCHV_STATE_DIR"))
		check(cchv_ctx_set_state_dir(ctx, getenv("CCHV_STATE_DIR")), NULL, "CCHV_STATE_DIR");
	check(cchv_vm_config_new(&settings), NULL, "settings");
	check(cchv_vm_config_set_memory(settings, 256 << 20), NULL, "memory");
	check(cchv_vm_create(ctx, settings, MINUTE, &vm, &err), &err, "create the VM");
	check(cchv_vm_boot(vm, 2 * MINUTE, &err), &err, "boot");

	check(cchv_disk_config_new(path, CCHV_DISK_RAW, &disk), NULL, path);
	check(cchv_disk_config_set_id(disk, "data"), NULL, "id");
	check(cchv_disk_config_set_serial(disk, "data-0"), NULL, "serial");
	check(cchv_vm_attach_disk(vm, disk, MINUTE, &err), &err, path);
	wait_for(vm, CCHV_EVENT_DEVICE_PLUGGED);

	/* The guest's kernel looks for a partition table. No event tells of that: serve the VM, and look again. */
	while (reads == 0) {
		check(cchv_vm_get_counters(vm, MINUTE, &counters, &err), &err, "counters");
		check(cchv_stats_find(counters, "disk.data.read_ops", &reads), NULL, "counters of the disk");
		cchv_stats_free(counters);
		check(cchv_vm_poll(vm, 20, &err), &err, "poll");
	}
	printf("the guest has read from it\n");

	check(cchv_vm_detach(vm, "data", MINUTE, &err), &err, "detach");
	wait_for(vm, CCHV_EVENT_DEVICE_REMOVED);
	check(cchv_vm_shutdown(vm, MINUTE, &err), &err, "shut down");

	cchv_disk_config_free(disk);
	cchv_vm_config_free(settings);
	cchv_vm_free(vm);
	cchv_ctx_free(ctx);
	free(path);
	return 0;
}
