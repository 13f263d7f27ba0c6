/* SPDX-License-Identifier: Apache-2.0 */
/* A pod's sandbox: see pod.h. Enters: the daemon's wishes, the VM's end. Leaves: answers of calls that waited. */
#include "pod.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bundle.h"
#include "fault.h"
#include "log.h"
#include "memory.h"
#include "pod_files.h"
#include "sandbox.h"
#include "server.h"

#define KILLED      137 /* 128 + SIGKILL */
#define OPTIONS_MAX (4U << 20)
#define CONFIG_MAX  (64U << 20)

/* ---- beginning ---- */

/* What "start" was given: it has the runtime's options, the request has those of the pod. */
static int read_options(struct pod *pod, char **ret_error)
{
	char *data;
	size_t len;

	if (bundle_read(pod->bundle, BUNDLE_OPTIONS, OPTIONS_MAX, &data, &len) < 0)
		return errno == ENOENT ? 0
				       : fault_set(ret_error, fault_code(errno), "%s/%s: %s", pod->bundle,
						   BUNDLE_OPTIONS, strerror(errno));
	wire_put(&pod->options, data, len);
	free(data);
	return pod->options.failed ? fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory") : 0;
}

/* As the sandbox of a VM: without a hostname of its own it has the host's. */
static int choose_hostname(struct pod *pod, char **ret_error)
{
	char name[65];

	if (pod->config.hostname)
		return 0;
	if (gethostname(name, sizeof(name)) < 0)
		return fault_set(ret_error, CCHV_ERR_SYSTEM, "hostname: %s", strerror(errno));
	name[sizeof(name) - 1] = '\0';
	pod->config.hostname = need_copy(name);
	return 0;
}

static void on_stand_in_killed(uint32_t events, void *data)
{
	struct pod *pod = data;

	loop_unwatch(&pod->stand_in);
	log_line(LOG_INFO, "sandbox '%s': its process %d was killed, and so it is", pod->id, pod->pid);
	pod->exit_status = KILLED;
	if (pod->state == POD_READY)
		sandbox_kill(pod->server->sandbox);
	else
		pod_stop(pod);
}

/* Clients that give the sandbox a specification, as ctr does, say it there. */
static int find_netns(struct pod *pod, char **ret_error)
{
	const char *path = NULL;
	yajl_val spec;
	char *text;
	size_t len;
	int r;

	if (pod->config.network == POD_NS_NODE)
		return fault_set(ret_error, CCHV_ERR_UNSUPPORTED,
				 "the pod asks for the network of the host, which a VM cannot be given");
	if (pod->netns)
		return 0;
	if (bundle_read(pod->bundle, BUNDLE_CONFIG, CONFIG_MAX, &text, &len) < 0)
		return errno == ENOENT ? 0
				       : fault_set(ret_error, fault_code(errno), "%s/%s: %s", pod->bundle,
						   BUNDLE_CONFIG, strerror(errno));
	spec = yajl_tree_parse(text, NULL, 0);
	free(text);
	if (!spec)
		return fault_set(ret_error, CCHV_ERR_INVALID, "%s/%s: not JSON", pod->bundle, BUNDLE_CONFIG);
	r = netns_of_spec(spec, &path, ret_error);
	pod->netns = need_copy(path);
	yajl_tree_free(spec);
	return r;
}

static int take_place(struct pod *pod, char **ret_error)
{
	int r = find_netns(pod, ret_error);

	if (r == 0)
		r = choose_hostname(pod, ret_error);
	if (r == 0)
		r = read_options(pod, ret_error);
	if (r == 0)
		r = pod_files_write(pod, ret_error);
	if (r == 0)
		r = netns_holder_start(&pod->holder, pod->netns, ret_error);
	if (r < 0)
		return r;
	pod->pid = pod->holder.pid;
	pod->stand_in = (struct watch){ .fd = pod->holder.pid_fd, .fn = on_stand_in_killed, .data = pod };
	if (loop_watch(pod->server->loop, &pod->stand_in, EPOLLIN) < 0)
		return fault_set(ret_error, CCHV_ERR_SYSTEM, "sandbox '%s': watch its process: %s", pod->id,
				 strerror(errno));
	return 0;
}

struct pod *pod_new(struct server *server, const char *id, const char *bundle, const char *netns,
		    struct wire_view options, int *ret_code, char **ret_error)
{
	struct pod *pod = need_zero(sizeof(*pod));
	int r;

	pod->server = server;
	pod->holder = (struct netns_holder)NETNS_HOLDER_INIT;
	pod->id = need_copy(id);
	pod->bundle = need_copy(bundle);
	pod->netns = *netns ? need_copy(netns) : NULL;
	pod->is_wanted = 1;
	cancel_init(&pod->cancel);
	pod_pause_init(&pod->pause);
	r = pod_config_read(options, &pod->config, ret_error);
	if (r == 0)
		r = take_place(pod, ret_error);
	if (r == 0)
		return pod;
	*ret_code = r;
	pod_free(pod);
	return NULL;
}

static void fail_all(struct call **list)
{
	while (*list) {
		struct call *call = *list;

		*list = call->next;
		call_fail(call, CODE_NOT_FOUND, "sandbox: not found");
	}
}

void pod_free(struct pod *pod)
{
	if (!pod)
		return;
	fail_all(&pod->waiters);
	fail_all(&pod->stoppers);
	fail_all(&pod->shutdown_call);
	loop_unwatch(&pod->stand_in);
	netns_holder_stop(&pod->holder);
	cancel_destroy(&pod->cancel);
	pod_pause_destroy(&pod->pause);
	pod_config_free(&pod->config);
	wire_free(&pod->options);
	free(pod->netns);
	free(pod->bundle);
	free(pod->id);
	free(pod);
}

int pod_is_alive(const struct pod *pod)
{
	return pod && pod->state != POD_ENDED;
}

/* ---- end ---- */

void pod_stop(struct pod *pod)
{
	if (pod->state == POD_ENDED)
		return;
	pod->is_wanted = 0;
	switch (pod->state) {
	case POD_CREATED: pod_ended(pod, 0); break;
	case POD_STARTING: cancel_request(&pod->cancel); break;
	default: sandbox_end(pod->server->sandbox); break;
	}
}

static void push(struct call **list, struct call *call)
{
	while (*list)
		list = &(*list)->next;
	call->next = NULL;
	*list = call;
}

static void answer_wait(const struct pod *pod, struct call *call)
{
	struct wire reply = { 0 };

	wire_put_uint(&reply, 1, pod->exit_status);
	wire_put_time(&reply, 2, pod->exited_ns);
	call_answer(call, &reply);
}

void pod_wait(struct pod *pod, struct call *call)
{
	if (pod->state == POD_ENDED)
		answer_wait(pod, call);
	else
		push(&pod->waiters, call);
}

void pod_answer_when_stopped(struct pod *pod, struct call *call)
{
	if (pod->state == POD_ENDED)
		call_answer(call, NULL);
	else
		push(&pod->stoppers, call);
}

static void note_exit(const struct pod *pod)
{
	struct exit_note note = { (uint32_t)pod->pid, pod->exit_status, pod->exited_ns };

	if (bundle_write_exit(pod->bundle, &note) < 0)
		log_line(LOG_WARNING, "sandbox '%s': %s/%s: %s", pod->id, pod->bundle, BUNDLE_EXIT, strerror(errno));
}

void pod_ended(struct pod *pod, uint64_t time_ns)
{
	if (pod->state == POD_ENDED)
		return;
	pod->state = POD_ENDED;
	pod->exited_ns = time_ns ? time_ns : loop_time_ns();
	if (pod->is_wanted)
		pod->exit_status = KILLED;
	note_exit(pod);
	/* The network's namespace is about to be taken apart: nobody here keeps it. */
	loop_unwatch(&pod->stand_in);
	netns_holder_stop(&pod->holder);
	while (pod->waiters) {
		struct call *call = pod->waiters;

		pod->waiters = call->next;
		answer_wait(pod, call);
	}
	while (pod->stoppers) {
		struct call *call = pod->stoppers;

		pod->stoppers = call->next;
		call_answer(call, NULL);
	}
}
