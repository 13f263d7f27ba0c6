/* SPDX-License-Identifier: Apache-2.0 */
/*
 * containerd-shim-cchv-v2, as the daemon runs it: see front.h. Enters: flags, standard input, the bundle as
 * the current directory. Leaves: a reply on standard output; on success not one byte on standard error, since
 * the daemon reads both as one.
 */
#include "front.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cchv/version.h>

#define STDIN_MAX (4U << 20)
#define SERVER    "containerd-shim-cchv-v2-server"

int front_fail(const char *format, ...)
{
	char line[1024];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	n = n < 0 ? 0 : n < (int)sizeof(line) - 1 ? n : (int)sizeof(line) - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return 1;
	return 1;
}

int front_read_stdin(struct wire *ret)
{
	char chunk[4096];

	for (;;) {
		ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			return 0;
		if (ret->len + (size_t)n > STDIN_MAX) {
			errno = EFBIG;
			return -1;
		}
		wire_put(ret, chunk, (size_t)n);
		if (ret->failed) {
			errno = ENOMEM;
			return -1;
		}
	}
}

int front_write_stdout(const struct wire *out)
{
	const unsigned char *p = out->data;
	size_t left = out->len;

	while (left) {
		ssize_t n = write(STDOUT_FILENO, p, left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		p += n;
		left -= (size_t)n;
	}
	return out->failed ? -1 : 0;
}

static int is_program(char *path, unsigned long size, int dir_len, const char *dir)
{
	int n = snprintf(path, size, "%.*s/" SERVER, dir_len, dir);

	return n > 0 && (unsigned long)n < size && *path == '/' && access(path, X_OK) == 0;
}

int front_server_path(char *path, unsigned long size)
{
	const char *dir = getenv("PATH");
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n > 0) {
		self[n] = '\0';
		if ((unsigned long)snprintf(path, size, "%s-server", self) < size && access(path, X_OK) == 0)
			return 0;
	}
	if (is_program(path, size, (int)strlen(SHIM_LIBEXEC_DIR), SHIM_LIBEXEC_DIR))
		return 0;
	/* A copy of this program alone, which containerd runs by its absolute path. */
	for (; dir && *dir; dir += strspn(dir, ":")) {
		size_t len = strcspn(dir, ":");

		if (is_program(path, size, (int)len, dir))
			return 0;
		dir += len;
	}
	return -1;
}

static int print_version(void)
{
	struct wire out = { 0 };
	char line[128];
	int n = snprintf(line, sizeof(line), "containerd-shim-cchv-v2 %d.%d.%d\n", CCHV_VERSION_MAJOR,
			 CCHV_VERSION_MINOR, CCHV_VERSION_PATCH);

	wire_put(&out, line, (size_t)n);
	n = front_write_stdout(&out) < 0;
	wire_free(&out);
	return n;
}

int main(int argc, char **argv)
{
	struct flags flags;

	flags_parse(argc, argv, &flags);
	if (flags.version)
		return print_version();
	if (flags.info)
		return cmd_info();
	if (!flags.action)
		return front_fail(
			"containerd-shim-cchv-v2: run by containerd, with an action: start or delete");
	if (!flags.namespace || !*flags.namespace)
		return front_fail("containerd-shim-cchv-v2: -namespace is missing");
	if (!flags.id || !*flags.id)
		return front_fail("containerd-shim-cchv-v2: -id is missing");
	if (strcmp(flags.action, "start") == 0)
		return cmd_start(&flags);
	if (strcmp(flags.action, "delete") == 0)
		return cmd_delete(&flags, argc, argv);
	return front_fail("containerd-shim-cchv-v2: unknown action '%s'", flags.action);
}
