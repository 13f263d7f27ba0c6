/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first steps of PID 1: see boot.h. Enters: an empty root with /init in it. Leaves: the file systems of a small
 * machine. A mount that fails is logged and not fatal: the host should hear from us what is wrong.
 */
#include "guest/boot.h"

#include "base/fd.h"
#include "guest/process.h"
#include "guest/process_caps.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Many connections, and the private numbers of agent.h. */
#define NOFILE_LIMIT 65536

struct mount_row {
	const char *type, *path, *options;
	unsigned long flags;
};

static const struct mount_row first_mounts[] = {
	{ "proc", "/proc", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC },
	{ "devtmpfs", "/dev", "mode=0755", MS_NOSUID },
	{ "sysfs", "/sys", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC },
};

static const struct mount_row later_mounts[] = {
	{ "devpts", "/dev/pts", "mode=0620,ptmxmode=0666,gid=5", MS_NOSUID | MS_NOEXEC },
	{ "tmpfs", "/dev/shm", "mode=1777", MS_NOSUID | MS_NODEV },
	{ "cgroup2", "/sys/fs/cgroup", "nsdelegate,memory_recursiveprot", MS_NOSUID | MS_NODEV | MS_NOEXEC },
	{ "tmpfs", "/run", "mode=0755", MS_NOSUID | MS_NODEV },
	{ "tmpfs", "/tmp", "mode=1777", MS_NOSUID | MS_NODEV },
};

static void mount_all(const struct mount_row *rows, size_t count, const struct log_sink *log)
{
	for (size_t i = 0; i < count; i++) {
		const struct mount_row *m = &rows[i];

		if (mkdir(m->path, 0755) < 0 && errno != EEXIST)
			log_error(log, "mkdir %s: errno %d", m->path, errno);
		if (mount(m->type, m->path, m->type, m->flags, m->options) < 0 && errno != EBUSY)
			log_error(log, "mount %s: errno %d", m->path, errno);
	}
}

/* One record per line in the kernel's log, and so on the console. */
static void log_kmsg(int level, const char *text, void *user_data)
{
	static const int levels[] = { 3, 4, 6, 7 };
	const int *fd = user_data;
	char line[1000];
	int n = snprintf(line, sizeof(line), "<%d>agent: %s", levels[level], text);

	/* In one write; dprintf() would try to seek first, and give up. */
	if (write(*fd, line, n < (int)sizeof(line) ? (size_t)n : sizeof(line) - 1) < 0)
		return; /* there is nobody else to tell */
}

/*
 * The kernel asks for modules by this name. It is not in the initramfs: on its way to us a kernel looks fourteen times
 * for ciphers that no guest has, and each time starts what lies there.
 */
static void offer_modules(const struct log_sink *log)
{
	if (symlink("/init", "/sbin/modprobe") < 0 && errno != EEXIST)
		log_error(log, "/sbin/modprobe: errno %d", errno);
}

static void open_log(struct agent *agent)
{
	static int kmsg;
	int all = open("/proc/sys/kernel/printk_devkmsg", O_WRONLY | O_CLOEXEC);

	/* Else the kernel drops what is over ten lines in five seconds. It is refused where the command line chose. */
	if (all >= 0) {
		if (write(all, "on\n", 3) < 0)
			errno = 0;
		close(all);
	}
	kmsg = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
	if (kmsg < 0)
		return;
	agent->log.max_level = CCHV_LOG_INFO;
	agent->log.fn = log_kmsg;
	agent->log.user_data = &kmsg;
}

/*
 * The kernel gave us the console, or (without /dev/console) nothing at all: then the next file would become standard
 * input. Children must not write there by accident either.
 */
static void close_console(void)
{
	int fd = open("/dev/null", O_RDWR);

	for (int i = 0; fd >= 0 && i < 3; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
}

static void raise_limits(void)
{
	struct rlimit nofile = { NOFILE_LIMIT, NOFILE_LIMIT }, old;

	process_keep_limits();
	process_learn_caps();
	if (getrlimit(RLIMIT_NOFILE, &old) == 0 && old.rlim_max > nofile.rlim_max)
		nofile.rlim_max = old.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &nofile) < 0 && getrlimit(RLIMIT_NOFILE, &old) == 0) {
		old.rlim_cur = old.rlim_max;
		setrlimit(RLIMIT_NOFILE, &old);
	}
}

void boot_begin(struct agent *agent)
{
	agent->is_init = 1;
	umask(022);
	mount_all(first_mounts, ARRAY_LEN(first_mounts), NULL);
	close_console();
	open_log(agent);
	offer_modules(&agent->log);
	process_own_signals();
	reboot(RB_DISABLE_CAD);
	raise_limits();
}

static void loopback_up(void)
{
	cleanup_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };

	if (fd >= 0)
		ioctl(fd, SIOCSIFFLAGS, &request);
}

void boot_finish(const struct log_sink *log)
{
	mount_all(later_mounts, ARRAY_LEN(later_mounts), log);
	loopback_up();
	if (symlink("/proc/self/fd", "/dev/fd") < 0 && errno != EEXIST)
		log_error(log, "/dev/fd: errno %d", errno);
}

void boot_halt(void)
{
	sync();
	for (;;) {
		reboot(RB_POWER_OFF);
		pause();
	}
}

#ifdef AGENT_TEST
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

static int term_fd = -1;
static struct loop_source *term_source;

static void on_term(uint32_t events, void *user_data)
{
	struct agent *agent = user_data;

	agent->quit = 1;
}

int boot_test(struct agent *agent, cchv_error **err)
{
	sigset_t set;

	agent->log.max_level = CCHV_LOG_INFO;
	agent->log.fd = fd_copy(2);
	process_own_signals();
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* Orphans come to us, as they do to PID 1. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "become a reaper");
	raise_limits();
	return CCHV_OK;
}

int boot_test_signals(struct agent *agent, cchv_error **err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	term_fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (term_fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "signalfd");
	return loop_add(agent->loop, term_fd, EPOLLIN, on_term, agent, &term_source, err);
}

void boot_test_end(struct agent *agent)
{
	loop_source_free(term_source);
	fd_close(&term_fd);
}
#endif
