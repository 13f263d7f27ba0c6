/* SPDX-License-Identifier: Apache-2.0 */
/* A VM handle without a VMM, whose agent is a script in another process (peer.h): for tests of containers and execs. */
#ifndef TESTS_UNIT_EXEC_STUB_H
#define TESTS_UNIT_EXEC_STUB_H

#include "attach.h"
#include "ctx.h"
#include "exec.h"
#include "peer.h"
#include "vm_agent.h"
#include "vm_loop.h"
#include "vm_process.h"
#include "vm_stop.h"

#include <poll.h>

#include <cchv/container.h>
#include <cchv/event.h>

static cchv_vm *vm;
static pid_t peer;

static inline void stub_begin(void (*script)(int listener))
{
	cchv_ctx *ctx = NULL;
	char run_dir[128];

	peer = peer_start(script);
	CHECK_INT(cchv_ctx_new(&ctx, NULL), 0);
	CHECK_INT(cchv_ctx_set_state_dir(ctx, test_dir()), 0);
	vm = mem_zalloc(sizeof(*vm));
	atomic_init(&vm->refs, 1);
	vm->ctx = ctx;
	vm->process = getpid();
	vm->id = mem_strdup("stub");
	snprintf(run_dir, sizeof(run_dir), "%s", test_dir());
	vm->run_dir = mem_strdup(run_dir);
	vm->vsock_path = mem_strdup(peer_path);
	/* Known already, so that nothing is written down. */
	vm->boot_id = mem_strdup("b");
	CHECK_INT(vmm_new(&vm->vmm, NULL), 0);
	CHECK_INT(vm_loop_init(vm, NULL), 0);
	vm->owner = 1;
	vm->state = CCHV_VM_RUNNING;
	CHECK_INT(vm_enter(vm, NULL), 0);
	CHECK_INT(vm_agent_dial(vm, NULL, 0, NULL), 0);
	CHECK_INT(vm_agent_wait(vm, clock_deadline(PATIENCE_MS), NULL), 0);
	vm_leave(vm);
}

/* The script has run to its end, and did not complain. */
static inline void stub_end(void)
{
	cchv_vm_free(vm);
	peer_end(peer);
}

/* The VMM is gone. */
static inline void stub_stop(void)
{
	CHECK_INT(vm_enter(vm, NULL), 0);
	vm->owner = 0;
	vm_set_stopped(vm, CCHV_STOP_VMM_SIGNAL, "VMM killed by signal 9");
	vm->owner = 1;
	vm_leave(vm);
}

/* cchv_vm_exec() of one word in the bare guest, with the id "e". */
static inline int stub_exec(cchv_stdio_config *stdio, int timeout_ms, cchv_exec **ret_exec, cchv_error **err)
{
	cchv_exec_config *config = NULL;
	int r;

	CHECK_INT(cchv_exec_config_new(&config), 0);
	CHECK_INT(cchv_exec_config_set_id(config, "e"), 0);
	CHECK_INT(cchv_exec_config_add_arg(config, "true"), 0);
	CHECK_INT(cchv_exec_config_set_stdio(config, stdio), 0);
	r = cchv_vm_exec(vm, config, timeout_ms, ret_exec, err);
	cchv_exec_config_free(config);
	return r;
}

static inline cchv_exec *stub_start(cchv_stdio_config *stdio)
{
	cchv_exec *exec = NULL;

	CHECK_INT(stub_exec(stdio, PATIENCE_MS, &exec, NULL), 0);
	return exec;
}

/* Events so far, as "started exited(3/0) ". */
static inline const char *stub_events(void)
{
	static char text[1024];
	cchv_event *event = NULL;

	text[0] = '\0';
	while (cchv_vm_next_event(vm, &event) == 1) {
		size_t n = strlen(text);

		if (cchv_event_get_type(event) == CCHV_EVENT_EXEC_EXITED)
			snprintf(text + n, sizeof(text) - n, "exited(%d/%d) ",
			         cchv_event_get_exit_code(event),
			         cchv_event_get_signal(event));
		else
			snprintf(text + n, sizeof(text) - n, "%s ", cchv_event_get_type_name(event));
		cchv_event_free(event);
		event = NULL;
	}
	return text;
}

static inline size_t stub_count_execs(void)
{
	size_t n = 0;

	if (vm->guest && vm->guest->bare)
		for (struct exec *exec = vm->guest->bare->execs; exec; exec = exec->next)
			n++;
	return n;
}

static inline void stub_serve(int ms)
{
	uint64_t deadline = clock_deadline(ms);

	while (!clock_passed(deadline)) {
		CHECK_INT(vm_enter(vm, NULL), 0);
		vm_serve(vm, deadline, NULL);
		vm_leave(vm);
	}
}

/* One round; what waits in it may come at any time: for loops that wait for something. */
static inline void stub_round(uint64_t deadline)
{
	CHECK(!clock_passed(deadline));
	CHECK_INT(vm_enter(vm, NULL), 0);
	vm_serve(vm, clock_deadline(100), NULL);
	vm_leave(vm);
}

/* Until what was written to, or closed on, the other side of a descriptor has come to this one. */
static inline void stub_until_readable(int fd)
{
	uint64_t deadline = clock_deadline(PATIENCE_MS);
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (poll(&p, 1, 0) == 0)
		stub_round(deadline);
}

/* ---- the script's words ---- */

#define PEER_HELLO "{\"hello\":{\"version\":1,\"agent\":\"0.1.0\",\"boot_id\":\"b\",\"features\":[],\"seq\":0}}"
#define EXITED(seq, status, bytes) \
	"{\"seq\":" #seq ",\"event\":\"exited\",\"container\":\"\",\"exec\":\"e\",\"pid\":7,\"status\":" #status \
	",\"time_ns\":1,\"bytes\":" bytes "}"

static inline int script_control(int listener)
{
	int fd = peer_answer(listener, "OK 1\n");

	peer_recv(fd);
	peer_send(fd, PEER_HELLO);
	return fd;
}

/* A request of that method: its id. */
static inline unsigned long long script_expect(int fd, const char *method)
{
	const char *got = peer_recv(fd);
	unsigned long long id = 0;
	char wanted[64];

	snprintf(wanted, sizeof(wanted), "\"method\":\"%s\"", method);
	if (sscanf(got, "{\"id\":%llu", &id) != 1 || !strstr(got, wanted)) {
		fprintf(stderr, "script got %s\ninstead of %s\n", got, method);
		_exit(40);
	}
	return id;
}

static inline void script_reply(int fd, unsigned long long id, const char *result)
{
	char text[512];

	snprintf(text, sizeof(text), "{\"id\":%llu,\"result\":%s}", id, result);
	peer_send(fd, text);
}

static inline void script_refuse(int fd, unsigned long long id, const char *kind, const char *name)
{
	char text[512];

	snprintf(text, sizeof(text),
	         "{\"id\":%llu,\"error\":{\"errno\":\"%s\",\"kind\":\"%s\",\"message\":\"no\"}}", id,
	         name, kind);
	peer_send(fd, text);
}

/* A stream of exec "e" is dialled. */
static inline int script_stream(int listener, const char *name)
{
	int fd = peer_answer(listener, "OK 2\n");
	char wanted[64];
	const char *got;

	snprintf(wanted, sizeof(wanted), "\"exec\":\"e\",\"stream\":\"%s\"", name);
	got = peer_recv(fd);
	if (!strstr(got, wanted)) {
		fprintf(stderr, "script got %s\ninstead of %s\n", got, wanted);
		_exit(41);
	}
	return fd;
}

static inline void script_end(int fd)
{
	char byte;

	/* Acknowledgements may still come. */
	while (read(fd, &byte, 1) > 0)
		continue;
	close(fd);
}

#endif
