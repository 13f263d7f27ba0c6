/* SPDX-License-Identifier: Apache-2.0 */
/* stop, kill, wait, rm, pause, unpause: what is done to containers by name. */
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "commands.h"
#include "launch.h"

/* An owner shuts the VM down, kills it when that takes too long, and takes everything away. */
#define GONE_MS (SHUTDOWN_MS + 15000)

/* The owner may have taken the end in hand already: that is no failure. */
static int harmless(int r)
{
	return r == CCHV_ERR_NOT_FOUND || r == CCHV_ERR_VMM_GONE || r == CCHV_ERR_GUEST_GONE ||
	       r == CCHV_ERR_STATE;
}

static int send_signal(struct client *c, int signal_number, int target)
{
	cchv_error *err = NULL;
	int r = cchv_exec_signal(c->init, signal_number, target, CALL_MS, &err);

	if (r < 0 && !harmless(r))
		return fail_error(err, "container '%s'", c->record->name);
	cchv_error_free(err);
	return 0;
}

static int kill_vm(struct client *c)
{
	cchv_error *err = NULL;

	if (cchv_vm_kill(c->vm, &err) < 0)
		return fail_error(err, "container '%s'", c->record->name);
	return 0;
}

struct stop_options {
	int timeout_ms;
};

static int stop(cchv_ctx *ctx, const char *name, void *data)
{
	const struct stop_options *o = data;
	struct client c = { 0 };
	struct record *record;
	int r, sig;

	r = record_find(ctx, name, &record);
	if (r)
		return r;
	if (record->status != STATUS_RUNNING && record->status != STATUS_PAUSED) {
		r = client_wait_gone(ctx, record->id, SHUTDOWN_MS);
		record_free(record);
		return r;
	}
	record_free(record);
	r = client_open(ctx, name, &c);
	if (r)
		return r;
	sig = c.record->stop_signal ? parse_signal(c.record->stop_signal) : SIGTERM;
	if (c.record->status == STATUS_PAUSED)
		cchv_container_resume(c.container, CALL_MS, NULL);
	r = send_signal(&c, sig > 0 ? sig : SIGTERM, CCHV_SIGNAL_LEADER);
	if (r == 0 && cchv_exec_wait(c.init, o->timeout_ms, NULL, NULL, NULL) == CCHV_ERR_TIMEOUT)
		r = send_signal(&c, SIGKILL, CCHV_SIGNAL_LEADER);
	/* The owner ends the VM once init has ended; one that cannot is helped. */
	if (r == 0 && cchv_vm_wait(c.vm, SHUTDOWN_MS + 5000, NULL, NULL) == CCHV_ERR_TIMEOUT)
		r = kill_vm(&c);
	if (r == 0)
		r = client_wait_gone(ctx, c.record->id, SHUTDOWN_MS);
	client_close(&c);
	return r;
}

int cmd_stop(int argc, char **argv)
{
	static const struct option options[] = { { "time", required_argument, NULL, 't' },
						 { "timeout", required_argument, NULL, 't' },
						 { NULL, 0, NULL, 0 } };
	struct stop_options o = { .timeout_ms = 10000 };
	int c;

	while ((c = getopt_long(argc, argv, "t:", options, NULL)) != -1) {
		if (c != 't')
			return EXIT_OURS;
		if (strcmp(optarg, "-1") == 0)
			o.timeout_ms = -1;
		else if (parse_seconds(optarg, &o.timeout_ms) < 0)
			return usage_error("stop", "-t '%s': not a number of seconds", optarg);
	}
	return client_for_each(argc, argv, optind, stop, &o);
}

static int kill_one(cchv_ctx *ctx, const char *name, void *data)
{
	const int *signal_number = data;
	struct client c = { 0 };
	cchv_error *err = NULL;
	int r = client_open(ctx, name, &c);

	if (r)
		return r;
	if (cchv_exec_signal(c.init, *signal_number, CCHV_SIGNAL_LEADER, CALL_MS, &err) < 0)
		r = fail_error(err, "container '%s'", name);
	client_close(&c);
	return r;
}

int cmd_kill(int argc, char **argv)
{
	static const struct option options[] = { { "signal", required_argument, NULL, 's' },
						 { NULL, 0, NULL, 0 } };
	int c, signal_number = SIGKILL;

	while ((c = getopt_long(argc, argv, "s:", options, NULL)) != -1) {
		if (c != 's')
			return EXIT_OURS;
		signal_number = parse_signal(optarg);
		if (signal_number < 0)
			return usage_error("kill", "-s '%s': no such signal", optarg);
	}
	return client_for_each(argc, argv, optind, kill_one, &signal_number);
}

/* As soon as it is known, whatever else is waited for. */
static void print_code(int code)
{
	printf("%d\n", code);
	fflush(stdout);
}

/* What the owner wrote down, once it has let go of the VM: that is the truth, whatever a client has seen of it. */
static int print_recorded_end(cchv_ctx *ctx, const char *id, cchv_error *lost)
{
	struct record *record = NULL;
	int r = record_find(ctx, id, &record);

	if (r == 0 && record->status == STATUS_EXITED)
		print_code(record_exit_status(record));
	else if (r == 0)
		r = fail("container '%s': %s", record->name, cchv_error_message(lost));
	record_free(record);
	return r;
}

/* As after run: when it returns, the end is written down and what the container held (disks) is free again. */
static int wait_running(cchv_ctx *ctx, const char *id)
{
	struct client c = { 0 };
	cchv_error *err = NULL;
	int code = 0, sig = 0, known, r;

	known = client_open_quietly(ctx, id, &c, &err) == CCHV_OK &&
		cchv_exec_wait(c.init, -1, &code, &sig, &err) == CCHV_OK;
	client_close(&c);
	if (known)
		print_code(sig ? 128 + sig : code);
	r = client_wait_gone(ctx, id, GONE_MS);
	if (r == 0 && !known)
		r = print_recorded_end(ctx, id, err);
	cchv_error_free(err);
	return r;
}

/* Its end is known; its VM may still be on the way down. */
static int wait_ended(cchv_ctx *ctx, const struct record *record)
{
	print_code(record_exit_status(record));
	return client_wait_gone(ctx, record->id, GONE_MS);
}

static int wait_one(cchv_ctx *ctx, const char *name)
{
	struct record *record;
	int r = record_find(ctx, name, &record);

	if (r)
		return r;
	if (record->status == STATUS_RUNNING || record->status == STATUS_PAUSED)
		r = wait_running(ctx, record->id);
	else if (record->status == STATUS_EXITED)
		r = wait_ended(ctx, record);
	else
		r = fail("container '%s' was never started", name);
	record_free(record);
	return r;
}

int cmd_wait(int argc, char **argv)
{
	cchv_ctx *ctx;
	int r = refuse_options(argc, argv);

	if (r)
		return r;
	if (argc < 2)
		return usage_error("wait", "no container given");
	ctx = open_context();
	for (int i = 1; i < argc; i++)
		if (wait_one(ctx, argv[i]))
			r = 1;
	cchv_ctx_free(ctx);
	return r;
}

static int rm(cchv_ctx *ctx, const char *name, void *data)
{
	const int *force = data;
	struct record *record;
	cchv_vm *vm = NULL;
	cchv_error *err = NULL;
	int r = record_find(ctx, name, &record);

	if (r)
		return *force ? 0 : r;
	if ((record->status == STATUS_RUNNING || record->status == STATUS_PAUSED) && !*force) {
		r = fail("container '%s' is %s: stop it first, or use -f", name, status_name(record->status));
	} else if (cchv_vm_open(ctx, record->id, &vm, NULL) == CCHV_OK) {
		if (*force && cchv_vm_kill(vm, &err) < 0)
			r = fail_error(err, "container '%s'", name);
		cchv_vm_free(vm);
	}
	if (r == 0)
		r = client_wait_gone(ctx, record->id, SHUTDOWN_MS);
	if (r == 0)
		r = record_remove(ctx, record);
	record_free(record);
	return r;
}

int cmd_rm(int argc, char **argv)
{
	static const struct option options[] = { { "force", no_argument, NULL, 'f' }, { NULL, 0, NULL, 0 } };
	int c, force = 0;

	while ((c = getopt_long(argc, argv, "f", options, NULL)) != -1) {
		if (c != 'f')
			return EXIT_OURS;
		force = 1;
	}
	return client_for_each(argc, argv, optind, rm, &force);
}

static int freeze(cchv_ctx *ctx, const char *name, void *data)
{
	const int *on = data;
	struct client c = { 0 };
	cchv_error *err = NULL;
	int r = client_open(ctx, name, &c);

	if (r)
		return r;
	if ((*on ? cchv_container_pause(c.container, CALL_MS, &err)
		 : cchv_container_resume(c.container, CALL_MS, &err)) < 0)
		r = fail_error(err, "container '%s'", name);
	client_close(&c);
	return r;
}

int cmd_pause(int argc, char **argv)
{
	int on = 1, r = refuse_options(argc, argv);

	return r ? r : client_for_each(argc, argv, 1, freeze, &on);
}

int cmd_unpause(int argc, char **argv)
{
	int on = 0, r = refuse_options(argc, argv);

	return r ? r : client_for_each(argc, argv, 1, freeze, &on);
}
