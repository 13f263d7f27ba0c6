/* SPDX-License-Identifier: Apache-2.0 */
/* Finding QEMU: see program.h. Enters: PATH, /dev/kvm, /proc/cpuinfo. Leaves: what to run and how. */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"

#define NAME "qemu-system-x86_64"
#define VERSION_TIMEOUT_MS 30000
#define VERSION_CX16_IS_SAFE 10

struct program {
	struct loop *loop;
	const struct log_sink *log;
	char *path;
	char *firmware;
	cchv_error *missing;            /* why path is NULL */
	int kvm;
	int version;                    /* 0: not known yet; -1: unreadable */
	pid_t pid;
	int out_fd;
	struct loop_source *source;
	struct buf out;
};

int program_parse_version(const char *text)
{
	int major;

	return sscanf(text, "QEMU emulator version %d.", &major) == 1 && major > 0 ? major : -1;
}

int program_cpu_virtualizes(const char *cpuinfo)
{
	const char *line = strstr(cpuinfo, "\nflags\t");
	size_t len;

	if (!line)
		return 0;
	line += 7;
	len = strcspn(line, "\n");
	for (const char *p = line; p < line + len; p += strcspn(p, " \n")) {
		p += *p == ' ';
		if (strncmp(p, "vmx", 3) == 0 || strncmp(p, "svm", 3) == 0)
			if (p[3] == ' ' || p[3] == '\n' || !p[3])
				return 1;
	}
	return 0;
}

/* Of the first processor; they are all alike. */
static const char *field(const char *cpuinfo, const char *name, size_t *ret_len)
{
	size_t len = strlen(name);

	for (const char *line = cpuinfo; line; line = strchr(line, '\n'), line += line != NULL) {
		const char *value;

		if (strncmp(line, name, len) != 0 || line[len] != '\t')
			continue;
		value = strchr(line, ':');
		if (!value)
			break;
		value += 1 + (value[1] == ' ');
		*ret_len = strcspn(value, "\n");
		return value;
	}
	*ret_len = 0;
	return "";
}

void program_describe_cpu(const char *cpuinfo, char *text, size_t size)
{
	static const char *const names[] = { "vendor_id", "cpu family", "model", "model name" };
	uint64_t sum = 0xcbf29ce484222325ULL;
	size_t used = 0, len;
	const char *flags = field(cpuinfo, "flags", &len);

	/* FNV-1a of the abilities, which are some hundred words. */
	for (size_t i = 0; i < len; i++)
		sum = (sum ^ (uint8_t)flags[i]) * 0x100000001b3ULL;
	for (size_t i = 0; i < ARRAY_LEN(names) && used < size; i++) {
		const char *value = field(cpuinfo, names[i], &len);

		used += (size_t)snprintf(text + used, size - used, "%.*s ", (int)len, value);
	}
	if (used < size)
		snprintf(text + used, size - used, "%016llx", (unsigned long long)sum);
}

static int read_cpuinfo(char *text, size_t size)
{
	cleanup_close int info = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
	ssize_t n = info < 0 ? -1 : fd_read_full(info, text, size - 1, CLOCK_NEVER);

	if (n <= 0)
		return -1;
	text[n] = '\0';
	return 0;
}

int program_describe_host(const struct program *p, char *text, size_t size, struct fault *fault)
{
	char cpuinfo[16384];

	text[0] = '\0';
	if (!p->kvm)
		return CCHV_OK;
	if (read_cpuinfo(cpuinfo, sizeof(cpuinfo)) < 0) {
		fault_os(fault, errno);
		return fault_wrap(fault, "/proc/cpuinfo");
	}
	program_describe_cpu(cpuinfo, text, size);
	return CCHV_OK;
}

/*
 * A paravirtual /dev/kvm opens and speaks version 12, and then ordinary kernels die in it: the CPU itself must have
 * the extension.
 */
static int kvm_works(void)
{
	cleanup_close int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	char text[16384];

	if (kvm < 0 || ioctl(kvm, KVM_GET_API_VERSION, 0) != 12)
		return 0;
	return read_cpuinfo(text, sizeof(text)) == 0 && program_cpu_virtualizes(text);
}

static void reap(struct program *p)
{
	if (p->pid > 0)
		waitpid(p->pid, NULL, 0);
	p->pid = 0;
}

static void on_version(uint32_t events, void *user_data)
{
	struct program *p = user_data;
	const char *text;
	ssize_t n;

	(void)events;
	n = buf_read_fd(&p->out, p->out_fd, 1024);
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	loop_source_free(steal(&p->source));
	fd_close(&p->out_fd);
	reap(p);
	text = buf_string(&p->out);
	p->version = text ? program_parse_version(text) : -1;
	if (p->version < 0)
		log_warning(p->log, "'%s' does not tell its version", p->path);
	else if (p->version < VERSION_CX16_IS_SAFE)
		log_warning(p->log, "'%s' is version %d, whose emulation of cmpxchg16b crashes guests: they do without",
		            p->path, p->version);
}

static int ask_version(struct program *p, cchv_error **err)
{
	const char *const argv[] = { p->path, "--version", NULL };
	cleanup_close int ours = -1, theirs = -1;
	struct proc_spawn spec = { .argv = argv, .death_signal = SIGKILL };
	struct proc_fd map;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "pipe");
	ours = fds[0];
	theirs = fds[1];
	map = (struct proc_fd){ theirs, STDOUT_FILENO };
	spec.fds = &map;
	spec.fd_count = 1;
	r = proc_spawn(&spec, &p->pid, NULL, err);
	if (r < 0)
		return r;
	p->out_fd = fd_steal(&ours);
	fd_set_nonblock(p->out_fd, 1);
	return loop_add(p->loop, p->out_fd, EPOLLIN, on_version, p, &p->source, err);
}

/* In QEMU's data directory, which lies beside its bin directory. */
static char *find_firmware(const char *program)
{
	const char *slash = strrchr(program, '/');
	cleanup_free char *path = NULL;

	path = slash ? mem_printf("%.*s/../share/qemu/qboot.rom", (int)(slash - program), program) : NULL;
	return path && access(path, R_OK) == 0 ? steal(&path) : NULL;
}

int program_new(struct loop *loop, const struct log_sink *log, struct program **ret_program, cchv_error **err)
{
	struct program *p = mem_zalloc(sizeof(*p));
	int r = CCHV_OK;

	if (!p)
		return err_nomem(err);
	p->loop = loop;
	p->log = log;
	p->out_fd = -1;
	p->out.max = 4096;
	p->kvm = kvm_works();
	if (path_find_program(NAME, &p->path, &p->missing) == CCHV_OK) {
		p->firmware = find_firmware(p->path);
		if (!p->kvm)
			r = ask_version(p, err);
	}
	if (r < 0) {
		program_free(p);
		return r;
	}
	*ret_program = p;
	return CCHV_OK;
}

void program_free(struct program *p)
{
	if (!p)
		return;
	if (p->pid > 0)
		kill(p->pid, SIGKILL);
	reap(p);
	loop_source_free(p->source);
	fd_close(&p->out_fd);
	buf_free(&p->out);
	cchv_error_free(p->missing);
	free(p->path);
	free(p->firmware);
	free(p);
}

int program_wait(struct program *p, struct fault *fault)
{
	uint64_t deadline = clock_deadline(VERSION_TIMEOUT_MS);
	cleanup_err cchv_error *err = NULL;

	if (!p->path)
		return fault_from_error(fault, p->missing);
	while (p->source)
		if (clock_passed(deadline))
			return fault_set(fault, 500, "'%s --version' does not end", p->path);
		else if (loop_run_once(p->loop, deadline, &err) < 0)
			return fault_from_error(fault, err);
	return CCHV_OK;
}

const char *program_path(const struct program *p)
{
	return p->path;
}

const char *program_firmware(const struct program *p)
{
	return p->firmware;
}

int program_has_kvm(const struct program *p)
{
	return p->kvm;
}

const char *program_cpu(const struct program *p, int nested)
{
	if (p->kvm)
		return nested ? "host" : "host,-vmx,-svm";
	/*
	 * A processor that boasts of fast string moves has its kernel copy by "rep movsb", which TCG emulates byte by
	 * byte: without, a guest's pipes and streams cost half the processor time (64 MiB: 220 ticks, then 130).
	 */
	return p->version < VERSION_CX16_IS_SAFE ? "max,-erms,-fsrm,-cx16" : "max,-erms,-fsrm";
}
