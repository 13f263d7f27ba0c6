/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/channel.h"
#include "peer.h"

#define FIRST "{\"kind\":\"control\",\"version\":1,\"features\":[]}"
#define HELLO(boot, seq) \
	"{\"hello\":{\"version\":1,\"agent\":\"0.1.0\",\"boot_id\":\"" boot "\",\"features\":[],\"seq\":" #seq "}}"

#define RESUME(after) \
	"{\"kind\":\"control\",\"version\":1,\"features\":[],\"boot_id\":\"b\",\"after\":" #after "}"

static struct loop *loop;
static struct agent_channel *channel;
static int ready, broken, dead, dead_code, dead_reset, events;
static char event_log[1024], dead_text[256];

static void on_ready(void *user_data)
{
	(void)user_data;
	ready++;
}

static void on_event(const char *event, const struct json *message, void *user_data)
{
	uint64_t seq = 0;

	(void)user_data;
	CHECK_INT(json_get_u64(message, "seq", &seq, NULL), 1);
	snprintf(event_log + strlen(event_log), sizeof(event_log) - strlen(event_log), "%s%llu ", event,
	         (unsigned long long)seq);
	events++;
}

static void on_broken(const cchv_error *error, void *user_data)
{
	(void)user_data;
	CHECK_INT(cchv_error_code(error), CCHV_ERR_GUEST_GONE);
	broken++;
}

static void on_dead(int code, int reset, const cchv_error *error, void *user_data)
{
	(void)user_data;
	dead++;
	dead_code = code;
	dead_reset = reset;
	snprintf(dead_text, sizeof(dead_text), "%s", cchv_error_message(error));
}

static const struct channel_hooks hooks = {
	.ready = on_ready, .event = on_event, .broken = on_broken, .dead = on_dead,
};
static const struct log_sink no_log = LOG_SINK_INIT;

static pid_t peer;

/* To a guest that serve plays. */
static void open_channel(void (*serve)(int listener), int timeout_ms)
{
	peer = peer_start(serve);
	CHECK_INT(loop_new(&loop, NULL), 0);
	CHECK_INT(channel_new(loop, peer_path, &no_log, &hooks, NULL, &channel, NULL), 0);
	CHECK_INT(channel_connect(channel, 0, NULL, 0, clock_deadline(timeout_ms), NULL), 0);
}

static void close_channel(void)
{
	channel_free(channel);
	loop_free(loop);
	/* Unless the test has seen to its end. */
	if (peer)
		peer_end(peer);
}

static int peer_control(int listener, const char *first, const char *hello)
{
	int fd = peer_answer(listener, "OK 1\n");

	peer_expect(fd, first);
	peer_send(fd, hello);
	return fd;
}

static void answer_out_of_order(int listener)
{
	int fd = peer_control(listener, FIRST, HELLO("b", 5));

	peer_expect(fd, "{\"id\":1,\"method\":\"vm.sync\",\"params\":{}}");
	peer_expect(fd, "{\"id\":2,\"method\":\"container.list\",\"params\":{\"x\":1}}");
	peer_expect(fd, "{\"id\":3,\"method\":\"exec.start\",\"params\":{}}");
	peer_send(fd, "{\"seq\":6,\"event\":\"oom\",\"container\":\"c\"}");
	peer_send(fd, "{\"id\":3,\"error\":{\"errno\":\"ENOENT\",\"kind\":\"program\",\"message\":\"no 'x'\"}}");
	peer_send(fd, "{\"id\":99,\"result\":{}}");
	peer_send(fd, "{\"id\":2,\"result\":{\"containers\":[\"c\"]}}");
	peer_send(fd, "{\"id\":1}");
	peer_expect(fd, "{\"id\":4,\"method\":\"ack\",\"params\":{\"seq\":6}}");
	peer_expect_close(fd);
}

TEST(replies_go_to_whom_they_belong)
{
	struct channel_call calls[3] = { 0 };
	struct json *result = NULL, *params = json_new_object();
	cchv_error *err = NULL;

	json_set_u64(params, "x", 1);
	open_channel(answer_out_of_order, 5000);
	/* Before hello: they queue. */
	CHECK_INT(channel_call_start(channel, &calls[0], "vm.sync", NULL, NULL), 0);
	CHECK_INT(channel_call_start(channel, &calls[1], "container.list", params, NULL), 0);
	CHECK(!channel_is_ready(channel));
	run_until(loop, &ready);
	CHECK_STR(channel_get_boot_id(channel), "b");
	CHECK_INT(channel_get_seq(channel), 5);
	CHECK_INT(channel_call_start(channel, &calls[2], "exec.start", NULL, NULL), 0);
	run_until(loop, &calls[2].done);
	CHECK_STR(event_log, "oom6 ");
	CHECK_INT(channel_call_finish(&calls[2], NULL, &err), CCHV_ERR_NOT_FOUND);
	CHECK_STR(cchv_error_message(err), "no 'x'");
	CHECK_INT(cchv_error_errno(err), ENOENT);
	cchv_error_free(err);
	run_until(loop, &calls[1].done);
	CHECK_INT(channel_call_finish(&calls[1], &result, NULL), 0);
	CHECK_INT(json_count(json_get(result, "containers")), 1);
	json_free(result);
	run_until(loop, &calls[0].done);
	CHECK_INT(channel_call_finish(&calls[0], NULL, NULL), CCHV_ERR_PROTOCOL);
	channel_ack(channel, 6);
	close_channel();
}

static void break_and_resume(int listener)
{
	int fd = peer_control(listener, FIRST, HELLO("b", 10));

	peer_send(fd, "{\"seq\":11,\"event\":\"one\"}");
	peer_expect(fd, "{\"id\":1,\"method\":\"vm.sync\",\"params\":{}}");
	close(fd);
	fd = peer_control(listener, RESUME(11),
	                  HELLO("b", 13));
	peer_send(fd, "{\"seq\":11,\"event\":\"one\"}");
	peer_send(fd, "{\"seq\":12,\"event\":\"two\"}");
	peer_send(fd, "{\"seq\":13,\"event\":\"three\"}");
	peer_expect(fd, "{\"id\":2,\"method\":\"vm.stats\",\"params\":{}}");
	peer_send(fd, "{\"id\":2,\"result\":{}}");
	peer_expect_close(fd);
}

TEST(a_broken_connection_resumes)
{
	struct channel_call calls[2] = { 0 };
	cchv_error *err = NULL;

	open_channel(break_and_resume, 5000);
	run_until(loop, &events);
	CHECK_INT(channel_call_start(channel, &calls[0], "vm.sync", NULL, NULL), 0);
	run_until(loop, &calls[0].done);
	CHECK_INT(channel_call_finish(&calls[0], NULL, &err), CCHV_ERR_GUEST_GONE);
	CHECK_CONTAINS(cchv_error_message(err), "vm.sync");
	cchv_error_free(err);
	CHECK_INT(broken, 1);
	CHECK_INT(channel_call_start(channel, &calls[1], "vm.stats", NULL, NULL), 0);
	run_until(loop, &calls[1].done);
	CHECK_INT(channel_call_finish(&calls[1], NULL, NULL), 0);
	CHECK_STR(event_log, "one11 two12 three13 ");
	CHECK_INT(ready, 2);
	close_channel();
}

static void come_back_as_another(int listener)
{
	int fd = peer_control(listener, FIRST, HELLO("b", 0));

	close(fd);
	fd = peer_control(listener, RESUME(0),
	                  HELLO("another", 0));
	peer_expect_close(fd);
}

TEST(another_boot_id_is_a_reset)
{
	struct channel_call call = { 0 };

	open_channel(come_back_as_another, 5000);
	run_until(loop, &dead);
	CHECK_INT(dead_code, CCHV_ERR_GUEST_GONE);
	CHECK_INT(dead_reset, 1);
	CHECK_INT(channel_call_start(channel, &call, "vm.sync", NULL, NULL), CCHV_ERR_GUEST_GONE);
	close_channel();
}

#define RESUME_OF(boot, after) \
	"{\"kind\":\"control\",\"version\":1,\"features\":[],\"boot_id\":\"" boot "\",\"after\":" #after "}"

/* It has no boot id at first; the second connection meets it with one, the fourth another boot. */
static void get_an_identity(int listener)
{
	int fd = peer_control(listener, FIRST, HELLO("", 0));

	close(fd);
	fd = peer_control(listener, RESUME_OF("", 0), HELLO("b", 0));
	close(fd);
	fd = peer_control(listener, RESUME_OF("b", 0), HELLO("b", 0));
	close(fd);
	fd = peer_control(listener, RESUME_OF("b", 0), HELLO("", 0));
	peer_expect_close(fd);
}

TEST(a_boot_id_comes_with_the_identity)
{
	open_channel(get_an_identity, 5000);
	run_until(loop, &dead);
	CHECK_INT(ready, 3);
	CHECK_INT(dead_reset, 1);
	CHECK_STR(channel_get_boot_id(channel), "b");
	close_channel();
}

/* The reply to the request that gives it one tells it as well. */
static void tell_an_identity(int listener)
{
	int fd = peer_control(listener, FIRST, HELLO("", 0));

	close(fd);
	fd = peer_control(listener, RESUME_OF("c", 0), HELLO("b", 0));
	peer_expect_close(fd);
}

TEST(a_boot_id_that_was_told_is_compared)
{
	open_channel(tell_an_identity, 5000);
	run_until(loop, &ready);
	CHECK_STR(channel_get_boot_id(channel), "");
	CHECK_INT(channel_set_boot_id(channel, "c"), 0);
	run_until(loop, &dead);
	CHECK_INT(dead_reset, 1);
	close_channel();
}

static void talk_rubbish(int listener)
{
	int fd = peer_control(listener, FIRST, HELLO("b", 0));

	peer_expect(fd, "{\"id\":1,\"method\":\"vm.sync\",\"params\":{}}");
	peer_write(fd, "\xff\xff\xff\x7f");
	peer_expect_close(fd);
}

TEST(rubbish_ends_it)
{
	struct channel_call call = { 0 };

	open_channel(talk_rubbish, 5000);
	CHECK_INT(channel_call_start(channel, &call, "vm.sync", NULL, NULL), 0);
	run_until(loop, &dead);
	CHECK_INT(dead_code, CCHV_ERR_PROTOCOL);
	CHECK_INT(dead_reset, 0);
	CHECK(call.done);
	CHECK_INT(channel_call_finish(&call, NULL, NULL), CCHV_ERR_PROTOCOL);
	close_channel();
}

static void refuse_version(int listener)
{
	int fd = peer_control(listener, FIRST, "{\"hello\":{\"version\":2,\"boot_id\":\"b\",\"seq\":0}}");

	peer_expect_close(fd);
}

TEST(another_version_ends_it)
{
	open_channel(refuse_version, 5000);
	run_until(loop, &dead);
	CHECK_INT(dead_code, CCHV_ERR_UNSUPPORTED);
	CHECK_CONTAINS(dead_text, "version 2");
	close_channel();
}

static void say_last_words(int listener)
{
	int fd = peer_control(listener, FIRST, HELLO("b", 0));

	peer_expect(fd, "{\"id\":1,\"method\":\"vm.shutdown\",\"params\":{}}");
	peer_send(fd, "{\"seq\":1,\"event\":\"exited\"}");
	peer_send(fd, "{\"seq\":2,\"event\":\"stopped\"}");
}

TEST(what_was_said_before_the_end_is_heard)
{
	struct channel_call call = { 0 };
	cchv_error *err = NULL;

	open_channel(say_last_words, 5000);
	run_until(loop, &ready);
	CHECK_INT(channel_call_start(channel, &call, "vm.shutdown", NULL, NULL), 0);
	peer_end(peer);
	peer = 0;
	/* The peer is dead, its words lie in the socket. */
	channel_close(channel, CCHV_ERR_VMM_GONE, "VMM killed by signal 9");
	CHECK_STR(event_log, "exited1 stopped2 ");
	CHECK(call.done);
	CHECK_INT(channel_call_finish(&call, NULL, &err), CCHV_ERR_VMM_GONE);
	CHECK_STR(cchv_error_message(err), "vm.shutdown: VMM killed by signal 9");
	cchv_error_free(err);
	CHECK_INT(dead, 0);
	close_channel();
}

static void never_answer(int listener)
{
	int fd = peer_accept(listener);

	peer_read_connect(fd, "CONNECT 1024\n");
	close(fd);
	close(listener);
}

TEST(nobody_answers)
{
	open_channel(never_answer, 300);
	run_until(loop, &dead);
	CHECK(dead_code == CCHV_ERR_GUEST_GONE || dead_code == CCHV_ERR_VMM_GONE);
	close_channel();
}

static void answer_late(int listener)
{
	int fd = peer_control(listener, FIRST, HELLO("b", 0));

	peer_expect(fd, "{\"id\":1,\"method\":\"a\",\"params\":{}}");
	peer_expect(fd, "{\"id\":2,\"method\":\"b\",\"params\":{}}");
	peer_send(fd, "{\"id\":1,\"result\":{}}");
	peer_send(fd, "{\"id\":2,\"result\":{}}");
	peer_expect_close(fd);
}

TEST(a_dropped_call_is_forgotten)
{
	struct channel_call second = { 0 };

	open_channel(answer_late, 5000);
	run_until(loop, &ready);
	{
		struct channel_call first = { 0 };

		CHECK_INT(channel_call_start(channel, &first, "a", NULL, NULL), 0);
		channel_call_drop(&first);
	}
	CHECK_INT(channel_call_start(channel, &second, "b", NULL, NULL), 0);
	run_until(loop, &second.done);
	CHECK_INT(channel_call_finish(&second, NULL, NULL), 0);
	close_channel();
}

static int chained;

static void start_another(struct channel_call *call)
{
	struct channel_call *next = call->user_data;

	chained++;
	channel_call_drop(call);
	CHECK(channel_call_start(channel, next, "again", NULL, NULL) < 0);
	chained++;
}

TEST(a_callback_may_start_calls_while_all_fail)
{
	struct channel_call next = { 0 }, call = { .fn = start_another, .user_data = &next };

	open_channel(never_answer, 300);
	CHECK_INT(channel_call_start(channel, &call, "a", NULL, NULL), 0);
	run_until(loop, &dead);
	CHECK_INT(chained, 2);
	close_channel();
}

static void wait_for_big(int listener)
{
	int fd = peer_control(listener, FIRST, HELLO("b", 0));

	if (strlen(peer_recv(fd)) < 900000)
		_exit(30);
	peer_send(fd, "{\"id\":1,\"result\":{}}");
	peer_expect_close(fd);
}

TEST(a_big_request_waits_for_room)
{
	struct json *params = json_new_object();
	struct channel_call call = { 0 };
	char *text = mem_zalloc(900001);

	memset(text, 'x', 900000);
	json_set_string(params, "data", text);
	free(text);
	open_channel(wait_for_big, 5000);
	run_until(loop, &ready);
	CHECK_INT(channel_call_start(channel, &call, "copy.put", params, NULL), 0);
	run_until(loop, &call.done);
	CHECK_INT(channel_call_finish(&call, NULL, NULL), 0);
	close_channel();
}
