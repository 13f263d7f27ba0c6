/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other connections for a process that runs: exec.connect, for a host that has taken a VM over, or has restored it, and
 * has none of the streams that the process was started with; and vm.hold, so that nothing is discarded until it comes.
 * Enters: requests, connections with a token. Leaves: pumps that flow again.
 */
#include "guest/exec_node.h"

#include "base/clock.h"

#include <errno.h>
#include <unistd.h>

#define HOLD_MAX_MS 60000

void exec_take_connection(struct exec *e, enum stream_name name, int fd)
{
	e->streams[name].connecting = 0;
	if (name == STREAM_STDIN)
		pump_in_connect(e->in, fd, e->streams[name].counted);
	else
		pump_out_connect(e->out[name], fd);
}

static int check(const struct exec *e, const struct json *streams, struct reply *reply)
{
	if (e->phase != EXEC_RUNNING)
		return fail(&reply->kind, &reply->err, "exec", ESRCH, "exec '%s' does not run", e->id);
	for (int i = 0; i < STREAM_COUNT; i++) {
		const char *name = stream_name_text((enum stream_name)i);

		if (json_get(streams, name) && !e->streams[i].wanted)
			return fail(&reply->kind, &reply->err, "stream", EINVAL, "exec '%s' was started without %s",
			            e->id, name);
	}
	return CCHV_OK;
}

/* Give up the connection of before. An absent stream in the answer: it has ended. */
static int prepare(struct exec *e, enum stream_name name, const struct json *value, struct json *result,
                   struct reply *reply)
{
	struct json *answer;
	uint64_t bytes = 0;
	int r = exec_parse_stream(e, name, value, reply);

	if (r < 0 || !value)
		return r;
	if (name == STREAM_STDIN) {
		if (!e->in || !pump_in_disconnect(e->in))
			return CCHV_OK;
	} else {
		if (!e->out[name] || !pump_out_disconnect(e->out[name]))
			return CCHV_OK;
		bytes = pump_out_sent(e->out[name]);
	}
	e->streams[name].connecting = 1;
	answer = json_new_object();
	json_set_u64(answer, "bytes", bytes);
	return json_set(result, stream_name_text(name), answer);
}

int exec_connect(struct agent *agent, const struct json *params, struct reply *reply)
{
	const struct json *streams = json_get(params, "streams");
	struct json *result;
	struct exec *e;
	int r = exec_get(agent, params, reply, &e);

	if (r == 0)
		r = check(e, streams, reply);
	if (r < 0)
		return r;
	reply->result = json_new_object();
	result = json_edit(reply->result, "streams", JSON_OBJECT);
	if (!result)
		return err_nomem(&reply->err);
	for (int i = 0; i < STREAM_COUNT && r == 0; i++) {
		enum stream_name name = (enum stream_name)i;

		r = prepare(e, name, json_get(streams, stream_name_text(name)), result, reply);
	}
	return r;
}

int exec_hold(struct agent *agent, const struct json *params, struct reply *reply)
{
	uint64_t ms = 0;

	if (json_get_u64(params, "timeout_ms", &ms, NULL) != 1 || ms > HOLD_MAX_MS)
		return fail(&reply->kind, &reply->err, "method", EINVAL, "'timeout_ms' is no number up to %d",
		            HOLD_MAX_MS);
	if (ms == 0)
		pumps_release(streams_pumps(agent));
	else
		pumps_hold(streams_pumps(agent), clock_deadline((int)ms));
	return CCHV_OK;
}
