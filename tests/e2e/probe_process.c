/* SPDX-License-Identifier: Apache-2.0 */
/* Processes: exit codes, signals, terminals, descriptors, as a process sees them from inside. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "probe.h"

/* exit CODE */
static int run_exit(int argc, char **argv)
{
	(void)argc;
	_exit((int)probe_number(argv[1]));
}

/* die SIGNAL: by that signal's default action, with core dumps allowed */
static int run_die(int argc, char **argv)
{
	struct rlimit core = { RLIM_INFINITY, RLIM_INFINITY };
	int number = (int)probe_number(argv[1]);
	sigset_t set;

	(void)argc;
	setrlimit(RLIMIT_CORE, &core);
	signal(number, SIG_DFL);
	sigfillset(&set);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	kill(getpid(), number);
	pause();
	return 97;
}

/* signals COUNT: "ready", then the number of each signal that arrives, COUNT of them; ends with code 42 */
static int run_signals(int argc, char **argv)
{
	uint64_t count = probe_number(argv[1]);
	struct signalfd_siginfo info;
	sigset_t set;
	int fd;

	(void)argc;
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, 0);
	if (fd < 0)
		probe_die("signalfd");
	puts("ready");
	for (uint64_t i = 0; i < count; i++) {
		if (read(fd, &info, sizeof(info)) != sizeof(info))
			probe_die("read");
		printf("%u\n", info.ssi_signo);
	}
	return 42;
}

/* ignore SIGNAL...: "ready", then live on whatever comes of these */
static int run_ignore(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		signal((int)probe_number(argv[i]), SIG_IGN);
	puts("ready");
	fflush(stdout);
	while (pause() < 0)
		;
	return 0;
}

/* tree SECONDS: a child in this process group, one in a session of its own, both as long as that; "PID PID" */
static int run_tree(int argc, char **argv)
{
	unsigned int seconds = (unsigned int)probe_number(argv[1]);
	pid_t same, own;

	(void)argc;
	same = fork();
	if (same == 0) {
		sleep(seconds);
		_exit(0);
	}
	own = fork();
	if (own == 0) {
		setsid();
		sleep(seconds);
		_exit(0);
	}
	printf("%d %d\n", (int)same, (int)own);
	fflush(stdout);
	sleep(seconds);
	return 0;
}

static volatile sig_atomic_t resized;

static void on_winch(int number)
{
	(void)number;
	resized = 1;
}

static void print_size(void)
{
	struct winsize size;

	if (ioctl(0, TIOCGWINSZ, &size) < 0)
		probe_die("TIOCGWINSZ");
	printf("%u %u\n", size.ws_row, size.ws_col);
	fflush(stdout);
}

/* size COUNT: rows and columns now, and after each of COUNT changes */
static int run_size(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_winch };
	sigset_t block, old;

	(void)argc;
	sigemptyset(&block);
	sigaddset(&block, SIGWINCH);
	sigprocmask(SIG_BLOCK, &block, &old);
	sigaction(SIGWINCH, &action, NULL);
	print_size();
	for (uint64_t i = 0; i < probe_number(argv[1]); i++) {
		resized = 0;
		while (!resized)
			sigsuspend(&old);
		print_size();
	}
	return 0;
}

/* fds: "NUMBER TARGET" for each descriptor but the one that looks */
static int run_fds(int argc, char **argv)
{
	DIR *dir = opendir("/proc/self/fd");
	char path[300], target[4096];
	struct dirent *e;

	(void)argc, (void)argv;
	if (!dir)
		probe_die("/proc/self/fd");
	while ((e = readdir(dir)) != NULL) {
		ssize_t n;

		if (e->d_name[0] == '.' || atoi(e->d_name) == dirfd(dir))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		printf("%s %s\n", e->d_name, target);
	}
	closedir(dir);
	return 0;
}

/* zombies: how many processes that can be seen have ended and are not reaped */
static int run_zombies(int argc, char **argv)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	int count = 0;

	(void)argc, (void)argv;
	if (!dir)
		probe_die("/proc");
	while ((e = readdir(dir)) != NULL) {
		char path[300], line[256], *end;
		FILE *file;

		if (e->d_name[0] < '0' || e->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fgets(line, sizeof(line), file) && (end = strrchr(line, ')')) && end[1] && end[2] == 'Z')
			count++;
		fclose(file);
	}
	closedir(dir);
	printf("%d\n", count);
	return 0;
}

/* orphans COUNT: that many grandchildren whose parents are gone, and end a little later; code 3 */
static int run_orphans(int argc, char **argv)
{
	(void)argc;
	for (uint64_t i = 0; i < probe_number(argv[1]); i++) {
		pid_t pid = fork();

		if (pid == 0) {
			if (fork() == 0) {
				usleep(200000);
				_exit(0);
			}
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	return 3;
}

const struct probe_command probe_process_commands[] = {
	{ "exit", run_exit, "CODE" },	    { "die", run_die, "SIGNAL" },
	{ "signals", run_signals, "COUNT" }, { "ignore", run_ignore, "SIGNAL..." },
	{ "tree", run_tree, "SECONDS" },     { "size", run_size, "COUNT" },
	{ "fds", run_fds, "" },		     { "zombies", run_zombies, "" },
	{ "orphans", run_orphans, "COUNT" }, { NULL, NULL, NULL },
};
