/* SPDX-License-Identifier: Apache-2.0 */
/* Consoles: see console.h. Enters: modes, bytes of the guest and of clients. Leaves: chardevs, the same bytes. */
#include "console.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"

#define TO_HOST_MAX 65536
#define TO_QEMU_MAX 4096

static struct termios saved_terminal;
static int terminal_is_raw;

void console_init(struct console *console, struct loop *loop, const struct log_sink *log)
{
	*console = (struct console){
		.loop = loop, .log = log, .master = -1, .slave = -1, .qemu = -1, .qemu_child = -1,
		.to_host = BUF_INIT(TO_HOST_MAX), .to_qemu = BUF_INIT(TO_QEMU_MAX),
	};
}

static int host_out(const struct console *c)
{
	return c->terminal ? STDOUT_FILENO : c->master;
}

static void watch(struct console *c)
{
	uint32_t qemu = (c->to_host.len < TO_HOST_MAX ? EPOLLIN : 0) | (c->to_qemu.len ? EPOLLOUT : 0);
	uint32_t host = (c->to_qemu.len < TO_QEMU_MAX ? EPOLLIN : 0) |
	                (c->to_host.len && !c->terminal ? EPOLLOUT : 0);

	if (c->qemu_source)
		loop_source_set_events(c->qemu_source, qemu);
	if (c->host_source)
		loop_source_set_events(c->host_source, host);
}

static void flush(struct buf *buf, int fd)
{
	ssize_t n;

	while (buf->len) {
		n = write(fd, buf->data, buf->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		/* Nobody will ever read it (a closed pipe as stdout): it is dropped, and the guest goes on. */
		buf_consume(buf, n < 0 ? buf->len : (size_t)n);
	}
}

static void on_qemu(uint32_t events, void *user_data)
{
	struct console *c = user_data;
	ssize_t n;

	if (events & EPOLLOUT)
		flush(&c->to_qemu, c->qemu);
	if (c->to_host.len < TO_HOST_MAX && events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		n = buf_read_fd(&c->to_host, c->qemu, TO_HOST_MAX - c->to_host.len);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
			loop_source_free(steal(&c->qemu_source));
			fd_close(&c->qemu);
		}
	}
	flush(&c->to_host, host_out(c));
	watch(c);
}

static void on_host(uint32_t events, void *user_data)
{
	struct console *c = user_data;
	int fd = c->terminal ? STDIN_FILENO : c->master;
	ssize_t n;

	if (events & EPOLLOUT)
		flush(&c->to_host, c->master);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && c->to_qemu.len < TO_QEMU_MAX) {
		n = buf_read_fd(&c->to_qemu, fd, TO_QEMU_MAX - c->to_qemu.len);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
			loop_source_free(steal(&c->host_source));
			return;
		}
	}
	if (c->qemu >= 0)
		flush(&c->to_qemu, c->qemu);
	else
		c->to_qemu.len = 0;
	watch(c);
}

static int set_raw(int fd)
{
	struct termios t;

	if (tcgetattr(fd, &t) < 0)
		return -1;
	cfmakeraw(&t);
	return tcsetattr(fd, TCSANOW, &t);
}

static int open_pty(struct console *c, struct json *config, struct fault *fault)
{
	char path[64];
	int bad;

	c->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	bad = c->master < 0 || grantpt(c->master) < 0 || unlockpt(c->master) < 0;
	if (!bad && ptsname_r(c->master, path, sizeof(path)) == 0)
		c->slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (c->slave < 0 || set_raw(c->slave) < 0) {
		fault_os(fault, errno);
		return fault_wrap(fault, "Error creating console pty");
	}
	return json_set_string(config, "file", path) < 0 ? fault_nomem(fault) : CCHV_OK;
}

static int open_file(const char *path, struct fault *fault)
{
	cleanup_close int fd = -1;

	if (!path)
		return CCHV_OK; /* the check at boot names it */
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd >= 0)
		return CCHV_OK;
	fault_os(fault, errno);
	return fault_wrap(fault, "Error creating console output file '%s'", path);
}

static void open_terminal(struct console *c)
{
	c->terminal = 1;
	if (terminal_is_raw || !isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &saved_terminal) < 0)
		return;
	terminal_is_raw = set_raw(STDIN_FILENO) == 0;
}

int console_open(struct console *c, struct json *config, struct fault *fault)
{
	const char *mode = config_string(config, "mode");

	console_close(c);
	if (strcmp(mode, "Pty") == 0)
		return open_pty(c, config, fault);
	if (strcmp(mode, "File") == 0)
		return open_file(config_string(config, "file"), fault);
	if (strcmp(mode, "Tty") == 0)
		open_terminal(c);
	return CCHV_OK;
}

int console_is_open(const struct console *c)
{
	return c->master >= 0 || c->terminal;
}

char *console_quote(const char *text)
{
	char *result = mem_alloc(2 * strlen(text) + 1), *p = result;

	if (!result)
		return NULL;
	for (; *text; *p++ = *text++)
		if (*text == ',')
			*p++ = ',';
	*p = '\0';
	return result;
}

static int start_pump(struct console *c, struct fault *fault)
{
	cleanup_err cchv_error *err = NULL;
	int pair[2], r;

	if (fd_socketpair(pair) < 0)
		return fault_os(fault, errno);
	c->qemu = pair[0];
	c->qemu_child = pair[1];
	if (fd_set_nonblock(c->qemu, 1) < 0)
		return fault_os(fault, errno);
	r = loop_add(c->loop, c->qemu, EPOLLIN, on_qemu, c, &c->qemu_source, &err);
	if (r == CCHV_OK && !c->terminal)
		r = loop_add(c->loop, c->master, EPOLLIN, on_host, c, &c->host_source, &err);
	else if (r == CCHV_OK && terminal_is_raw)
		r = loop_add(c->loop, STDIN_FILENO, EPOLLIN, on_host, c, &c->host_source, &err);
	return r < 0 ? fault_from_error(fault, err) : CCHV_OK;
}

int console_add_chardev(struct console *c, const struct json *config, const char *id, struct plan *plan,
                        struct fault *fault)
{
	const char *mode = config_string(config, "mode"), *path = NULL;
	cleanup_free char *quoted = NULL;
	int r;

	if (console_is_open(c)) {
		r = start_pump(c, fault);
		if (r == CCHV_OK)
			plan_add_chardev_fd(plan, id, c->qemu_child);
		return r;
	}
	if (strcmp(mode, "File") == 0)
		path = config_string(config, "file");
	else if (strcmp(mode, "Socket") == 0)
		path = config_string(config, "socket");
	if (!path) {
		plan_add_chardev_word(plan, id, mem_printf("null,id=%s", id));
		return CCHV_OK;
	}
	quoted = console_quote(path);
	if (!quoted)
		return fault_nomem(fault);
	if (strcmp(mode, "File") == 0)
		plan_add_chardev_word(plan, id, mem_printf("file,id=%s,append=on,path=%s", id, quoted));
	else
		plan_add_chardev_word(plan, id, mem_printf("socket,id=%s,server=on,wait=off,path=%s", id, quoted));
	return CCHV_OK;
}

void console_reset(const struct json *config)
{
	/* Appended to by QEMU, so that it goes on at the new end. A file that is gone stays gone. */
	if (strcmp(config_string(config, "mode"), "File") == 0 && truncate(config_string(config, "file"), 0) < 0)
		return;
}

void console_close(struct console *c)
{
	loop_source_free(steal(&c->host_source));
	loop_source_free(steal(&c->qemu_source));
	fd_close(&c->qemu);
	fd_close(&c->qemu_child);
	fd_close(&c->master);
	fd_close(&c->slave);
	buf_free(&c->to_host);
	buf_free(&c->to_qemu);
	if (c->terminal && terminal_is_raw) {
		tcsetattr(STDIN_FILENO, TCSANOW, &saved_terminal);
		terminal_is_raw = 0;
	}
	c->terminal = 0;
}
