/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's beginning and its loop. Enters: a kernel that has just started us as PID 1 (or, in the test build, a
 * path for a socket). Leaves: nothing, ever: the end of PID 1 is a panic, so the VM ends by power.c.
 *
 * The way to the first hello is short on purpose: mounts, the few modules that carry vsock, listen, announce. All
 * other drivers load beside the first requests.
 */
#include "guest/agent.h"

#include "base/clock.h"
#include "base/fd.h"
#include "guest/boot.h"
#include "guest/button.h"
#include "guest/container.h"
#include "guest/control.h"
#include "guest/device.h"
#include "guest/exec.h"
#include "guest/listen.h"
#include "guest/module.h"
#include "guest/notify.h"
#include "guest/power.h"
#include "guest/process.h"
#include "guest/reap.h"
#include "guest/scale.h"
#include "guest/stream.h"
#include "guest/uevent.h"
#include "guest/worker.h"
#include "wire/protocol.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* In one piece, for who looks into the file; a number made into text would not be seen there. */
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
static const char banner[] = PROTOCOL_AGENT_BANNER AGENT_VERSION PROTOCOL_AGENT_BANNER_OF TEXT(PROTOCOL_VERSION) "\n";

static int make_rooms(struct agent *agent, cchv_error **err)
{
	static int (*const makers[])(struct agent *, cchv_error **) = {
		reap_new, workers_new, control_new, notify_new, power_new,
		streams_new, execs_new, devices_new, containers_new,
	};
	int r = loop_new(&agent->loop, err);

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(makers); i++)
		r = makers[i](agent, err);
	return r;
}

static void free_rooms(struct agent *agent)
{
	if (!agent->loop)
		return;
	containers_free(agent);
	execs_free(agent);
	devices_free(agent);
	streams_free(agent);
	power_free(agent);
	uevents_free(agent);
	notify_free(agent);
	control_free(agent);
	workers_free(agent);
	reap_free(agent);
	loop_free(agent->loop);
}

/* What ended in a round is freed after it, when nobody on the stack holds it. */
static int serve(struct agent *agent, cchv_error **err)
{
	while (!agent->quit) {
		int r = loop_run_once(agent->loop, CLOCK_NEVER, err);

		if (r < 0)
			return r;
		control_sweep(agent);
		pumps_sweep(streams_pumps(agent));
	}
	return CCHV_OK;
}

static int run_init(struct agent *agent, cchv_error **err)
{
	struct listener *listener = NULL;
	int fd = -1, r;

	module_load_boot(&agent->log);
	r = make_rooms(agent, err);
	if (r == 0)
		r = listen_vsock(&fd, err);
	if (r == 0)
		r = listener_new(agent, fd, 1, &listener, err);
	if (r < 0)
		return r;
	announce(agent);
	boot_finish(&agent->log);
	scale_begin();
	/* Before the coldplug, so that nothing that appears meanwhile is missed. */
	if (uevents_new(agent, err) < 0 || module_coldplug(agent, err) < 0 || button_watch(agent, err) < 0) {
		/* A VM that cannot be plugged is better than none. */
		log_error(&agent->log, "%s", cchv_error_message(*err));
		cchv_error_free(*err);
		*err = NULL;
	}
	return serve(agent, err);
}

#ifdef AGENT_TEST
static int run_test(struct agent *agent, const char *path, cchv_error **err)
{
	struct listener *listener = NULL;
	int fd, r = boot_test(agent, err);

	if (r == 0)
		r = make_rooms(agent, err);
	if (r < 0)
		return r;
	fd = fd_unix_listen(path, 128);
	if (fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "listen on '%s'", path);
	fd_set_nonblock(fd, 1);
	r = listener_new(agent, fd, 0, &listener, err);
	if (r == 0)
		r = boot_test_signals(agent, err);
	if (r == 0)
		r = serve(agent, err);
	exec_signal_all(agent, NULL, SIGKILL);
	listener_free(listener);
	boot_test_end(agent);
	return r;
}
#endif

int main(int argc, char **argv)
{
	struct agent agent = { .log = LOG_SINK_INIT };
	cleanup_err cchv_error *err = NULL;
	int r;

	if (module_is_helper(argv[0]))
		return module_helper(argc, argv);
#ifdef AGENT_TEST
	if (argc == 3 && strcmp(argv[1], "--test-socket") == 0) {
		r = run_test(&agent, argv[2], &err);
		if (r < 0)
			log_error(&agent.log, "%s", cchv_error_message(err));
		free_rooms(&agent);
		return r < 0;
	}
#endif
	if (getpid() != 1) {
		dprintf(STDOUT_FILENO, "%s", banner);
		return 2;
	}
	boot_begin(&agent);
	r = run_init(&agent, &err);
	log_error(&agent.log, "the agent cannot go on: %s", r < 0 ? cchv_error_message(err) : "it was stopped");
	free_rooms(&agent);
	boot_halt();
}
