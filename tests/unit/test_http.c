/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/http.h"

#include "base/clock.h"
#include "base/fd.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct loop *loop;
static struct vmm_http *http;
static int listener;

/* A server in a child: accepts once per script entry that starts with '>' ; see serve(). */
static void setup(int keep)
{
	char path[300];
	int dir_fd;

	CHECK_INT(loop_new(&loop, NULL), 0);
	snprintf(path, sizeof(path), "%s/api.sock", test_dir());
	unlink(path);
	listener = fd_unix_listen(path, 10);
	CHECK(listener >= 0);
	dir_fd = open(test_dir(), O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(vmm_http_new(loop, dir_fd, "api.sock", keep, &http, NULL), 0);
	close(dir_fd);
}

static void teardown(void)
{
	vmm_http_free(http);
	loop_free(loop);
	fd_close(&listener);
}

/* Read one request (its head and Content-Length bytes); 0 at end of file. Received fds are counted. */
static int read_request(int fd, char *out, size_t room, size_t *fd_count)
{
	size_t len = 0;

	for (;;) {
		int fds[8];
		size_t n_fds = 8;
		ssize_t n = fd_recv_with_fds(fd, out + len, room - 1 - len, fds, &n_fds);
		char *end, *cl;

		if (n <= 0)
			return 0;
		for (size_t i = 0; i < n_fds; i++)
			close(fds[i]);
		*fd_count += n_fds;
		len += (size_t)n;
		out[len] = '\0';
		end = strstr(out, "\r\n\r\n");
		if (!end)
			continue;
		cl = strcasestr(out, "Content-Length: ");
		if (len >= (size_t)(end + 4 - out) + (cl ? strtoul(cl + 16, NULL, 10) : 0))
			return 1;
	}
}

/* Serve connections one after the other: each request gets the next answer; NULL closes without one. */
static pid_t serve(const char *const *answers, int count)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	alarm(PATIENCE_MS / 1000);
	for (int i = 0; i < count;) {
		int fd = accept(listener, NULL, NULL);
		char request[8192];
		size_t n_fds = 0;

		while (i < count && read_request(fd, request, sizeof(request), &n_fds)) {
			const char *answer = answers[i++];

			if (!answer)
				break;
			if (strcmp(answer, "stall") == 0) {
				pause();
			} else if (strcmp(answer, "echo") == 0) {
				char first[100], *eol = strstr(request, "\r\n");
				char *body = strstr(request, "\r\n\r\n") + 4, text[9000];
				int n = snprintf(first, sizeof(first), "%.*s", (int)(eol - request), request);

				(void)n;
				snprintf(text, sizeof(text), "[\"%s\",%s,%zu,%d]", first, *body ? body : "null", n_fds,
				         strcasestr(request, "expect:") != NULL);
				dprintf(fd, "HTTP/1.1 200 \r\nContent-Length: %zu\r\n\r\n%s", strlen(text), text);
			} else {
				CHECK(write(fd, answer, strlen(answer)) > 0);
			}
		}
		close(fd);
	}
	_exit(0);
}

struct outcome {
	int done;
	int result;
	char *text;
	char *error;
};

static void on_reply(int result, struct json **body, cchv_error **error, void *user_data)
{
	struct outcome *o = user_data;
	struct buf b = BUF_INIT(10000);

	o->done++;
	o->result = result;
	if (*body) {
		CHECK_INT(json_print(*body, 0, &b), 0);
		o->text = buf_take_string(&b);
	}
	if (*error)
		o->error = strdup(cchv_error_message(*error));
	buf_free(&b);
}

static void run(struct outcome *o)
{
	uint64_t deadline = clock_deadline(PATIENCE_MS);

	while (!o->done) {
		CHECK(!clock_passed(deadline));
		CHECK(loop_run_once(loop, deadline, NULL) >= 0);
	}
	CHECK_INT(o->done, 1);
}

static void forget(struct outcome *o)
{
	free(o->text);
	free(o->error);
	*o = (struct outcome){ 0 };
}

static void call(const char *method, const char *name, const char *body, uint64_t limit_ms, struct outcome *o)
{
	struct json *json = NULL;
	struct vmm_call *c;

	if (body)
		CHECK_INT(json_parse(body, strlen(body), &json, NULL), 0);
	CHECK_INT(vmm_http_call(http, method, name, json, limit_ms, on_reply, o, &c, NULL), 0);
}

#define OK204 "HTTP/1.1 204 \r\nServer: Cloud Hypervisor API\r\nConnection: keep-alive\r\n\r\n"

TEST(calls_on_one_connection)
{
	static const char *const answers[] = { "echo", OK204, "echo" };
	struct outcome o = { 0 }, p = { 0 };
	int fds[2], status;
	pid_t pid;

	setup(1);
	pid = serve(answers, 3);
	call("PUT", "vm.create", "{\"a\":18446744073709551615}", PATIENCE_MS, &o);
	call("PUT", "vm.boot", NULL, PATIENCE_MS, &p);
	run(&o);
	CHECK_INT(o.result, CCHV_OK);
	CHECK_STR(o.text, "[\"PUT /api/v1/vm.create HTTP/1.1\",{\"a\":18446744073709551615},0,0]");
	forget(&o);
	run(&p);
	CHECK_INT(p.result, CCHV_OK);
	CHECK(!p.text);
	CHECK_INT(pipe(fds), 0);
	call("GET", "vm.info", NULL, PATIENCE_MS, &o);
	run(&o);
	CHECK_STR(o.text, "[\"GET /api/v1/vm.info HTTP/1.1\",null,0,0]");
	forget(&o);
	close(fds[0]);
	close(fds[1]);
	teardown();
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
}

TEST(without_memory_a_call_ends)
{
	static const char *const answers[] = { OK204 };
	int ended_well = 0;

	for (uint64_t n = 1; n < 100 && !ended_well; n++) {
		struct outcome o = { 0 };
		pid_t pid;

		setup(1);
		pid = serve(answers, 1);
		call("PUT", "vm.boot", NULL, 60000, &o);
		mem_fail_from(n);
		run(&o);
		mem_fail_from(0);
		CHECK(o.result <= 0);
		ended_well = o.result == CCHV_OK;
		forget(&o);
		teardown();
		kill(pid, SIGKILL);
		CHECK_INT(waitpid(pid, NULL, 0), pid);
	}
	CHECK(ended_well);
}

TEST(descriptors_travel_with_a_request)
{
	static const char *const answers[] = { "echo" };
	struct json *body = json_new_object();
	struct outcome o = { 0 };
	struct vmm_call *c;
	int fds[2];

	setup(1);
	serve(answers, 1);
	CHECK_INT(pipe(fds), 0);
	json_set_string(body, "id", "net0");
	CHECK_INT(vmm_http_call_fds(http, "vm.add-net", body, fds, 2, PATIENCE_MS, on_reply, &o, &c, NULL), 0);
	close(fds[0]);
	close(fds[1]);
	run(&o);
	CHECK_STR(o.text, "[\"PUT /api/v1/vm.add-net HTTP/1.1\",{\"id\":\"net0\"},2,0]");
	forget(&o);
	teardown();
}

TEST(refusals_and_rubbish)
{
	static const char *const answers[] = {
		"HTTP/1.1 500 \r\nContent-Length: 23\r\n\r\n[\"outer\",\"inner cause\"]",
		"HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 \r\nContent-Length: 3\r\n\r\nxyz",
		"SSH-2.0-OpenSSH\r\n\r\n",
		NULL,
	};
	struct outcome o = { 0 };
	pid_t pid;

	setup(0);
	pid = serve(answers, 5);
	call("PUT", "vm.boot", NULL, PATIENCE_MS, &o);
	run(&o);
	CHECK_INT(o.result, CCHV_ERR_VMM);
	CHECK_CONTAINS(o.error, "vm.boot: inner cause (outer)");
	forget(&o);
	call("PUT", "vm.boot", NULL, PATIENCE_MS, &o);
	run(&o);
	CHECK_INT(o.result, CCHV_ERR_VMM);
	CHECK_CONTAINS(o.error, "status 404");
	forget(&o);
	call("GET", "vm.info", NULL, PATIENCE_MS, &o);
	run(&o);
	CHECK_INT(o.result, CCHV_ERR_PROTOCOL);
	forget(&o);
	call("GET", "vm.info", NULL, PATIENCE_MS, &o);
	run(&o);
	CHECK_INT(o.result, CCHV_ERR_PROTOCOL);
	forget(&o);
	call("GET", "vm.info", NULL, PATIENCE_MS, &o);
	run(&o);
	CHECK_INT(o.result, CCHV_ERR_VMM_GONE);
	forget(&o);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	/* Nobody listens any more. */
	fd_close(&listener);
	call("GET", "vm.info", NULL, PATIENCE_MS, &o);
	run(&o);
	CHECK_INT(o.result, CCHV_ERR_VMM_GONE);
	forget(&o);
	teardown();
}

TEST(a_stalled_call_ends_at_its_limit)
{
	static const char *const answers[] = { "stall" };
	struct outcome o = { 0 }, p = { 0 };
	struct vmm_call *c;
	pid_t pid;

	setup(1);
	pid = serve(answers, 1);
	call("PUT", "vm.boot", NULL, 200, &o);
	CHECK_INT(vmm_http_call(http, "GET", "vm.info", NULL, 100, on_reply, &p, &c, NULL), 0);
	vmm_call_forget(c);
	run(&o);
	CHECK_INT(o.result, CCHV_ERR_TIMEOUT);
	CHECK_STR(o.error, "vm.boot: the VMM does not answer within 200 ms");
	CHECK_INT(p.done, 0);
	forget(&o);
	kill(pid, SIGKILL);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	teardown();
}

TEST(an_abort_ends_all)
{
	struct outcome o = { 0 }, p = { 0 }, q = { 0 };

	setup(1);
	call("PUT", "vm.boot", NULL, PATIENCE_MS, &o);
	call("GET", "vm.info", NULL, PATIENCE_MS, &p);
	CHECK(loop_run_once(loop, clock_deadline(PATIENCE_MS), NULL) >= 0);
	vmm_http_abort(http, "the VMM died");
	CHECK_INT(o.done + p.done, 2);
	CHECK_INT(o.result, CCHV_ERR_VMM_GONE);
	CHECK_STR(p.error, "vm.info: the VMM died");
	call("GET", "vm.info", NULL, PATIENCE_MS, &q);
	run(&q);
	CHECK_INT(q.result, CCHV_ERR_VMM_GONE);
	forget(&o);
	forget(&p);
	forget(&q);
	teardown();
}

TEST(an_idle_connection_wakes_nobody)
{
	static const char *const answers[] = { OK204 };
	struct outcome o = { 0 };
	pid_t pid;

	setup(1);
	pid = serve(answers, 1);
	call("PUT", "vm.boot", NULL, PATIENCE_MS, &o);
	run(&o);
	/* The server has closed by now; curl may still have had a timer. */
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	while (loop_run_once(loop, clock_deadline(300), NULL) > 0)
		;
	CHECK_INT(loop_run_once(loop, clock_deadline(300), NULL), 0);
	forget(&o);
	teardown();
}
