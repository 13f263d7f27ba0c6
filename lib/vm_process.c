/* SPDX-License-Identifier: Apache-2.0 */
/* The VMM's process and streams: see vm_process.h. Enters: settings, bytes of the VMM. Leaves: callbacks, logs. */
#include "vm_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "ctx.h"
#include "vm.h"
#include "vm_config.h"
#include "vm_device.h"
#include "vm_loop.h"
#include "vm_record.h"
#include "vm_stop.h"

/* What one callback reads of a stream at most, so that a talkative guest leaves room for others. */
#define READ_MAX 65536
/* How long the words of a panic may be on their way when the event is here already. */
#define PANIC_WORDS_MS 500
/* What a killed QEMU gets to give its memory back and to close its files; 0.3 s were seen with 800 MiB. */
#define HELPER_MS 5000

#define CGROUP_ROOT "/sys/fs/cgroup"

/*
 * Beside the guest's memory: the VMM's own, its threads' stacks and buffers; for cchv-qemu QEMU and the code that it
 * translates.
 */
#define OVERHEAD_CLOUD_HYPERVISOR (128ULL << 20)
#define OVERHEAD_CCHV_QEMU (768ULL << 20)

int vmm_new(struct vmm **ret_vmm, cchv_error **err)
{
	struct vmm *v = mem_zalloc(sizeof(*v));

	if (!v)
		return err_nomem(err);
	v->pidfd = v->helper_fd = v->console_fd = -1;
	v->streams = (struct vmm_streams){ -1, -1 };
	v->log = v->console = (struct bounded_log)BOUNDED_LOG_INIT;
	vmm_events_init(&v->parser);
	*ret_vmm = v;
	return CCHV_OK;
}

void vmm_free(struct vmm *v)
{
	if (!v)
		return;
	loop_source_free(v->pid_source);
	loop_source_free(v->events_source);
	loop_source_free(v->log_source);
	loop_source_free(v->console_source);
	vmm_streams_close(&v->streams);
	vmm_events_free(&v->parser);
	fd_close(&v->console_fd);
	fd_close(&v->pidfd);
	fd_close(&v->helper_fd);
	bounded_log_close(&v->log);
	bounded_log_close(&v->console);
	cgroup_free(&v->cgroup);
	vmm_choice_free(&v->choice);
	free(v->version);
	free(v->end_text);
	free(v);
}

/* ---- streams ---- */

static void on_event(const struct vmm_event *event, void *user_data)
{
	vm_on_vmm_event(user_data, event);
}

/* Bytes read, 0 when there is nothing now, -1 when there will be nothing more. */
static ssize_t read_some(int fd, char *data, size_t room)
{
	ssize_t n;

	do
		n = read(fd, data, room);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	return n > 0 ? n : -1;
}

static ssize_t read_events(cchv_vm *vm)
{
	char data[4096];
	ssize_t n = read_some(vm->vmm->streams.events_fd, data, sizeof(data));

	if (n > 0)
		vmm_events_feed(&vm->vmm->parser, data, (size_t)n, on_event, vm);
	return n;
}

static ssize_t read_log(cchv_vm *vm)
{
	char data[4096];
	ssize_t n = read_some(vm->vmm->streams.log_fd, data, sizeof(data));

	if (n > 0)
		bounded_log_write(&vm->vmm->log, data, (size_t)n);
	return n;
}

static ssize_t read_console(cchv_vm *vm)
{
	char data[4096];
	ssize_t n = read_some(vm->vmm->console_fd, data, sizeof(data));

	if (n > 0)
		bounded_log_write(&vm->vmm->console, data, (size_t)n);
	return n;
}

static ssize_t read_up_to(cchv_vm *vm, ssize_t (*read_one)(cchv_vm *vm), size_t limit)
{
	size_t total = 0;
	ssize_t n = 1;

	while (n > 0 && total < limit) {
		n = read_one(vm);
		total += n > 0 ? (size_t)n : 0;
	}
	return n;
}

static void on_events_ready(uint32_t events, void *user_data)
{
	read_up_to(user_data, read_events, READ_MAX);
}

static void on_log_ready(uint32_t events, void *user_data)
{
	read_up_to(user_data, read_log, READ_MAX);
}

/* 1: the last part of the console says, in a whole line, why the guest's kernel panicked. */
static int console_has_panic(cchv_vm *vm, size_t last_bytes)
{
	cleanup_free char *tail = bounded_log_tail(&vm->vmm->console, last_bytes);
	cleanup_free char *words = tail ? vm_panic_message(tail) : NULL;

	return words && strpbrk(strstr(tail, words), "\r\n") != NULL;
}

/*
 * A guest that panics before its agent has loaded the driver for that cannot tell, and stands still for ever. Its
 * console is taken at its word only while nothing of a container can have written there.
 */
static void look_for_early_panic(cchv_vm *vm)
{
	if (vm->state == CCHV_VM_BOOTING && !vm->agent && console_has_panic(vm, READ_MAX + 4096))
		vm_kill_vmm(vm, CCHV_STOP_GUEST_PANIC, NULL, NULL);
}

static void on_console_ready(uint32_t events, void *user_data)
{
	cchv_vm *vm = user_data;
	ssize_t n = read_up_to(vm, read_console, READ_MAX);

	look_for_early_panic(vm);
	if (n >= 0)
		return;
	/* The VMM has closed the other side. */
	loop_source_free(steal(&vm->vmm->console_source));
	fd_close(&vm->vmm->console_fd);
}

static void on_pidfd_ready(uint32_t events, void *user_data)
{
	cchv_vm *vm = user_data;
	struct vmm *v = vm->vmm;

	loop_source_free(steal(&v->pid_source));
	if (v->gone)
		return;
	if (v->child) {
		int r;

		do
			r = waitpid(v->pid, &v->status, 0);
		while (r < 0 && errno == EINTR);
		/* Somebody else may have reaped it: a program that waits for all its children. */
		v->status_known = r == v->pid;
	}
	v->gone = 1;
	vm_on_vmm_exit(vm);
}

void vm_wait_vmm(cchv_vm *vm, uint64_t deadline)
{
	struct vmm *v = vm->vmm;

	/* One that could not be watched is not heard of by the loop. */
	if (!v->gone && v->pidfd >= 0 && vm_wait_fd(vm, v->pidfd, deadline) > 0)
		on_pidfd_ready(0, vm);
}

void vm_find_helper(cchv_vm *vm)
{
	struct vmm *v = vm->vmm;

	if (vm->owner && v->helper_fd < 0 && v->pid && !v->gone)
		v->helper_fd = proc_open_child(v->pid);
}

void vm_wait_helper(cchv_vm *vm)
{
	struct vmm *v = vm->vmm;

	if (v->helper_fd < 0)
		return;
	/* It dies with its parent; should it live where that does not work, it must not outlive it for long. */
	if (fd_wait(v->helper_fd, POLLIN, clock_deadline(0)) <= 0)
		proc_pidfd_signal(v->helper_fd, SIGKILL);
	if (fd_wait(v->helper_fd, POLLIN, clock_deadline(HELPER_MS)) <= 0)
		log_warning(&vm->ctx->log, "VM '%s': the child of its VMM does not die: its disks may stay in use",
		            vm->id);
	fd_close(&v->helper_fd);
}

void vm_drain_streams(cchv_vm *vm)
{
	/* A FIFO holds a megabyte at most; the bound is for a pty whose writer lives on. */
	if (vm->vmm->streams.events_fd >= 0)
		read_up_to(vm, read_events, 4U << 20);
	if (vm->vmm->streams.log_fd >= 0)
		read_up_to(vm, read_log, 4U << 20);
	if (vm->vmm->console_fd >= 0)
		read_up_to(vm, read_console, 4U << 20);
}

void vm_hear_panic(cchv_vm *vm)
{
	struct vmm *v = vm->vmm;
	uint64_t deadline = clock_deadline(PANIC_WORDS_MS);

	/* A worker of the kernel hands a pty's bytes on; those on their way are dropped when the VMM closes it. */
	do {
		if (v->console_fd < 0 || read_up_to(vm, read_console, CONSOLE_LOG_MAX) < 0 ||
		    console_has_panic(vm, CONSOLE_LOG_MAX))
			return;
	} while (fd_wait(v->console_fd, POLLIN, deadline) > 0);
}

int vm_is_ending(const cchv_vm *vm)
{
	const struct vmm *v = vm->vmm;
	struct pollfd p = { .fd = v->pidfd, .events = POLLIN };

	return v->gone || v->killed || v->said_goodbye || v->guest_off || (v->pidfd >= 0 && poll(&p, 1, 0) > 0);
}

void vm_unwatch_vmm(cchv_vm *vm)
{
	struct vmm *v = vm->vmm;

	loop_source_free(steal(&v->events_source));
	loop_source_free(steal(&v->log_source));
	loop_source_free(steal(&v->console_source));
	vmm_streams_close(&v->streams);
	fd_close(&v->console_fd);
}

void vm_forget_processes(cchv_vm *vm)
{
	loop_disown(vm->loop);
	vm->vmm->child = 0;
	vm->vmm->pid = 0;
	vm->announce = NULL;
	vm_devices_forget(vm);
}

static int watch_streams(cchv_vm *vm, cchv_error **err)
{
	struct vmm *v = vm->vmm;
	int r;

	r = bounded_log_open(&v->log, vm->record->dir_fd, "vmm.log", VMM_LOG_MAX, err);
	if (r == CCHV_OK)
		r = bounded_log_open(&v->console, vm->record->dir_fd, "console.log", CONSOLE_LOG_MAX, err);
	if (r == CCHV_OK)
		r = loop_add(vm->loop, v->streams.events_fd, EPOLLIN, on_events_ready, vm, &v->events_source, err);
	if (r == CCHV_OK)
		r = loop_add(vm->loop, v->streams.log_fd, EPOLLIN, on_log_ready, vm, &v->log_source, err);
	return r;
}

int vm_watch_vmm(cchv_vm *vm, int with_streams, cchv_error **err)
{
	struct vmm *v = vm->vmm;
	int r = CCHV_OK;

	if (v->pidfd < 0) {
		v->pidfd = proc_pidfd_open(v->pid);
		if (v->pidfd < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "VM '%s': pidfd of VMM %d", vm->id, v->pid);
	}
	if (with_streams && v->streams.events_fd < 0)
		r = vmm_streams_open(vm->record->dir_fd, &v->streams, err);
	if (with_streams && r == CCHV_OK)
		r = watch_streams(vm, err);
	if (r == CCHV_OK && !v->pid_source)
		r = loop_add(vm->loop, v->pidfd, EPOLLIN, on_pidfd_ready, vm, &v->pid_source, err);
	return r;
}

int vm_open_console(cchv_vm *vm, const char *path, cchv_error **err)
{
	struct vmm *v = vm->vmm;
	cleanup_close int fd = -1;
	struct termios t;
	int r;

	/* What the VMM names is opened by us: a pty, and nothing else. */
	if (strncmp(path, "/dev/pts/", 9) != 0 || strstr(path, "..") || strchr(path + 9, '/'))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "console: '%.64s' is no pty", path);
	fd = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "console %s", path);
	/* No echo of the guest's output into its input. */
	if (tcgetattr(fd, &t) == 0) {
		cfmakeraw(&t);
		tcsetattr(fd, TCSANOW, &t);
	}
	r = loop_add(vm->loop, fd, EPOLLIN, on_console_ready, vm, &v->console_source, err);
	if (r == CCHV_OK)
		v->console_fd = fd_steal(&fd);
	return r;
}

/* ---- the process ---- */

static uint64_t memory_limit(const cchv_vm *vm, uint64_t vm_bytes)
{
	return vm_bytes + (vm->vmm->choice.kind == VMM_CCHV_QEMU ? OVERHEAD_CCHV_QEMU : OVERHEAD_CLOUD_HYPERVISOR);
}

void vm_limit_memory(cchv_vm *vm, uint64_t vm_bytes)
{
	uint64_t now = vm_config_vm_memory(vm_config_memory(vm->config));

	if (vm_bytes > now)
		cgroup_set_limit(&vm->vmm->cgroup, memory_limit(vm, vm_bytes), &vm->ctx->log);
}

static int plan_cgroup(cchv_vm *vm, cchv_error **err)
{
	struct cgroup *g = &vm->vmm->cgroup;
	cleanup_buf struct buf self = BUF_INIT(64U << 10);
	int r;

	if (vm->config->cgroup)
		return cgroup_plan(CGROUP_ROOT, vm->config->cgroup, g, err);
	r = path_read_file("/proc/self/cgroup", &self, err);
	if (r == CCHV_OK && buf_append(&self, "", 1) < 0)
		r = err_nomem(err);
	return r < 0 ? r : cgroup_plan_usual(CGROUP_ROOT, (const char *)self.data, vm->id, g, err);
}

static int make_cgroup(cchv_vm *vm, cchv_error **err)
{
	struct cgroup *g = &vm->vmm->cgroup;
	int r;

	if (vm->config->cgroup && !*vm->config->cgroup)
		return CCHV_OK;
	r = plan_cgroup(vm, err);
	if (r < 0)
		return r;
	record_set(vm->record, "cgroups", json_copy(g->made));
	if (g->count)
		record_set(vm->record, "memory_cgroup", json_new_string(g->dirs[0]));
	r = record_write(vm->record, err);
	if (r == CCHV_OK)
		cgroup_make(g, memory_limit(vm, vm_config_vm_memory(vm_config_memory(vm->config))), &vm->ctx->log);
	return r;
}

int vm_spawn_vmm(cchv_vm *vm, cchv_error **err)
{
	struct vmm *v = vm->vmm;
	struct vmm_spawn s = {
		.program = v->choice.path,
		.run_dir = vm->run_dir,
		.run_dir_fd = vm->record->dir_fd,
		.death_signal = vm->config->kill_with_thread ? SIGKILL : 0,
		.netns_fd = vm->config->netns_fd,
		.set_ids = vm->config->set_ids,
		.uid = vm->config->uid,
		.gid = vm->config->gid,
		.rlimits = vm->config->rlimits,
		.rlimit_count = vm->config->rlimit_count,
	};
	struct json *process;
	int r;

	r = make_cgroup(vm, err);
	if (r < 0)
		return r;
	s.cgroup_procs_fds = v->cgroup.procs_fds;
	s.cgroup_count = v->cgroup.count;
	s.cgroup_optional = v->cgroup.usual;
	r = vmm_spawn(&s, &v->pid, &v->pidfd, &v->streams, err);
	if (r < 0)
		return err_prefix(err, r, "VM '%s'", vm->id);
	v->child = 1;
	proc_start_time(v->pid, &v->start_ticks, NULL);
	process = record_process_json(v->pid);
	json_set_string(process, "kind", vmm_kind_name(v->choice.kind));
	json_set_string(process, "path", v->choice.path);
	json_set_string(process, "reason", v->choice.reason);
	record_set(vm->record, "vmm", process);
	r = record_write(vm->record, err);
	if (r == CCHV_OK)
		r = vm_watch_vmm(vm, 1, err);
	return r;
}

int vm_kill_vmm(cchv_vm *vm, int reason, const char *text, cchv_error **err)
{
	struct vmm *v = vm->vmm;

	if (v->gone || v->pidfd < 0)
		return CCHV_OK;
	/* A boot may have been cut short. */
	vm_find_helper(vm);
	if (!v->end_reason) {
		v->end_reason = reason;
		v->end_text = text ? mem_strdup(text) : NULL;
	}
	if (proc_pidfd_signal(v->pidfd, SIGKILL) < 0 && errno != ESRCH)
		return err_set(err, err_code_of_errno(errno), errno, "VM '%s': kill VMM %d", vm->id, v->pid);
	v->killed = 1;
	return CCHV_OK;
}
