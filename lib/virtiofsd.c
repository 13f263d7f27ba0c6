/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtiofsd: see virtiofsd.h. There are two programs of that name: the Rust one, and the one that came with QEMU up
 * to 7.2. Both take a listening socket by number. Enters: a directory. Leaves: a process that serves it.
 */
#include "virtiofsd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"
#include "ctx.h"
#include "vm.h"
#include "vm_process.h"
#include "vm_record.h"

#define SOCKET_FD 3
/* What a killed daemon's child gets to end. */
#define CHILD_END_MS 2000

struct virtiofsd {
	struct cchv_vm *vm;
	char *id;
	char *socket;
	int dir_fd;
	pid_t pid;
	int pidfd;
	struct loop_source *source;
};

/* Where packages put it: not on PATH, since people do not start it. */
static const char *const places[] = {
	"virtiofsd", "/usr/libexec/virtiofsd", "/usr/lib/virtiofsd", "/usr/lib/qemu/virtiofsd",
};

static int ask_flavour(const char *path, int *ret_flavour, cchv_error **err)
{
	const char *const argv[] = { path, "--version", NULL };
	struct proc_spawn spawn = { .argv = argv };
	cleanup_buf struct buf out = BUF_INIT(4096);
	int status, r;

	r = proc_run(&spawn, &out, NULL, clock_deadline(10000), &status, err);
	if (r < 0)
		return r;
	/* QEMU's tells which FUSE it speaks; the other one's line is name and version. */
	*ret_flavour = out.len && strstr(buf_string(&out), "FUSE") ? VIRTIOFSD_QEMU : VIRTIOFSD_RUST;
	return CCHV_OK;
}

int virtiofsd_find(char **ret_path, int *ret_flavour, cchv_error **err)
{
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		cleanup_free char *path = NULL;
		int r = path_find_program(places[i], &path, NULL);

		if (r == CCHV_ERR_NOMEM)
			return err_nomem(err);
		if (r < 0)
			continue;
		r = ask_flavour(path, ret_flavour, err);
		if (r == CCHV_OK)
			*ret_path = steal(&path);
		return r;
	}
	return err_set(err, CCHV_ERR_NOT_FOUND, 0,
	               "no virtiofsd on PATH, in /usr/libexec or /usr/lib/qemu: install it (package virtiofsd)");
}

static void on_daemon_exit(uint32_t events, void *user_data)
{
	struct virtiofsd *d = user_data;
	int status = 0;

	loop_source_free(steal(&d->source));
	if (waitpid(d->pid, &status, 0) == d->pid)
		d->pid = 0;
	/* It ends when the VMM closes its connection, which may be a moment before the VMM's own end. */
	log_write(&d->vm->ctx->log, vm_is_ending(d->vm) ? CCHV_LOG_DEBUG : CCHV_LOG_ERROR,
	          "VM '%s': the virtiofsd of shared directory '%s' ended (%s %d)", d->vm->id, d->id,
	          WIFSIGNALED(status) ? "signal" : "code",
	          WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static int check_directory(const struct cchv_fs_config *fs, cchv_error **err)
{
	struct stat st;

	if (stat(fs->directory, &st) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "shared directory '%s': %s", fs->id,
		               fs->directory);
	if (!S_ISDIR(st.st_mode))
		return err_set(err, CCHV_ERR_INVALID, 0, "shared directory '%s': %s is no directory", fs->id,
		               fs->directory);
	/* The option parser of QEMU's has no way to quote one. */
	if (strchr(fs->directory, ','))
		return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "shared directory '%s': a comma in %s", fs->id,
		               fs->directory);
	return CCHV_OK;
}

/*
 * The command line. A read-only one of QEMU's flavour, which has no such option, sees its directory through a
 * read-only bind mount in a mount namespace of its own.
 */
static int run(struct virtiofsd *d, const struct cchv_fs_config *fs, const char *path, int flavour, int socket,
               cchv_error **err)
{
	static const char script[] =
		"mount --make-rprivate / && mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && "
		"shift && exec \"$@\"";
	cleanup_close int log_fd = openat(d->dir_fd, VMM_LOG_FIFO, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	const struct proc_fd fds[] = {
		{ socket, SOCKET_FD }, { log_fd, STDERR_FILENO }, { log_fd, STDOUT_FILENO },
	};
	cleanup_free char *source = mem_printf(flavour == VIRTIOFSD_QEMU ? "source=%s" : "--shared-dir=%s",
	                                       fs->directory);
	const char *argv[20];
	struct proc_spawn spawn = {
		.argv = argv, .cwd = d->vm->run_dir, .fds = fds,
		.fd_count = log_fd >= 0 ? 3 : 1,
		.death_signal = d->vm->config->kill_with_thread ? SIGKILL : 0,
	};
	const struct cgroup *g = &d->vm->vmm->cgroup;
	cleanup_free char *unshare = NULL;
	size_t n = 0;
	int r;

	if (!source)
		return err_nomem(err);
	for (size_t i = 0; i < g->count; i++)
		if (g->procs_fds[i] >= 0)
			spawn.cgroup_procs_fds[spawn.cgroup_count++] = g->procs_fds[i];
	if (flavour == VIRTIOFSD_QEMU && fs->readonly) {
		r = path_find_program("unshare", &unshare, err);
		if (r < 0)
			return err_prefix(err, r, "shared directory '%s' read-only", fs->id);
		argv[n++] = unshare;
		argv[n++] = "--mount";
		argv[n++] = "/bin/sh";
		argv[n++] = "-c";
		argv[n++] = script;
		argv[n++] = "sh";
		argv[n++] = fs->directory;
	}
	argv[n++] = path;
	argv[n++] = "--fd=3";
	if (flavour == VIRTIOFSD_QEMU) {
		argv[n++] = "-f";
		argv[n++] = "-o";
		argv[n++] = source;
		argv[n++] = "-o";
		argv[n++] = "xattr,log_level=warn";
	} else {
		argv[n++] = source;
		argv[n++] = "--xattr";
		argv[n++] = "--log-level=warn";
		if (fs->readonly)
			argv[n++] = "--readonly";
	}
	argv[n] = NULL;
	return proc_spawn(&spawn, &d->pid, &d->pidfd, err);
}

static int listen_socket(struct virtiofsd *d, cchv_error **err)
{
	const cchv_vm_config *c = d->vm->config;
	char path[200];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", d->dir_fd, d->socket);
	fd = fd_unix_listen(path, 4);
	if (fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "shared directory '%s': socket", d->id);
	if (c->set_ids && fchownat(d->dir_fd, d->socket, c->uid, c->gid, AT_SYMLINK_NOFOLLOW) < 0) {
		fd_close(&fd);
		return err_set(err, err_code_of_errno(errno), errno, "shared directory '%s': socket", d->id);
	}
	return fd;
}

int virtiofsd_start(struct cchv_vm *vm, const struct cchv_fs_config *fs, struct virtiofsd **ret_daemon,
                    cchv_error **err)
{
	cleanup_close int socket = -1;
	cleanup_free char *path = NULL;
	struct virtiofsd *d;
	int flavour = 0, r;

	r = check_directory(fs, err);
	if (r == CCHV_OK)
		r = virtiofsd_find(&path, &flavour, err);
	if (r < 0)
		return r;
	d = mem_zalloc(sizeof(*d));
	if (!d)
		return err_nomem(err);
	d->vm = vm;
	d->pidfd = -1;
	d->dir_fd = fd_copy(vm->record->dir_fd);
	d->id = mem_strdup(fs->id);
	d->socket = mem_printf("fs-%s.sock", fs->id);
	if (!d->id || !d->socket)
		r = err_nomem(err);
	if (r == CCHV_OK) {
		socket = listen_socket(d, err);
		r = socket < 0 ? socket : run(d, fs, path, flavour, socket, err);
	}
	if (r == CCHV_OK)
		r = loop_add(vm->loop, d->pidfd, EPOLLIN, on_daemon_exit, d, &d->source, err);
	if (r < 0) {
		virtiofsd_free(d);
		return r;
	}
	*ret_daemon = d;
	return CCHV_OK;
}

const char *virtiofsd_socket(const struct virtiofsd *daemon)
{
	return daemon->socket;
}

struct json *virtiofsd_json(const struct virtiofsd *daemon)
{
	return record_process_json(daemon->pid);
}

void virtiofsd_forget(struct virtiofsd *daemon)
{
	daemon->pid = 0;
	free(daemon->socket);
	daemon->socket = NULL;
}

/* The whole group: it forks a child for its sandbox, where the directory is mounted once more. */
static void end_processes(struct virtiofsd *d)
{
	cleanup_close int child = proc_open_child(d->pid);

	kill(-d->pid, SIGKILL);
	while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR)
		;
	/* Not ours to reap, but whoever wants to unmount what was shared is to find it free. */
	if (child >= 0 && fd_wait(child, POLLIN, clock_deadline(CHILD_END_MS)) <= 0)
		log_warning(&d->vm->ctx->log, "VM '%s': a process of the virtiofsd of '%s' does not die", d->vm->id,
		            d->id);
}

void virtiofsd_free(struct virtiofsd *d)
{
	if (!d)
		return;
	loop_source_free(d->source);
	if (d->pid > 0)
		end_processes(d);
	if (d->socket)
		unlinkat(d->dir_fd, d->socket, 0);
	fd_close(&d->pidfd);
	fd_close(&d->dir_fd);
	free(d->id);
	free(d->socket);
	free(d);
}
