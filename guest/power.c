/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of the VM: see power.h. Enters: a reason. Leaves: no process, clean file systems, a `stopped`
 * notification, and then no VM.
 *
 * Steps: TERM to all; KILL at the deadline; unmount and sync in a worker (a disk may be slow); `stopped`; a moment for
 * the hosts to acknowledge it, since what lies in the VMM's buffers dies with the VMM; power off.
 */
#include "guest/power.h"

#include "base/clock.h"
#include "guest/container.h"
#include "guest/control.h"
#include "guest/exec.h"
#include "guest/notify.h"
#include "guest/unmount.h"
#include "guest/worker.h"
#include "wire/protocol.h"

#include <errno.h>
#include <signal.h>
#include <sys/reboot.h>
#include <unistd.h>

#define DEFAULT_TIMEOUT_MS 10000
#define KILL_TIMEOUT_MS 2000
#define SYNC_TIMEOUT_MS 60000
#define ACK_TIMEOUT_MS 300
/* The idle rule counts its seconds one by one: a VM that was paused for an hour must not wake up to its end. */
#define IDLE_TICK_MS 1000
#define IDLE_TICKS (PROTOCOL_UNACKED_EXIT_MS / IDLE_TICK_MS)

enum power_state { POWER_ON, POWER_TERM, POWER_KILL, POWER_SYNC, POWER_STOPPED };

struct power {
	enum power_state state;
	const char *reason;
	int timeout_ms;
	uint64_t acked, stopped;
	unsigned int idle_ticks;
	struct loop_timer *idle;
	struct loop_timer *step;
};

static void begin(struct agent *agent, const char *reason, int timeout_ms);

/* All has ended, and no host has said that it knows. */
static int is_idle(const struct agent *agent)
{
	const struct power *p = agent->power;

	return p->state == POWER_ON && exec_running(agent, NULL) == 0 && exec_unacknowledged(agent, p->acked);
}

static void on_idle(void *user_data)
{
	struct agent *agent = user_data;
	struct power *p = agent->power;

	/* A host may have deleted the last records. */
	if (!is_idle(agent))
		return;
	if (++p->idle_ticks < IDLE_TICKS) {
		loop_timer_set(p->idle, clock_deadline(IDLE_TICK_MS));
		return;
	}
	log_info(&agent->log, "nobody asks for the last exits: powering off");
	begin(agent, "idle", 0);
}

static void check_idle(struct agent *agent)
{
	struct power *p = agent->power;

	p->idle_ticks = 0;
	loop_timer_set(p->idle, is_idle(agent) ? clock_deadline(IDLE_TICK_MS) : CLOCK_NEVER);
}

void power_exec_exited(struct agent *agent)
{
	check_idle(agent);
}

void power_exec_started(struct agent *agent)
{
	check_idle(agent);
}

int power_is_off(const struct agent *agent)
{
	return agent->power->state != POWER_ON;
}

static void off(struct agent *agent)
{
	control_flush(agent, clock_deadline(ACK_TIMEOUT_MS));
	if (!agent->is_init) {
		agent->quit = 1;
		return;
	}
	sync();
	reboot(RB_POWER_OFF);
	log_error(&agent->log, "the machine does not power off: errno %d", errno);
}

static void say_stopped(struct agent *agent)
{
	struct power *p = agent->power;
	struct json *event = json_new_object();

	json_set_string(event, "event", "stopped");
	json_set_string(event, "reason", p->reason);
	p->state = POWER_STOPPED;
	p->stopped = notify_send(agent, event);
	loop_timer_set(p->step, clock_deadline(ACK_TIMEOUT_MS));
}

static int sync_and_unmount(void *arg, struct json **ret_result, const char **kind, cchv_error **err)
{
	struct agent *agent = arg;

	if (!agent->is_init)
		return CCHV_OK;
	sync();
	container_unmount_all(agent);
	unmount_all();
	sync();
	return CCHV_OK;
}

static void synced(struct agent *agent, void *user_data, int r, struct json *result, const char *kind,
                   cchv_error *err)
{
	if (r < 0)
		log_error(&agent->log, "unmount and sync: %s", cchv_error_message(err));
	json_free(result);
	cchv_error_free(err);
	say_stopped(agent);
}

static void all_ended(struct agent *agent, int timed_out, void *user_data)
{
	struct power *p = agent->power;
	cleanup_err cchv_error *err = NULL;

	if (p->state == POWER_SYNC || p->state == POWER_STOPPED)
		return;
	if (timed_out && p->state == POWER_TERM) {
		p->state = POWER_KILL;
		exec_signal_all(agent, NULL, SIGKILL);
		if (exec_wait_idle(agent, NULL, clock_deadline(KILL_TIMEOUT_MS), all_ended, NULL, NULL) == 0)
			return;
	}
	p->state = POWER_SYNC;
	/* Whoever is left is nobody's exec: daemons, helpers. */
	if (agent->is_init)
		kill(-1, SIGKILL);
	container_hand_over(agent);
	if (worker_start(agent, sync_and_unmount, agent, SYNC_TIMEOUT_MS, synced, NULL, &err) < 0) {
		log_error(&agent->log, "unmount and sync: %s", cchv_error_message(err));
		sync();
		say_stopped(agent);
	}
	/* The worker has the last hold of their mounts now, and so does the unmounting. */
	container_unmount_all(agent);
}

static void begin(struct agent *agent, const char *reason, int timeout_ms)
{
	struct power *p = agent->power;

	if (p->state != POWER_ON)
		return;
	p->state = POWER_TERM;
	p->reason = reason;
	check_idle(agent);
	exec_signal_leaders(agent, SIGTERM);
	if (exec_wait_idle(agent, NULL, clock_deadline(timeout_ms), all_ended, NULL, NULL) < 0)
		all_ended(agent, 1, NULL);
}

static void on_step(void *user_data)
{
	struct agent *agent = user_data;
	struct power *p = agent->power;

	if (p->state == POWER_ON)
		begin(agent, "request", p->timeout_ms);
	else if (p->state == POWER_STOPPED)
		off(agent);
}

void power_button(struct agent *agent)
{
	if (agent->power->state == POWER_TERM)
		all_ended(agent, 1, NULL);
	else
		begin(agent, "button", DEFAULT_TIMEOUT_MS);
}

int power_new(struct agent *agent, cchv_error **err)
{
	struct power *p = mem_zalloc(sizeof(*p));
	int r;

	if (!p)
		return err_nomem(err);
	agent->power = p;
	r = loop_timer_new(agent->loop, on_idle, agent, &p->idle, err);
	return r < 0 ? r : loop_timer_new(agent->loop, on_step, agent, &p->step, err);
}

void power_free(struct agent *agent)
{
	if (!agent->power)
		return;
	loop_timer_free(agent->power->idle);
	loop_timer_free(agent->power->step);
	free(agent->power);
	agent->power = NULL;
}

int power_ack(struct agent *agent, const struct json *params, struct reply *reply)
{
	struct power *p = agent->power;
	uint64_t seq;

	if (json_get_u64(params, "seq", &seq, NULL) != 1 || seq > notify_last(agent))
		return fail(&reply->kind, &reply->err, "method", EINVAL, "'seq' is no number of a notification");
	if (seq > p->acked)
		p->acked = seq;
	check_idle(agent);
	if (p->state == POWER_STOPPED && p->acked >= p->stopped)
		loop_timer_set(p->step, clock_deadline(0));
	return CCHV_OK;
}

int power_shutdown(struct agent *agent, const struct json *params, struct reply *reply)
{
	struct power *p = agent->power;
	uint64_t timeout_ms = DEFAULT_TIMEOUT_MS;

	if (json_get_u64(params, "timeout_ms", &timeout_ms, NULL) < 0 || timeout_ms > INT32_MAX)
		return fail(&reply->kind, &reply->err, "method", EINVAL, "'timeout_ms' is no time");
	if (p->state != POWER_ON)
		return CCHV_OK;
	p->timeout_ms = (int)timeout_ms;
	/* In the next round, so that this request's reply is first. */
	loop_timer_set(p->step, clock_deadline(0));
	return CCHV_OK;
}
