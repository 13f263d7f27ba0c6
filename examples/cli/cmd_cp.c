/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cp. Enters: one path here and one in a container. Leaves: the copy. tar packs and unpacks on this side;
 * what comes out of a container is distrusted: a guard (tar_guard.h) looks at it first, it is unpacked into a fresh
 * directory beside the target, then moved to the one name that was asked for.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "commands.h"
#include "launch.h"
#include "tar_guard.h"

#define COPY_MS (-1)
#define MAX_FILES 1000000

/* What a container may send at most. */
struct limits {
	uint64_t bytes; /* 0: what the target has free, less a twentieth of it all */
	uint64_t files;
};

/* From in to out, as far as the guard lets it pass: 0, or -1 with a line in errors, or without where out is gone. */
static int guard_stream(int in, int out, int errors, const struct limits *limits)
{
	struct tar_guard guard;
	int r;

	tar_guard_init(&guard, limits->bytes, limits->files);
	r = tar_guard_copy(&guard, in, out);
	if (r < 0)
		dprintf(errors, "%s", guard.error);
	tar_guard_free(&guard);
	return r;
}

/* A process of its own, since cchv_container_copy_out() fills the one side while tar empties the other. */
static pid_t fork_guard(int in, int not_ours, int out, int errors, const struct limits *limits)
{
	pid_t pid = fork();

	if (pid == 0) {
		close(not_ours);
		_exit(guard_stream(in, out, errors, limits) < 0);
	}
	if (pid < 0)
		fail("fork: %m");
	return pid;
}

/* What tar says goes to errors: it is news only where nothing before it failed. */
static pid_t spawn_tar(const char *const *argv, int in, int out, int errors)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int r;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, 0);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	posix_spawn_file_actions_adddup2(&actions, errors, 2);
	posix_spawn_file_actions_addclosefrom_np(&actions, 3);
	r = posix_spawnp(&pid, "tar", &actions, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r) {
		fail("run 'tar': %s", strerror(r));
		return -1;
	}
	return pid;
}

static int reap(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* The first line that was said there: 0 where there is none. */
static int first_line(int errors, char *line, size_t size)
{
	ssize_t n = pread(errors, line, size - 1, 0);

	line[n > 0 ? n : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return n > 0;
}

/* The first line that tar said, as one of ours. */
static int fail_as_tar_did(int errors, const struct client *c, const char *path)
{
	char line[512];

	if (!first_line(errors, line, sizeof(line)))
		strcpy(line, "it failed");
	return fail("'%s:%s': tar: %s", c->record->name, path, strncmp(line, "tar: ", 5) == 0 ? line + 5 : line);
}

/* A container does not make device nodes on the host, nor programs that run as somebody else. */
static int tame_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)flag, (void)ftw;
	if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode)) {
		warn("'%s': a device node, left out", path);
		return remove(path);
	}
	if (S_ISREG(st->st_mode) && (st->st_mode & (S_ISUID | S_ISGID)))
		return chmod(path, st->st_mode & 0777);
	return 0;
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

/* How a copy ended: of three that failed the one that knows why. EPIPE is the library's where another one was first. */
static int judge(struct client *c, const char *path, cchv_error *err, int guard, int tar, const int *errors)
{
	char line[2 * TAR_NAME_MAX];
	int r = 0;

	if (err && cchv_error_errno(err) != EPIPE)
		return fail_error(err, "'%s:%s'", c->record->name, path);
	if (guard < 0 && first_line(errors[0], line, sizeof(line)))
		r = fail("'%s:%s': %s", c->record->name, path, line);
	else if (tar < 0)
		r = fail_as_tar_did(errors[1], c, path);
	else if (err)
		return fail_error(err, "'%s:%s'", c->record->name, path);
	else if (guard < 0)
		r = fail("'%s:%s': the copy failed on its way", c->record->name, path);
	cchv_error_free(err);
	return r;
}

/* The stream of a container's path through the guard into argv's tar. */
static int unpack_out(struct client *c, const char *path, const char *const *argv, const struct limits *limits)
{
	int raw[2], checked[2], errors[2], null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC), guard_ended, tar_ended;
	cchv_error *err = NULL;
	pid_t guard, tar;

	errors[0] = memfd_create("guard", MFD_CLOEXEC);
	errors[1] = memfd_create("tar", MFD_CLOEXEC);
	if (null_fd < 0 || errors[0] < 0 || errors[1] < 0 || pipe2(raw, O_CLOEXEC) < 0 || pipe2(checked, O_CLOEXEC) < 0)
		return fail("pipe: %m");
	tar = spawn_tar(argv, checked[0], null_fd, errors[1]);
	close(checked[0]);
	close(null_fd);
	guard = tar < 0 ? -1 : fork_guard(raw[0], raw[1], checked[1], errors[0], limits);
	close(checked[1]);
	close(raw[0]);
	if (guard > 0)
		cchv_container_copy_out(c->container, path, raw[1], 0, COPY_MS, &err);
	close(raw[1]);
	guard_ended = guard > 0 ? reap(guard) : -1;
	tar_ended = tar > 0 ? reap(tar) : -1;
	if (guard < 0)
		return EXIT_OURS;
	guard = judge(c, path, err, guard_ended, tar_ended, errors);
	close(errors[0]);
	close(errors[1]);
	return guard;
}

/* What a target has free, less what a file system should keep. */
static uint64_t room_at(const char *directory)
{
	struct statvfs fs;
	uint64_t free_bytes, kept;

	if (statvfs(directory, &fs) < 0)
		return 0;
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	kept = (uint64_t)fs.f_blocks * fs.f_frsize / 20;
	return free_bytes > kept ? free_bytes - kept : 0;
}

static int stream_out(struct client *c, const char *path)
{
	cchv_error *err = NULL;
	int r = cchv_container_copy_out(c->container, path, STDOUT_FILENO, 0, COPY_MS, &err);

	return r < 0 ? fail_error(err, "'%s:%s'", c->record->name, path) : 0;
}

static int copy_out(struct client *c, const char *from, const char *to, struct limits limits)
{
	char *from_copy, *base, *target, *parent_copy, *temp, *unpacked;
	struct stat st;
	int r;

	if (strcmp(to, "-") == 0)
		return stream_out(c, from);
	if (to[strlen(to) - 1] == '/' && stat(to, &st) < 0)
		return fail("'%s': %m", to);
	from_copy = xstrdup(from);
	base = basename(from_copy);
	target = stat(to, &st) == 0 && S_ISDIR(st.st_mode)
			 ? xprintf("%s/%s", to, strcmp(base, "/") ? base : "")
			 : xstrdup(to);
	parent_copy = xstrdup(target);
	temp = xprintf("%s/.cchv-cp-XXXXXX", dirname(parent_copy));
	if (!mkdtemp(temp)) {
		r = fail("'%s': %m", to);
	} else {
		const char *const argv[] = { "tar",
					     "-x",
					     "-f",
					     "-",
					     "-C",
					     temp,
					     "--no-same-owner",
					     "--delay-directory-restore",
					     "--no-overwrite-dir",
					     NULL };

		unpacked = xprintf("%s/%s", temp, strcmp(base, "/") && strcmp(base, ".") ? base : ".");
		if (!limits.bytes)
			limits.bytes = room_at(temp);
		r = unpack_out(c, from, argv, &limits);
		if (r == 0 && lstat(unpacked, &st) < 0)
			r = fail("'%s:%s': the container sent something else", c->record->name, from);
		if (r == 0 && nftw(temp, tame_entry, 16, FTW_DEPTH | FTW_PHYS) < 0)
			r = fail("'%s': %m", temp);
		if (r == 0 && lstat(unpacked, &st) < 0)
			r = fail("'%s:%s': a device node is not copied", c->record->name, from);
		if (r == 0 && rename(unpacked, target) < 0)
			r = fail("'%s': %m", target);
		nftw(temp, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
		free(unpacked);
	}
	free(from_copy);
	free(parent_copy);
	free(target);
	free(temp);
	return r;
}

static int stream_in(struct client *c, const char *directory, const char *const *argv)
{
	cchv_error *err = NULL;
	int fds[2], null_fd, errors, r = 0;
	pid_t pid;

	if (!argv) {
		r = cchv_container_copy_in(c->container, directory, STDIN_FILENO, COPY_MS, &err);
		return r < 0 ? fail_error(err, "'%s:%s'", c->record->name, directory) : 0;
	}
	null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	errors = memfd_create("tar", MFD_CLOEXEC);
	if (null_fd < 0 || errors < 0 || pipe2(fds, O_CLOEXEC) < 0)
		return fail("pipe: %m");
	pid = spawn_tar(argv, null_fd, fds[1], errors);
	close(fds[1]);
	close(null_fd);
	r = pid < 0 ? EXIT_OURS : 0;
	if (r == 0 && cchv_container_copy_in(c->container, directory, fds[0], COPY_MS, &err) < 0)
		r = fail_error(err, "'%s:%s'", c->record->name, directory);
	close(fds[0]);
	if (pid > 0 && reap(pid) < 0 && r == 0)
		r = fail_as_tar_did(errors, c, directory);
	close(errors);
	return r;
}

/* 1 when path is a directory in the container: unpacking an empty archive works there, and nowhere else. */
static int is_directory_inside(struct client *c, const char *path)
{
	static const char empty[1024] = "";
	int fds[2], r = -1;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return 0;
	if (write(fds[1], empty, sizeof(empty)) == (ssize_t)sizeof(empty)) {
		close(fds[1]);
		r = cchv_container_copy_in(c->container, path, fds[0], CALL_MS, NULL);
	} else {
		close(fds[1]);
	}
	close(fds[0]);
	return r == CCHV_OK;
}

static char *escape(const char *text, const char *special)
{
	char *out = xalloc(2 * strlen(text) + 1), *o = out;

	for (; *text; text++) {
		if (strchr(special, *text))
			*o++ = '\\';
		*o++ = *text;
	}
	return out;
}

/* tar's --transform from one first name to another; targets of symbolic links are left alone (flag S). */
static char *rename_option(const char *from, const char *to)
{
	char *pattern = escape(from, "\\.*[]^$|"), *replacement = escape(to, "\\&|"), *option;

	option = xprintf("--transform=flags=rhS;s|^%s|%s|", pattern, replacement);
	free(pattern);
	free(replacement);
	return option;
}

static int pack_in(struct client *c, const char *source, const char *directory, const char *name)
{
	char *parent_copy = xstrdup(source), *base_copy = xstrdup(source), *parent = dirname(parent_copy),
	     *base = basename(base_copy), *option = rename_option(base, name);
	const char *const argv[] = { "tar", "-c", "-f", "-", "-C", parent, option, "--", base, NULL };
	int r = stream_in(c, directory, argv);

	free(option);
	free(parent_copy);
	free(base_copy);
	return r;
}

static int copy_in(struct client *c, const char *from, const char *to)
{
	char *source, *source_copy, *to_copy, *name_copy;
	int r;

	if (strcmp(from, "-") == 0)
		return stream_in(c, to, NULL);
	/* The last component may be a link, which is copied as a link; those before it are ways to it. */
	source = absolute_path(from);
	if (!source || access(from, F_OK) < 0) {
		free(source);
		return fail("'%s': %m", from);
	}
	source_copy = xstrdup(source);
	to_copy = xstrdup(to);
	name_copy = xstrdup(to);
	if (strchr(to, '\n') || strchr(basename(source_copy), '\n'))
		r = fail("'%s': a line feed in a name cannot be copied so; send a tar stream by '-'", from);
	else if (is_directory_inside(c, to))
		r = pack_in(c, source, to, basename(source_copy));
	else
		r = pack_in(c, source, dirname(to_copy), basename(name_copy));
	free(source);
	free(source_copy);
	free(to_copy);
	free(name_copy);
	return r;
}

/* The colon of CONTAINER:PATH, or NULL for a path of this side ("./a:b" is one). */
static char *container_colon(char *argument)
{
	char *colon = strchr(argument, ':');

	return argument[0] == '/' || argument[0] == '.' || !colon || colon == argument ? NULL : colon;
}

/* The options; the two paths are left. 0, or the code to end with. */
static int read_options(int argc, char **argv, struct limits *limits)
{
	static const struct option options[] = { { "max-size", required_argument, NULL, 's' },
						 { "max-files", required_argument, NULL, 'f' },
						 { NULL, 0, NULL, 0 } };
	char *end;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's' && (parse_size(optarg, &limits->bytes) < 0 || limits->bytes == 0))
			return usage_error("cp", "--max-size '%s': not a size", optarg);
		if (c == 'f') {
			limits->files = strtoull(optarg, &end, 10);
			if (*optarg < '0' || *optarg > '9' || *end || !limits->files)
				return usage_error("cp", "--max-files '%s': not a number", optarg);
		}
		if (c == '?')
			return EXIT_OURS;
	}
	return argc - optind == 2 ? 0 : usage_error("cp", "two paths are needed");
}

int cmd_cp(int argc, char **argv)
{
	struct limits limits = { 0, MAX_FILES };
	char *from_colon, *to_colon, *colon, **paths;
	struct client c = { 0 };
	cchv_ctx *ctx;
	int r = read_options(argc, argv, &limits);

	if (r)
		return r;
	paths = argv + optind;
	from_colon = container_colon(paths[0]);
	to_colon = container_colon(paths[1]);
	if (!from_colon == !to_colon)
		return usage_error("cp", "exactly one of the two is CONTAINER:PATH");
	colon = from_colon ? from_colon : to_colon;
	*colon++ = '\0';
	if (*colon != '/')
		return usage_error("cp", "'%s': not an absolute path in the container", colon);
	signal(SIGPIPE, SIG_IGN);
	ctx = open_context();
	r = client_open(ctx, from_colon ? paths[0] : paths[1], &c);
	if (r == 0)
		r = from_colon ? copy_out(&c, colon, paths[1], limits) : copy_in(&c, paths[0], colon);
	client_close(&c);
	cchv_ctx_free(ctx);
	return r ? 1 : 0;
}
