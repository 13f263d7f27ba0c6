/* SPDX-License-Identifier: Apache-2.0 */
/* The holder of a network namespace: see netns.h. Enters: a path, or none. Leaves: a parked child process. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault.h"
#include "netns.h"
#include "spec_tree.h"

int netns_of_spec(yajl_val spec, const char **ret_path, char **ret_error)
{
	yajl_val list = spec_tree_find(spec, "linux.namespaces");

	for (size_t i = 0; i < spec_tree_count(list); i++) {
		const char *type = spec_tree_string(spec_tree_at(list, i), "type");
		const char *path = spec_tree_string(spec_tree_at(list, i), "path");

		if (!type || strcmp(type, "network") != 0)
			continue;
		*ret_path = path && *path ? path : NULL;
		return CCHV_OK;
	}
	return fault_set(ret_error, CCHV_ERR_UNSUPPORTED,
			 "the container asks for the network of the host, which a VM cannot be given: "
			 "it needs a network namespace (linux.namespaces)");
}

/* ---- the child: between fork and its end only calls that are safe there ---- */

static int loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;

	if (fd < 0)
		return -1;
	r = ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
	return r;
}

static void reset_signals(void)
{
	sigset_t none;

	for (int n = 1; n < NSIG; n++)
		signal(n, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void hold(int netns_fd, int report_fd)
{
	int reason = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	reset_signals();
	setsid();
	prctl(PR_SET_NAME, "cchv-netns");
	if ((netns_fd >= 0 ? setns(netns_fd, CLONE_NEWNET) < 0 : unshare(CLONE_NEWNET) < 0 || loopback_up() < 0) ||
	    chdir("/") < 0)
		reason = errno;
	if (write(report_fd, &reason, sizeof(reason)) != (ssize_t)sizeof(reason) || reason)
		_exit(1);
	/* What the shim has open is no business of this process, which outlives each connection of it. */
	if (syscall(SYS_close_range, 0U, ~0U, 0U) < 0)
		for (int fd = 0; fd < 65536; fd++)
			close(fd);
	for (;;)
		pause();
}

/* ---- the parent ---- */

static int read_report(int fd)
{
	int reason;
	ssize_t n;

	do
		n = read(fd, &reason, sizeof(reason));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(reason) ? reason : ECHILD;
}

static int spawn(struct netns_holder *holder, int netns_fd)
{
	int report[2], reason;

	if (pipe2(report, O_CLOEXEC) < 0)
		return errno;
	holder->pid = fork();
	if (holder->pid == 0) {
		close(report[0]);
		hold(netns_fd, report[1]);
	}
	reason = holder->pid < 0 ? errno : 0;
	close(report[1]);
	if (holder->pid < 0)
		holder->pid = 0;
	else
		reason = read_report(report[0]);
	close(report[0]);
	return reason;
}

static int open_handles(struct netns_holder *holder)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)holder->pid);
	holder->netns_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (holder->netns_fd < 0)
		return errno;
	holder->pid_fd = (int)syscall(SYS_pidfd_open, holder->pid, 0);
	return holder->pid_fd < 0 ? errno : 0;
}

int netns_holder_start(struct netns_holder *ret_holder, const char *path, char **ret_error)
{
	struct netns_holder holder = NETNS_HOLDER_INIT;
	int netns_fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1, reason;

	if (path && netns_fd < 0)
		return fault_set(ret_error, fault_code(errno), "network namespace '%s': %s", path, strerror(errno));
	reason = spawn(&holder, netns_fd);
	if (!reason)
		reason = open_handles(&holder);
	if (netns_fd >= 0)
		close(netns_fd);
	if (reason) {
		netns_holder_stop(&holder);
		return fault_set(ret_error, reason == EINVAL ? CCHV_ERR_INVALID : fault_code(reason),
				 "network namespace '%s': %s", path ? path : "(a new one)",
				 reason == EINVAL ? "it is none" : strerror(reason));
	}
	*ret_holder = holder;
	return CCHV_OK;
}

void netns_holder_end(struct netns_holder *holder)
{
	if (holder->pid <= 0 || holder->has_ended)
		return;
	kill(holder->pid, SIGKILL);
	while (waitpid(holder->pid, NULL, 0) < 0 && errno == EINTR)
		;
	holder->has_ended = 1;
}

void netns_holder_stop(struct netns_holder *holder)
{
	netns_holder_end(holder);
	if (holder->pid_fd >= 0)
		close(holder->pid_fd);
	if (holder->netns_fd >= 0)
		close(holder->netns_fd);
	*holder = (struct netns_holder)NETNS_HOLDER_INIT;
}
