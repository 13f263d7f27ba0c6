/* SPDX-License-Identifier: Apache-2.0 */
/* The QEMU process: see machine.h. Enters: its command line. Leaves: a monitor, log lines, its end. */
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define START_TIMEOUT_MS 120000
#define DEATH_TIMEOUT_MS 5000
#define LINE_MAX_LEN 4096
#define MAX_FDS FD_MAX_PASSED
#define STATUS_DRIVER_OK 4u

struct machine {
	struct loop *loop;
	const struct log_sink *log;
	pid_t pid;
	int pidfd;
	struct loop_source *pid_source;
	int ended;
	int stderr_fd;
	struct loop_source *stderr_source;
	struct buf text;                /* an unfinished line */
	char last_line[LINE_MAX_LEN];
	int activations;
	struct qmp *qmp;
};

/* A trace line: the driver of some device wrote its status register. */
static int is_status_line(struct machine *m, const char *line)
{
	unsigned int value;

	if (sscanf(line, "virtio_set_status vdev %*s val %u", &value) != 1)
		return 0;
	if (value & STATUS_DRIVER_OK)
		m->activations++;
	return 1;
}

static void digest_line(struct machine *m, const char *line)
{
	const char *prefix = "qemu-system-x86_64: ";

	if (!*line || is_status_line(m, line))
		return;
	if (strncmp(line, prefix, strlen(prefix)) == 0)
		line += strlen(prefix);
	snprintf(m->last_line, sizeof(m->last_line), "%s", line);
	log_warning(m->log, "QEMU: %s", line);
}

static void on_stderr(uint32_t events, void *user_data)
{
	struct machine *m = user_data;
	uint8_t *end;
	ssize_t n;

	(void)events;
	n = buf_read_fd(&m->text, m->stderr_fd, LINE_MAX_LEN);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0 && errno == ENOBUFS) {
		/* A line without an end is cut. */
		m->text.data[m->text.len - 1] = '\n';
	} else if (n <= 0) {
		loop_source_free(steal(&m->stderr_source));
		return;
	}
	while (m->text.len && (end = memchr(m->text.data, '\n', m->text.len))) {
		*end = '\0';
		digest_line(m, (const char *)m->text.data);
		buf_consume(&m->text, (size_t)(end - m->text.data) + 1);
	}
}

static void on_end(uint32_t events, void *user_data)
{
	struct machine *m = user_data;

	(void)events;
	m->ended = 1;
	loop_source_free(steal(&m->pid_source));
}

static int spawn(struct machine *m, const char *const *argv, const struct proc_fd *fds, size_t fd_count,
                 cchv_error **err)
{
	cleanup_close int monitor = -1, monitor_child = -1, out_child = -1;
	struct proc_fd map[MAX_FDS];
	struct proc_spawn spec = { .argv = argv, .fds = map, .death_signal = SIGKILL, .no_new_privs = 1 };
	int pair[2], pipe_fds[2], r;

	if (fd_count + 2 > MAX_FDS)
		return err_set(err, CCHV_ERR_LIMIT, 0, "more than %d descriptors for QEMU", MAX_FDS - 2);
	if (fd_socketpair(pair) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "socketpair");
	monitor = pair[0];
	monitor_child = pair[1];
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "pipe");
	m->stderr_fd = pipe_fds[0];
	out_child = pipe_fds[1];
	fd_set_nonblock(m->stderr_fd, 1);

	map[0] = (struct proc_fd){ out_child, STDERR_FILENO };
	map[1] = (struct proc_fd){ monitor_child, MACHINE_QMP_FD };
	memcpy(map + 2, fds, fd_count * sizeof(*fds));
	spec.fd_count = fd_count + 2;
	r = proc_spawn(&spec, &m->pid, &m->pidfd, err);
	if (r < 0)
		return r;
	return qmp_new(m->loop, fd_steal(&monitor), &m->qmp, err);
}

static int watch(struct machine *m, cchv_error **err)
{
	int r = loop_add(m->loop, m->pidfd, EPOLLIN, on_end, m, &m->pid_source, err);

	return r < 0 ? r : loop_add(m->loop, m->stderr_fd, EPOLLIN, on_stderr, m, &m->stderr_source, err);
}

/* The machine is complete when the monitor answers: QEMU reads it in its main loop only. */
int machine_await(struct machine *m, struct fault *fault)
{
	uint64_t deadline = clock_deadline(START_TIMEOUT_MS);
	cleanup_err cchv_error *err = NULL;

	while (!qmp_is_ready(m->qmp) && !(m->ended && !m->stderr_source) && !clock_passed(deadline))
		if (loop_run_once(m->loop, deadline, &err) < 0)
			return fault_from_error(fault, err);
	if (qmp_is_ready(m->qmp))
		return CCHV_OK;
	if (!m->ended)
		return fault_set(fault, 500, "QEMU does not come up");
	return fault_set(fault, 500, "%s", m->last_line[0] ? m->last_line : "QEMU ended without a word");
}

int machine_start(struct loop *loop, const struct log_sink *log, const char *const *argv, const struct proc_fd *fds,
                  size_t fd_count, struct machine **ret_machine, struct fault *fault)
{
	cleanup_machine struct machine *m = mem_zalloc(sizeof(*m));
	cleanup_err cchv_error *err = NULL;
	int r;

	if (!m)
		return fault_nomem(fault);
	m->loop = loop;
	m->log = log;
	m->pidfd = m->stderr_fd = -1;
	m->text.max = LINE_MAX_LEN;
	r = spawn(m, argv, fds, fd_count, &err);
	if (r == CCHV_OK)
		r = watch(m, &err);
	if (r < 0)
		return fault_from_error(fault, err);
	*ret_machine = steal(&m);
	return CCHV_OK;
}

void machine_free(struct machine *m)
{
	if (!m)
		return;
	qmp_free(m->qmp);
	loop_source_free(m->pid_source);
	loop_source_free(m->stderr_source);
	if (m->pid > 0) {
		kill(m->pid, SIGKILL);
		/* A process in uninterruptible I/O is left to the kernel rather than waited for without end. */
		if (fd_wait(m->pidfd, POLLIN, clock_deadline(DEATH_TIMEOUT_MS)) > 0)
			waitpid(m->pid, NULL, 0);
		else
			log_error(m->log, "QEMU (pid %d) does not die", m->pid);
	}
	fd_close(&m->pidfd);
	fd_close(&m->stderr_fd);
	buf_free(&m->text);
	free(m);
}

struct qmp *machine_qmp(struct machine *machine)
{
	return machine->qmp;
}

const char *machine_last_words(const struct machine *machine)
{
	return machine->last_line;
}

int machine_has_died(struct machine *m, int *ret_status)
{
	int status = 0;

	if (!m->ended && !qmp_is_closed(m->qmp))
		return 0;
	if (m->pid > 0) {
		if (!m->ended)
			fd_wait(m->pidfd, POLLIN, clock_deadline(DEATH_TIMEOUT_MS));
		if (waitpid(m->pid, &status, WNOHANG) == m->pid)
			m->pid = 0;
	}
	*ret_status = status;
	return 1;
}

int machine_take_activations(struct machine *m)
{
	int n = m->activations;

	m->activations = 0;
	return n;
}
