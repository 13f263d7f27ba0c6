/* SPDX-License-Identifier: Apache-2.0 */
/* Execs inside the agent: when an exit is published, and that no allocation that fails costs more than its request. */
#include "test.h"

#include "base/clock.h"
#include "base/fd.h"
#include "guest/container.h"
#include "guest/control.h"
#include "guest/device.h"
#include "guest/exec.h"
#include "guest/notify.h"
#include "guest/power.h"
#include "guest/reap.h"
#include "guest/stream.h"
#include "guest/worker.h"
#include "wire/frame.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define DEADLINE_MS 20000
#define TOKEN "00112233445566778899aabbccddeeff"

struct fixture {
	struct agent agent;
	int host; /* a control connection */
	struct json *reply;
	struct json *started, *exited;
};

static struct json *parse(const char *text)
{
	struct json *j = NULL;

	CHECK_INT(json_parse(text, strlen(text), &j, NULL), 0);
	return j;
}

static void set_up(struct fixture *f)
{
	static int (*const makers[])(struct agent *, cchv_error **) = {
		reap_new, workers_new, control_new, notify_new, power_new,
		streams_new, execs_new, devices_new, containers_new,
	};

	memset(f, 0, sizeof(*f));
	f->agent.log = (struct log_sink)LOG_SINK_INIT;
	f->host = -1;
	signal(SIGPIPE, SIG_IGN);
	CHECK_INT(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	CHECK_INT(loop_new(&f->agent.loop, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(makers); i++)
		CHECK_INT(makers[i](&f->agent, NULL), 0);
	f->agent.configured = 1;
}

static void tear_down(struct fixture *f)
{
	struct agent *a = &f->agent;

	json_free(f->reply);
	json_free(f->started);
	json_free(f->exited);
	fd_close(&f->host);
	containers_free(a);
	execs_free(a);
	devices_free(a);
	streams_free(a);
	power_free(a);
	notify_free(a);
	control_free(a);
	workers_free(a);
	reap_free(a);
	loop_free(a->loop);
}

static int round_of_loop(struct fixture *f, uint64_t deadline)
{
	int n = loop_run_once(f->agent.loop, deadline, NULL);

	control_sweep(&f->agent);
	pumps_sweep(streams_pumps(&f->agent));
	return n;
}

static void connect_host(struct fixture *f)
{
	cleanup_json struct json *first = parse("{\"kind\":\"control\",\"version\":1}"), *hello = NULL;
	int pair[2];

	CHECK_INT(fd_socketpair(pair), 0);
	CHECK_INT(fd_set_nonblock(pair[1], 1), 0);
	f->host = pair[0];
	control_open(&f->agent, pair[1], first);
	CHECK_INT(frame_recv(f->host, &hello, clock_deadline(DEADLINE_MS), NULL), 0);
	CHECK(json_get(hello, "hello"));
}

/* 1: something came; 0: nothing now; -1: the agent closed the connection. */
static int receive(struct fixture *f)
{
	struct json *message = NULL;
	char byte;
	ssize_t n = recv(f->host, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0)
		return 0;
	if (n == 0 || frame_recv(f->host, &message, clock_deadline(DEADLINE_MS), NULL) < 0)
		return -1;
	if (json_get(message, "event")) {
		int is_start = strcmp(json_as_string(json_get(message, "event")), "started") == 0;
		struct json **event = is_start ? &f->started : &f->exited;

		json_free(*event);
		*event = message;
	} else {
		json_free(f->reply);
		f->reply = message;
	}
	return 1;
}

static void request(struct fixture *f, const char *text)
{
	cleanup_json struct json *message = parse(text);

	json_free(f->reply);
	f->reply = NULL;
	CHECK_INT(frame_send(f->host, message, clock_deadline(DEADLINE_MS), NULL), 0);
}

/* Run until a reply or the end of the connection. */
static int wait_reply(struct fixture *f)
{
	uint64_t deadline = clock_deadline(DEADLINE_MS);
	int r = 0;

	while (!f->reply && (r = receive(f)) >= 0) {
		CHECK(!clock_passed(deadline));
		if (r == 0)
			round_of_loop(f, clock_deadline(100));
	}
	return f->reply ? 1 : -1;
}

static void wait_started(struct fixture *f)
{
	uint64_t deadline = clock_deadline(DEADLINE_MS);

	CHECK_INT(wait_reply(f), 1);
	CHECK(json_get(f->reply, "result"));
	while (!f->started) {
		CHECK(!clock_passed(deadline));
		if (receive(f) == 0)
			round_of_loop(f, clock_deadline(100));
	}
	CHECK(!f->exited);
}

static void wait_exited(struct fixture *f)
{
	uint64_t deadline = clock_deadline(DEADLINE_MS);

	while (!f->exited) {
		CHECK(!clock_passed(deadline));
		if (receive(f) == 0)
			round_of_loop(f, clock_deadline(100));
	}
}

static int offer(struct fixture *f, const char *stream)
{
	cleanup_json struct json *first = json_new_object();
	int pair[2];

	json_set_string(first, "kind", "stream");
	json_set_string(first, "token", TOKEN);
	json_set_string(first, "container", "");
	json_set_string(first, "exec", "x");
	json_set_string(first, "stream", stream);
	CHECK_INT(fd_socketpair(pair), 0);
	CHECK_INT(fd_set_nonblock(pair[1], 1), 0);
	stream_open(&f->agent, pair[1], first);
	return pair[0];
}

#define START(script, streams)                                                             \
	"{\"id\":1,\"method\":\"exec.start\",\"params\":{\"container\":\"\",\"exec\":\"x\","         \
	"\"process\":{\"args\":[\"/bin/sh\",\"-c\",\"" script "\"]},\"streams\":{" streams "}}}"
#define OUT "\"stdout\":{\"token\":\"" TOKEN "\"}"

TEST(an_exit_waits_for_its_output)
{
	struct fixture f;
	uint64_t start, bytes;
	int out;

	set_up(&f);
	connect_host(&f);
	out = offer(&f, "stdout");
	request(&f, START("head -c 3000000 /dev/zero", OUT));
	wait_started(&f);
	/* Nobody reads: far more than fits is written, so the process cannot end. */
	start = clock_mono_ns();
	while (clock_mono_ns() - start < 300 * NS_PER_MS) {
		CHECK_INT(receive(&f), 0);
		round_of_loop(&f, clock_deadline(50));
	}
	for (uint64_t got = 0; got < 3000000;) {
		char data[65536];
		ssize_t n = recv(out, data, sizeof(data), MSG_DONTWAIT);

		got += n > 0 ? (uint64_t)n : 0;
		if (n < 0)
			round_of_loop(&f, clock_deadline(100));
	}
	wait_exited(&f);
	CHECK_INT(json_as_u64(json_find(f.exited, "bytes.stdout"), &bytes), 0);
	CHECK_INT(bytes, 3000000);
	close(out);
	tear_down(&f);
}

TEST(a_stalled_reader_delays_it_by_a_second)
{
	struct fixture f;
	uint64_t start, bytes, took;
	int out;

	set_up(&f);
	connect_host(&f);
	out = offer(&f, "stdout");
	request(&f, START("sleep 30 & echo x", OUT));
	CHECK_INT(wait_reply(&f), 1);
	start = clock_mono_ns();
	wait_exited(&f);
	took = clock_mono_ns() - start;
	CHECK(took > 900 * NS_PER_MS && took < 10 * NS_PER_S);
	CHECK_INT(json_as_u64(json_find(f.exited, "bytes.stdout"), &bytes), 0);
	CHECK_INT(bytes, 2);
	close(out);
	tear_down(&f);
}

TEST(a_silent_process_ends_at_once)
{
	struct fixture f;
	uint64_t start = clock_mono_ns();

	set_up(&f);
	connect_host(&f);
	request(&f, START("exit 3", ""));
	CHECK_INT(wait_reply(&f), 1);
	wait_exited(&f);
	CHECK(clock_mono_ns() - start < 900 * NS_PER_MS);
	tear_down(&f);
}

/* With the n-th allocation and all later ones failing: a reply, an error, or a closed connection; never a hang. */
static int start_with_failure(uint64_t n, const char *text, int with_stream)
{
	uint64_t deadline = clock_deadline(DEADLINE_MS), before;
	struct fixture f;
	int out = -1, r;

	set_up(&f);
	connect_host(&f);
	if (with_stream)
		out = offer(&f, "stdout");
	request(&f, text);
	before = mem_count();
	mem_fail_from(n);
	for (int i = 0; i < 4; i++)
		round_of_loop(&f, clock_deadline(20));
	r = mem_count() - before < n;
	mem_fail_from(0);
	if (wait_reply(&f) < 0)
		fd_close(&f.host);
	while (exec_running(&f.agent, NULL) > 0) {
		CHECK(!clock_passed(deadline));
		round_of_loop(&f, clock_deadline(100));
	}
	CHECK_INT(exec_forget_all(&f.agent, ""), 0);
	fd_close(&out);
	tear_down(&f);
	return r;
}

TEST(any_allocation_may_fail)
{
	static const char silent[] = START("exit 0", ""), loud[] = START("echo x", OUT);
	uint64_t n = 1;

	while (!start_with_failure(n, silent, 0))
		CHECK(++n < 1000);
	CHECK(n > 20);
	n = 1;
	while (!start_with_failure(n, loud, 1))
		CHECK(++n < 1000);
}
