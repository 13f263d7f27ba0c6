/* SPDX-License-Identifier: Apache-2.0 */
/* events. Enters: running VMs, and those that appear later. Leaves: a line per event, as it happens. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "commands.h"
#include "document.h"
#include "record.h"
#include "table.h"

#define MAX_WATCHED 1000

struct watcher {
	cchv_ctx *ctx;
	int json;
	char **wanted; /* names or ids; all for none */
	int wanted_count;
	cchv_vm *vms[MAX_WATCHED];
	struct pollfd p[MAX_WATCHED + 2]; /* 0: the runtime directory, 1: signals */
	int count;
};

/* What Docker calls it; NULL: it has no such event. */
static const char *docker_action(cchv_event *e)
{
	const char *exec = cchv_event_get_exec_id(e);
	int is_init = exec && strcmp(exec, "init") == 0;

	switch (cchv_event_get_type(e)) {
	case CCHV_EVENT_EXEC_STARTED: return is_init ? "start" : "exec_start";
	case CCHV_EVENT_EXEC_EXITED: return is_init ? "die" : "exec_die";
	case CCHV_EVENT_CONTAINER_OOM: return "oom";
	default: return NULL;
	}
}

static void print_json(cchv_event *e, const char *id)
{
	yajl_gen g = document_new(0);
	char *time = format_time(cchv_event_get_time(e));

	yajl_gen_map_open(g);
	put_string(g, "time", time);
	put_string(g, "type", cchv_event_get_type_name(e));
	if (docker_action(e))
		put_string(g, "action", docker_action(e));
	put_string(g, "vm", id);
	if (cchv_event_get_container_id(e))
		put_string(g, "container", cchv_event_get_container_id(e));
	if (cchv_event_get_exec_id(e))
		put_string(g, "exec", cchv_event_get_exec_id(e));
	if (cchv_event_get_device_id(e))
		put_string(g, "device", cchv_event_get_device_id(e));
	if (cchv_event_get_type(e) == CCHV_EVENT_EXEC_STARTED)
		put_i64(g, "pid", cchv_event_get_pid(e));
	if (cchv_event_get_type(e) == CCHV_EVENT_EXEC_EXITED) {
		put_i64(g, "exit_code", cchv_event_get_exit_code(e));
		put_i64(g, "signal", cchv_event_get_signal(e));
	}
	if (cchv_event_get_message(e))
		put_bytes(g, "message", cchv_event_get_message(e));
	yajl_gen_map_close(g);
	document_print(g, stdout);
	free(time);
}

static void print_text(cchv_event *e, const char *id)
{
	char *time = format_time(cchv_event_get_time(e));

	printf("%s %s %s", time, cchv_event_get_type_name(e), id);
	if (cchv_event_get_exec_id(e))
		printf(" exec=%s", cchv_event_get_exec_id(e));
	if (cchv_event_get_device_id(e))
		printf(" device=%s", cchv_event_get_device_id(e));
	if (cchv_event_get_type(e) == CCHV_EVENT_EXEC_STARTED)
		printf(" pid=%d", cchv_event_get_pid(e));
	if (cchv_event_get_type(e) == CCHV_EVENT_EXEC_EXITED)
		printf(cchv_event_get_signal(e) ? " signal=%d" : " exit_code=%d",
		       cchv_event_get_signal(e) ? cchv_event_get_signal(e) : cchv_event_get_exit_code(e));
	if (cchv_event_get_message(e))
		printf(" (%s)", cchv_event_get_message(e));
	putchar('\n');
	free(time);
}

static int is_wanted(struct watcher *w, const char *id)
{
	struct record *record;
	int found = w->wanted_count == 0;

	for (int i = 0; i < w->wanted_count && !found; i++) {
		if (strcmp(w->wanted[i], id) == 0)
			return 1;
		if (record_find(w->ctx, w->wanted[i], &record) == 0) {
			found = strcmp(record->id, id) == 0;
			record_free(record);
		}
	}
	return found;
}

static void watch_files(struct watcher *w, const char *id)
{
	char *path = xprintf("%s/%s", cchv_ctx_get_runtime_dir(w->ctx), id);

	/* It may be gone again. */
	if (inotify_add_watch(w->p[0].fd, path, IN_MOVED_TO | IN_CLOSE_WRITE) < 0 && errno != ENOENT)
		warn("watch '%s': %m", path);
	free(path);
}

static int open_running(cchv_ctx *ctx, const char *id, cchv_vm **ret_vm)
{
	cchv_vm *vm = NULL;
	int state;

	if (cchv_vm_open(ctx, id, &vm, NULL) < 0)
		return -1;
	state = cchv_vm_get_state(vm);
	if (state != CCHV_VM_RUNNING && state != CCHV_VM_PAUSED) {
		cchv_vm_free(vm);
		return -1;
	}
	*ret_vm = vm;
	return 0;
}

static void watch_new(struct watcher *w)
{
	cchv_list *ids = NULL;
	cchv_error *err = NULL;

	if (cchv_ctx_list_vms(w->ctx, &ids, &err) < 0) {
		fail_error(err, "list the VMs");
		return;
	}
	for (int i = 0; i < cchv_list_get_count(ids) && w->count < MAX_WATCHED; i++) {
		const char *id = cchv_list_get(ids, i);
		int known = 0;

		for (int k = 0; k < w->count; k++)
			known |= strcmp(cchv_vm_get_id(w->vms[k]), id) == 0;
		if (known || !is_wanted(w, id))
			continue;
		/* One that is just being made: the changes of its files bring us here again. */
		watch_files(w, id);
		if (open_running(w->ctx, id, &w->vms[w->count]) == 0) {
			w->p[w->count + 2] =
				(struct pollfd) { .fd = cchv_vm_get_fd(w->vms[w->count]), .events = POLLIN };
			/* From here on it is heard. */
			cchv_vm_dispatch(w->vms[w->count], NULL);
			w->count++;
		}
	}
	cchv_list_free(ids);
}

/* 1 when the VM has stopped and all was said. */
static int drain(struct watcher *w, cchv_vm *vm)
{
	cchv_event *e;
	int stopped = 0;

	cchv_vm_dispatch(vm, NULL);
	while (cchv_vm_next_event(vm, &e) > 0) {
		if (w->json)
			print_json(e, cchv_vm_get_id(vm));
		else
			print_text(e, cchv_vm_get_id(vm));
		stopped |= cchv_event_get_type(e) == CCHV_EVENT_STOPPED;
		cchv_event_free(e);
	}
	fflush(stdout);
	return stopped;
}

static int watch(struct watcher *w)
{
	char events[8192];

	watch_new(w);
	while (!ferror(stdout)) {
		if (poll(w->p, (nfds_t)w->count + 2, -1) < 0 && errno != EINTR)
			return fail("poll: %m");
		if (w->p[1].revents)
			return 0;
		for (int i = 0; i < w->count; i++) {
			if (!w->p[i + 2].revents || !drain(w, w->vms[i]))
				continue;
			cchv_vm_free(w->vms[i]);
			w->count--;
			w->vms[i] = w->vms[w->count];
			w->p[i + 2] = w->p[w->count + 2];
			i--;
		}
		if (w->p[0].revents) {
			while (read(w->p[0].fd, events, sizeof(events)) > 0)
				;
			watch_new(w);
		}
	}
	return 0;
}

static int prepare(struct watcher *w)
{
	const char *runtime = cchv_ctx_get_runtime_dir(w->ctx);
	cchv_findings *nothing = NULL;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	w->p[1] = (struct pollfd) { .fd = signalfd(-1, &set, SFD_CLOEXEC), .events = POLLIN };
	w->p[0] = (struct pollfd) { .fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), .events = POLLIN };
	/* prune makes the directory when it is missing, which a watch needs; it also is what any command does
	 * first. */
	cchv_ctx_prune(w->ctx, &nothing, NULL);
	cchv_findings_free(nothing);
	if (w->p[0].fd < 0 || w->p[1].fd < 0 ||
	    inotify_add_watch(w->p[0].fd, runtime, IN_CREATE | IN_MOVED_TO | IN_ATTRIB) < 0)
		return fail("watch '%s': %m", runtime);
	return 0;
}

int cmd_events(int argc, char **argv)
{
	static const struct option options[] = { { "format", required_argument, NULL, 'f' },
						 { NULL, 0, NULL, 0 } };
	struct watcher *w = xalloc(sizeof(*w));
	int c, r;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (c != 'f' || (w->json = format_is_json("events", optarg)) < 0)
			return EXIT_OURS;
	w->wanted = argv + optind;
	w->wanted_count = argc - optind;
	w->ctx = open_context();
	r = prepare(w);
	if (r == 0)
		r = watch(w);
	for (int i = 0; i < w->count; i++)
		cchv_vm_free(w->vms[i]);
	cchv_ctx_free(w->ctx);
	free(w);
	return r ? 1 : 0;
}
