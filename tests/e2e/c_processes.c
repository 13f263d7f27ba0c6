/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes: many in a row and at once, their codes and signals, what they leave behind, an event loop of one's own,
 * fork. Enters: a world. Leaves: nothing; the process ends where something is wrong.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "c_world.h"

/* Each has its own last line and its own code. */
static void one_of_many(struct world *w, int series, int number)
{
	char script[80], want[64];
	cchv_exec *exec;

	snprintf(script, sizeof(script), "echo first; echo last %d %d; exit %d", series, number, number % 256);
	snprintf(want, sizeof(want), "first\nlast %d %d\n", series, number);
	exec = run_script(w, script, STREAM(CCHV_STDOUT));
	expect_text(take(exec, CCHV_STDOUT), want);
	expect_end(exec, number % 256, 0);
}

static void case_in_a_row(struct world *w)
{
	cchv_stats *before = NULL, *after = NULL;
	uint64_t agent[2] = { 0 };

	one_of_many(w, 0, 0);
	MUST(cchv_vm_get_stats(w->vm, PATIENCE_MS, &before, &err));
	for (int i = 0; i < (int)w->count; i++)
		one_of_many(w, 1, i);
	MUST(cchv_vm_get_stats(w->vm, PATIENCE_MS, &after, &err));
	MUST(cchv_stats_find(before, "guest.agent.rss_bytes", &agent[0]));
	MUST(cchv_stats_find(after, "guest.agent.rss_bytes", &agent[1]));
	wanted(agent[1] < agent[0] + (1 << 20), "the agent's memory after many processes");
	cchv_stats_free(before);
	cchv_stats_free(after);
}

struct worker {
	struct world *w;
	int number;
};

static void *work(void *argument)
{
	struct worker *worker = argument;

	for (int i = 0; i < 3; i++)
		one_of_many(worker->w, i, worker->number);
	return NULL;
}

/* Twenty threads, one process each at any time. */
static void case_threads(struct world *w)
{
	pthread_t threads[20];
	struct worker workers[20];

	for (int i = 0; i < 20; i++) {
		workers[i] = (struct worker){ w, i };
		wanted(pthread_create(&threads[i], NULL, work, &workers[i]) == 0, "thread");
	}
	for (int i = 0; i < 20; i++)
		pthread_join(threads[i], NULL);
}

/* Twenty that live at once, of one thread: all have begun before the first may end. */
static void case_at_once(struct world *w)
{
	cchv_exec *execs[20];
	int in[20], out[20];
	char line[64], want[64];

	for (int i = 0; i < 20; i++) {
		execs[i] = run_script(w, "read n; echo mine $n; exit $n",
		                      STREAM(CCHV_STDIN) | STREAM(CCHV_STDOUT));
		in[i] = take(execs[i], CCHV_STDIN);
		out[i] = take(execs[i], CCHV_STDOUT);
	}
	for (int i = 19; i >= 0; i--) {
		int n = snprintf(line, sizeof(line), "%d\n", i + 100);

		wanted(write(in[i], line, (size_t)n) == n, "write");
	}
	for (int i = 0; i < 20; i++) {
		snprintf(want, sizeof(want), "mine %d\n", i + 100);
		expect_text(out[i], want);
		close(in[i]);
		expect_end(execs[i], i + 100, 0);
	}
}

/* Whether a process of the container lives; a zombie does not. */
static int lives(struct world *w, long pid)
{
	char script[80];
	int code, sig;
	cchv_exec *exec;

	snprintf(script, sizeof(script), "grep -q '^State:.[RSD]' /proc/%ld/status", pid);
	exec = run_script(w, script, 0);
	MUST(cchv_exec_wait(exec, PATIENCE_MS, &code, &sig, &err));
	cchv_exec_free(exec);
	return code == 0;
}

static void wait_for_death(struct world *w, long pid)
{
	for (uint64_t start = now_ms(); lives(w, pid);)
		wanted(now_ms() - start < PATIENCE_MS, "the process ends");
}

/* A leader with a child in its group: what a signal to the group, or to the leader alone, does to the child. */
static void signal_a_tree(struct world *w, int target, int child_dies)
{
	cchv_exec *exec = run_script(w, "sleep 600 & echo $!; wait", STREAM(CCHV_STDOUT));
	int out = take(exec, CCHV_STDOUT);
	char line[32];
	long child;

	wanted(read_line(out, line, sizeof(line)) > 0, "the child's pid");
	wanted(sscanf(line, "%ld", &child) == 1 && lives(w, child), "the child");
	MUST(cchv_exec_signal(exec, SIGKILL, target, PATIENCE_MS, &err));
	expect_end(exec, -1, SIGKILL);
	close(out);
	if (child_dies) {
		wait_for_death(w, child);
	} else {
		wanted(lives(w, child), "a child outlives a signal to its parent alone");
		snprintf(line, sizeof(line), "kill -9 %ld", child);
		expect_end(run_script(w, line, 0), 0, 0);
	}
}

static void case_signals(struct world *w)
{
	static const int numbers[] = { 1, 2, 3, 6, 9, 11, 13, 14, 15, 34, 64 };
	char number[16];
	cchv_exec *exec;
	int out;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		const char *const argv[] = { "probe", "die", number, NULL };

		snprintf(number, sizeof(number), "%d", numbers[i]);
		expect_end(run(w, argv, 0), -1, numbers[i]);
	}
	/* One that is caught is no end; the exit of the handler is. */
	exec = run_script(w, "trap 'exit 5' USR1; echo up; while :; do sleep 0.1; done", STREAM(CCHV_STDOUT));
	out = take(exec, CCHV_STDOUT);
	wanted(read_line(out, number, sizeof(number)) == 2, "it is up");
	MUST(cchv_exec_signal(exec, 0, CCHV_SIGNAL_LEADER, PATIENCE_MS, &err));
	MUST(cchv_exec_signal(exec, SIGUSR1, CCHV_SIGNAL_GROUP, PATIENCE_MS, &err));
	MUST(cchv_exec_wait(exec, PATIENCE_MS, NULL, NULL, &err));
	REFUSED(cchv_exec_signal(exec, SIGTERM, CCHV_SIGNAL_GROUP, PATIENCE_MS, &err), CCHV_ERR_NOT_FOUND, 0, "");
	REFUSED(cchv_exec_signal(exec, SIGTERM, 77, PATIENCE_MS, &err), CCHV_ERR_UNSUPPORTED, 0, "");
	expect_end(exec, 5, 0);
	close(out);
	signal_a_tree(w, CCHV_SIGNAL_GROUP, 1);
	signal_a_tree(w, CCHV_SIGNAL_LEADER, 0);
}

/* A background grandchild holds the pipe: the end is known within a second (here ten), and later data still flows. */
static void case_grandchild(struct world *w)
{
	static const char script[] = "mkfifo /tmp/go; (read go < /tmp/go; echo late) & echo up; exit 4";
	cchv_exec *exec = run_script(w, script, STREAM(CCHV_STDOUT));
	int out = take(exec, CCHV_STDOUT);
	uint64_t start = now_ms();
	char line[32];

	wanted(read_line(out, line, sizeof(line)) == 2 && strcmp(line, "up") == 0, "its first line");
	expect_end(exec, 4, 0);
	wanted(now_ms() - start < 10000, "the end waited for a grandchild");
	/* The record is deleted, the handle is freed, and the stream is still the grandchild's. */
	expect_end(run_script(w, "echo go > /tmp/go", 0), 0, 0);
	expect_text(out, "late\n");
}

static void case_orphans(struct world *w)
{
	static const char *const argv[] = { "probe", "orphans", "10", NULL };
	static const char *const look[] = { "probe", "zombies", NULL };
	char text[32] = "";

	for (int i = 0; i < 5; i++)
		expect_end(run(w, argv, 0), 3, 0);
	for (uint64_t start = now_ms(); strcmp(text, "0\n") != 0;) {
		cchv_exec *exec = run(w, look, STREAM(CCHV_STDOUT));

		read_all(take(exec, CCHV_STDOUT), text, sizeof(text));
		expect_end(exec, 0, 0);
		wanted(now_ms() - start < PATIENCE_MS, "no zombie is left");
	}
}

/* A loop of our own over the VM's fd: the end of each process arrives as an event. */
static void case_loop(struct world *w)
{
	struct pollfd p = { .fd = cchv_vm_get_fd(w->vm), .events = POLLIN };
	cchv_exec *execs[5];
	cchv_event *event;
	int ended = 0;

	while (cchv_vm_next_event(w->vm, &event) > 0)
		cchv_event_free(event); /* of the cases before */
	for (int i = 0; i < 5; i++)
		execs[i] = run_script(w, "exit 9", 0);
	while (ended < 5) {
		wanted(poll(&p, 1, PATIENCE_MS) == 1, "an event in time");
		MUST(cchv_vm_dispatch(w->vm, &err));
		while (cchv_vm_next_event(w->vm, &event) > 0) {
			if (cchv_event_get_type(event) == CCHV_EVENT_EXEC_EXITED) {
				wanted(cchv_event_get_exit_code(event) == 9, "exit code of an event");
				ended++;
			}
			cchv_event_free(event);
		}
	}
	for (int i = 0; i < 5; i++)
		expect_end(execs[i], 9, 0);
	wanted(cchv_vm_get_fd(w->vm) == p.fd, "the fd is the same");
}

/* Only _free is allowed in a child: everything else says so, and the parent's VM goes on. */
static void case_fork(struct world *w)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		cchv_error *err = NULL;
		int r = cchv_exec_wait(w->init, 0, NULL, NULL, &err);

		cchv_error_free(err);
		cchv_exec_free(w->init);
		cchv_container_free(w->container);
		cchv_vm_free(w->vm);
		_exit(r == CCHV_ERR_FORKED ? 0 : 1);
	}
	wanted(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the child");
	expect_end(run_script(w, "true", 0), 0, 0);
}

const struct c_case c_process_cases[] = {
	{ "at-once", case_at_once, 0 }, { "in-a-row", case_in_a_row, 0 },     { "threads", case_threads, 0 },
	{ "signals", case_signals, 0 }, { "grandchild", case_grandchild, 0 }, { "orphans", case_orphans, 0 },
	{ "loop", case_loop, 0 },       { "fork", case_fork, 0 },             { NULL, NULL, 0 },
};
