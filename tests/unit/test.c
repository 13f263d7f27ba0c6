/* SPDX-License-Identifier: Apache-2.0 */
/* The unit tests' main(): see test.h. Usage: TEST [NAME...] runs all cases or the named ones. */
#include "test.h"

#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

#ifdef __SANITIZE_ADDRESS__
#define SECONDS_PER_CASE 600
#else
#define SECONDS_PER_CASE 60
#endif

static struct test_case *tests;
static char directory[64];

void test_register(struct test_case *test)
{
	struct test_case **p = &tests;

	while (*p)
		p = &(*p)->next;
	*p = test;
}

void test_fail(const char *file, int line, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s:%d: ", file, line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

const char *test_dir(void)
{
	return directory;
}

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static int run(struct test_case *test)
{
	int status, before = count_fds();
	pid_t pid;

	strcpy(directory, "/tmp/cchv-unit-XXXXXX");
	if (!mkdtemp(directory)) {
		perror("mkdtemp");
		return 1;
	}
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		int after;

		setpgid(0, 0);
		alarm(SECONDS_PER_CASE);
		test->fn();
		after = count_fds();
		if (after != before)
			test_fail(__FILE__, __LINE__, "%d descriptors leaked", after - before);
		exit(0);
	}
	waitpid(pid, &status, 0);
	kill(-pid, SIGKILL);
	nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	if (WIFSIGNALED(status))
		fprintf(stderr, "killed by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
	return status != 0;
}

int main(int argc, char **argv)
{
	int failed = 0, ran = 0;

	for (struct test_case *t = tests; t; t = t->next) {
		int wanted = argc < 2;

		for (int i = 1; i < argc; i++)
			wanted |= strcmp(argv[i], t->name) == 0;
		if (!wanted)
			continue;
		ran++;
		if (run(t)) {
			printf("FAILED %s\n", t->name);
			failed++;
		} else {
			printf("ok %s\n", t->name);
		}
	}
	if (!ran) {
		fprintf(stderr, "no such case\n");
		return 1;
	}
	return failed != 0;
}
