/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reaping: see reap.h. Enters: SIGCHLD, by a signalfd. Leaves: exactly one call per announced child. Signals are
 * merged by the kernel, so each round collects all that have ended.
 */
#include "guest/reap.h"

#include "base/fd.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

struct watched {
	struct watched *next;
	pid_t pid;
	reap_fn fn;
	void *user_data;
};

struct reap {
	int signal_fd;
	struct loop_source *source;
	struct watched *children;
};

static void on_signal(uint32_t events, void *user_data)
{
	struct agent *agent = user_data;
	struct signalfd_siginfo infos[16];

	/* What they say is not needed: waitid() knows better. */
	while (read(agent->reap->signal_fd, infos, sizeof(infos)) > 0)
		;
	reap_now(agent);
}

int reap_new(struct agent *agent, cchv_error **err)
{
	struct reap *r = mem_zalloc(sizeof(*r));
	sigset_t set;

	if (!r)
		return err_nomem(err);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	agent->reap = r;
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "block SIGCHLD");
	r->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (r->signal_fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "signalfd");
	return loop_add(agent->loop, r->signal_fd, EPOLLIN, on_signal, agent, &r->source, err);
}

void reap_free(struct agent *agent)
{
	struct reap *r = agent->reap;

	if (!r)
		return;
	while (r->children) {
		struct watched *w = r->children;

		r->children = w->next;
		free(w);
	}
	loop_source_free(r->source);
	fd_close(&r->signal_fd);
	free(r);
	agent->reap = NULL;
}

int reap_watch(struct agent *agent, pid_t pid, reap_fn fn, void *user_data)
{
	struct watched *w = mem_zalloc(sizeof(*w));

	if (!w)
		return CCHV_ERR_NOMEM;
	w->pid = pid;
	w->fn = fn;
	w->user_data = user_data;
	w->next = agent->reap->children;
	agent->reap->children = w;
	return CCHV_OK;
}

static struct watched *take(struct reap *r, pid_t pid)
{
	for (struct watched **link = &r->children; *link; link = &(*link)->next) {
		struct watched *w = *link;

		if (w->pid != pid)
			continue;
		*link = w->next;
		return w;
	}
	return NULL;
}

void reap_forget(struct agent *agent, pid_t pid)
{
	free(take(agent->reap, pid));
}

void reap_now(struct agent *agent)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct watched *w = take(agent->reap, pid);

		if (!w)
			continue;
		w->fn(pid, status, w->user_data);
		free(w);
	}
}
