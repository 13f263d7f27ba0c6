/* SPDX-License-Identifier: Apache-2.0 */
/* Spawning the VMM: see spawn.h. Enters: a program and where it lives. Leaves: a process and its streams. */
#include "vmm/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

/* Descriptors of the child, beside stdout and stderr. */
#define CHILD_API_FD 3
#define CHILD_EVENTS_FD 4

/* The VMM grows its table up to here while it has one thread, and then never again. */
#define NOFILE_SOFT 4096

/* Connections that may wait: the library makes one, a client or two another. */
#define API_BACKLOG 16

void vmm_streams_close(struct vmm_streams *streams)
{
	fd_close(&streams->events_fd);
	fd_close(&streams->log_fd);
}

static int open_fifo(int run_dir_fd, const char *name, int flags, cchv_error **err)
{
	int fd;

	if (mkfifoat(run_dir_fd, name, 0600) < 0 && errno != EEXIST)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "FIFO '%s'", name);
	/* For reading and writing: it never waits for a peer, and never sees one go. */
	fd = openat(run_dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags);
	if (fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "FIFO '%s'", name);
	return fd;
}

int vmm_streams_open(int run_dir_fd, struct vmm_streams *ret_streams, cchv_error **err)
{
	struct vmm_streams s = { -1, -1 };

	s.events_fd = open_fifo(run_dir_fd, VMM_EVENTS_FIFO, O_NONBLOCK, err);
	s.log_fd = s.events_fd < 0 ? -1 : open_fifo(run_dir_fd, VMM_LOG_FIFO, O_NONBLOCK, err);
	if (s.log_fd < 0) {
		vmm_streams_close(&s);
		return CCHV_ERR_SYSTEM;
	}
	*ret_streams = s;
	return CCHV_OK;
}

static int listen_api(int run_dir_fd, cchv_error **err)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/" VMM_API_SOCKET, run_dir_fd);
	fd = fd_unix_listen(path, API_BACKLOG);
	if (fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "API socket");
	return fd;
}

static int give_away(const struct vmm_spawn *spawn, cchv_error **err)
{
	if (!spawn->set_ids)
		return CCHV_OK;
	if (fchown(spawn->run_dir_fd, spawn->uid, spawn->gid) < 0 ||
	    fchownat(spawn->run_dir_fd, VMM_API_SOCKET, spawn->uid, spawn->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "run directory: give to user %u", spawn->uid);
	return CCHV_OK;
}

static int run(const struct vmm_spawn *spawn, const struct proc_fd *fds, size_t fd_count, pid_t *ret_pid,
               int *ret_pidfd, cchv_error **err)
{
	const char *const argv[] = {
		spawn->program, "--api-socket", "fd=3", "--event-monitor", "fd=4", NULL,
	};
	struct proc_spawn s = {
		.argv = argv,
		.cwd = spawn->run_dir,
		.fds = fds,
		.fd_count = fd_count,
		.death_signal = spawn->death_signal,
		.no_new_privs = 1,
		.set_ids = spawn->set_ids,
		.uid = spawn->uid,
		.gid = spawn->gid,
		.cgroup_optional = spawn->cgroup_optional,
		.set_netns = spawn->netns_fd >= 0,
		.netns_fd = spawn->netns_fd,
		.nofile_soft = NOFILE_SOFT,
		.rlimits = spawn->rlimits,
		.rlimit_count = spawn->rlimit_count,
	};

	for (size_t i = 0; i < spawn->cgroup_count; i++)
		if (spawn->cgroup_procs_fds[i] >= 0)
			s.cgroup_procs_fds[s.cgroup_count++] = spawn->cgroup_procs_fds[i];
	return proc_spawn(&s, ret_pid, ret_pidfd, err);
}

int vmm_spawn(const struct vmm_spawn *spawn, pid_t *ret_pid, int *ret_pidfd, struct vmm_streams *ret_streams,
              cchv_error **err)
{
	cleanup_close int api = -1, child_events = -1, child_log = -1;
	struct vmm_streams streams = { -1, -1 };
	int r;

	api = listen_api(spawn->run_dir_fd, err);
	if (api < 0)
		return api;
	r = give_away(spawn, err);
	if (r == CCHV_OK)
		r = vmm_streams_open(spawn->run_dir_fd, &streams, err);
	if (r < 0)
		return r;
	/*
	 * The VMM's ends are opened apart: O_NONBLOCK belongs to the open file, and the log must be a blocking one
	 * (a program that gets EAGAIN on stderr may give up).
	 */
	child_events = open_fifo(spawn->run_dir_fd, VMM_EVENTS_FIFO, O_NONBLOCK, err);
	child_log = child_events < 0 ? -1 : open_fifo(spawn->run_dir_fd, VMM_LOG_FIFO, 0, err);
	if (child_log >= 0) {
		const struct proc_fd fds[] = {
			{ child_log, STDOUT_FILENO }, { child_log, STDERR_FILENO },
			{ api, CHILD_API_FD }, { child_events, CHILD_EVENTS_FD },
		};

		r = run(spawn, fds, ARRAY_LEN(fds), ret_pid, ret_pidfd, err);
	} else {
		r = CCHV_ERR_SYSTEM;
	}
	if (r < 0) {
		vmm_streams_close(&streams);
		return r;
	}
	*ret_streams = streams;
	return CCHV_OK;
}
