/* SPDX-License-Identifier: Apache-2.0 */
/* logs. Enters: a container's log files. Leaves: their bytes, stdout's on stdout and stderr's on stderr. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "record.h"

struct log {
	char *path; /* of the newest file; PATH.1 is the one before */
	int fd;     /* -1: not there yet */
	int out;    /* where its bytes go */
};

/* Copy what is there from the descriptor's position on. -1: our own output failed. */
static int copy_rest(int from, int to)
{
	char data[65536];
	ssize_t n;

	while ((n = read(from, data, sizeof(data))) > 0)
		if (write_all(to, data, (size_t)n) < 0)
			return -1;
	return 0;
}

/* Go to where the last lines begin; all of it for lines < 0. Searched backwards in blocks. */
static void seek_tail(int fd, long lines)
{
	off_t end = lseek(fd, 0, SEEK_END), at = end;
	char data[65536];

	if (lines < 0 || end <= 0) {
		lseek(fd, lines < 0 ? 0 : end, SEEK_SET);
		return;
	}
	while (at > 0) {
		off_t from = at > (off_t)sizeof(data) ? at - (off_t)sizeof(data) : 0;
		ssize_t n = pread(fd, data, (size_t)(at - from), from);

		for (ssize_t i = n; i > 0; i--) {
			/* The line feed that ends the file ends its last line; it begins none. */
			if (data[i - 1] == '\n' && from + i != end && lines-- == 1) {
				lseek(fd, from + i, SEEK_SET);
				return;
			}
		}
		at = from;
	}
	lseek(fd, lines > 0 ? 0 : end, SEEK_SET);
}

static int print_old(struct log *l, long lines)
{
	char *older = xprintf("%s.1", l->path);
	int fd = lines < 0 ? open(older, O_RDONLY | O_CLOEXEC) : -1, r = 0;

	free(older);
	l->fd = open(l->path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		r = copy_rest(fd, l->out);
		close(fd);
	}
	if (r == 0 && l->fd >= 0) {
		seek_tail(l->fd, lines);
		r = copy_rest(l->fd, l->out);
	}
	return r;
}

/* New bytes; a file that was rotated away is read to its end first, then its successor from the start. */
static int print_new(struct log *l)
{
	struct stat ours, named;

	if (l->fd >= 0 && copy_rest(l->fd, l->out) < 0)
		return -1;
	if (stat(l->path, &named) < 0 ||
	    (l->fd >= 0 && fstat(l->fd, &ours) == 0 && ours.st_ino == named.st_ino))
		return 0;
	if (l->fd >= 0) {
		copy_rest(l->fd, l->out);
		close(l->fd);
	}
	l->fd = open(l->path, O_RDONLY | O_CLOEXEC);
	return l->fd >= 0 ? copy_rest(l->fd, l->out) : 0;
}

static int ended(const char *directory)
{
	char *path = xprintf("%s/exit.json", directory);
	int r = access(path, F_OK) == 0 || access(directory, F_OK) < 0;

	free(path);
	return r;
}

/* The VM, so that its end is heard of when its owner is no more and writes nothing down. */
struct vm_watch {
	cchv_ctx *ctx;
	const char *id;
	cchv_vm *vm; /* NULL: it does not run */
	int stopped; /* it ran: its end is recorded by its owner, or by us, soon */
};

static void watch_vm(struct vm_watch *w)
{
	cchv_event *event;

	if (!w->vm && !w->stopped && cchv_vm_open(w->ctx, w->id, &w->vm, NULL) < 0)
		return;
	if (w->vm) {
		cchv_vm_dispatch(w->vm, NULL);
		while (cchv_vm_next_event(w->vm, &event) > 0) {
			w->stopped |= cchv_event_get_type(event) == CCHV_EVENT_STOPPED;
			cchv_event_free(event);
		}
	}
	if (!w->stopped)
		return;
	cchv_vm_free(w->vm);
	w->vm = NULL;
	/* What a dead owner has left is recorded by whoever comes next. */
	cchv_ctx_prune(w->ctx, NULL, NULL);
}

/* Wait for something in the directory. 0 when nobody reads our output any more, as behind "| grep -m 1": it
 * would only be noticed at the next line, which may never come. */
static int wait_for_change(int fd, const struct vm_watch *w)
{
	char events[8192];
	struct pollfd p[4] = { { .fd = fd, .events = POLLIN }, { .fd = 1 }, { .fd = 2 },
			       { .fd = w->vm ? cchv_vm_get_fd(w->vm) : -1, .events = POLLIN } };

	if (poll(p, 4, w->stopped ? 1000 : -1) < 0)
		return errno == EINTR;
	while (read(fd, events, sizeof(events)) > 0)
		;
	return !((p[1].revents | p[2].revents) & (POLLERR | POLLHUP));
}

static int follow(cchv_ctx *ctx, const char *id, const char *directory, struct log *logs)
{
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), last = 0;
	struct vm_watch w = { .ctx = ctx, .id = id };

	if (fd < 0 ||
	    inotify_add_watch(fd, directory,
			      IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF) < 0) {
		if (fd >= 0)
			close(fd);
		return errno == ENOENT ? 0 : fail("watch '%s': %m", directory);
	}
	while (!last) {
		/* The end is looked for before the last reading, so that nothing written before it is missed.
		 */
		watch_vm(&w);
		last = ended(directory);
		if (print_new(&logs[0]) < 0 || print_new(&logs[1]) < 0)
			break;
		if (!last && !wait_for_change(fd, &w))
			break;
	}
	cchv_vm_free(w.vm);
	close(fd);
	return 0;
}

int cmd_logs(int argc, char **argv)
{
	static const struct option options[] = { { "follow", no_argument, NULL, 'f' },
						 { "tail", required_argument, NULL, 'n' },
						 { NULL, 0, NULL, 0 } };
	struct log logs[2] = { { .fd = -1, .out = 1 }, { .fd = -1, .out = 2 } };
	struct record *record;
	int c, following = 0, r;
	char *directory, *end;
	long lines = -1;
	cchv_ctx *ctx;

	while ((c = getopt_long(argc, argv, "fn:", options, NULL)) != -1) {
		if (c == 'f') {
			following = 1;
		} else if (c == 'n' && strcmp(optarg, "all") != 0) {
			lines = strtol(optarg, &end, 10);
			if (*end || !*optarg || lines < 0)
				return usage_error("logs", "-n '%s': not a number of lines", optarg);
		} else if (c != 'n') {
			return EXIT_OURS;
		}
	}
	if (argc - optind != 1)
		return usage_error("logs", "exactly one container is needed");
	ctx = open_context();
	r = record_find(ctx, argv[optind], &record);
	if (r == 0) {
		directory = record_path(ctx, record->id, NULL);
		logs[0].path = record_path(ctx, record->id, "stdout.log");
		logs[1].path = record_path(ctx, record->id, "stderr.log");
		if (print_old(&logs[0], lines) < 0 || print_old(&logs[1], lines) < 0)
			r = errno == EPIPE ? 0 : fail("output: %m");
		else if (following)
			r = follow(ctx, record->id, directory, logs);
		for (int i = 0; i < 2; i++) {
			free(logs[i].path);
			if (logs[i].fd >= 0)
				close(logs[i].fd);
		}
		free(directory);
		record_free(record);
	}
	cchv_ctx_free(ctx);
	return r ? 1 : 0;
}
