/* SPDX-License-Identifier: Apache-2.0 */
/* The door: see door.h. Enters: accesses. Leaves: lines of QEMU's test protocol, and what it answers. */
#include "door.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define ANSWER_TIMEOUT_MS 30000
#define LINE_LEN_MAX 128
#define NAME "door"
#define CHARDEV "doorc"

struct door {
	struct loop *loop;
	struct qmp *qmp;
	int fd;
	struct loop_source *source;
	struct buf in;
	int closed;
};

static void on_input(uint32_t events, void *user_data)
{
	struct door *door = user_data;
	ssize_t n = buf_read_fd(&door->in, door->fd, LINE_LEN_MAX);

	(void)events;
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	door->closed = 1;
	loop_source_free(steal(&door->source));
}

static int add_chardev(struct door *door, struct fault *fault)
{
	struct json *all = json_new_object(), *backend = json_edit(all, "backend", JSON_OBJECT);
	struct json *data = json_edit(backend, "data", JSON_OBJECT), *address = json_edit(data, "addr", JSON_OBJECT);

	json_set_string(all, "id", CHARDEV);
	json_set_string(backend, "type", "socket");
	json_set_bool(data, "server", 0);
	json_set_string(address, "type", "fd");
	json_set_string(json_edit(address, "data", JSON_OBJECT), "str", NAME);
	return qmp_call(door->qmp, "chardev-add", all, NULL, fault);
}

static int add_server(struct door *door, struct fault *fault)
{
	struct json *object = json_new_object();

	json_set_string(object, "qom-type", "qtest");
	json_set_string(object, "id", NAME);
	json_set_string(object, "chardev", CHARDEV);
	/* Or it writes each access to stderr. */
	json_set_string(object, "log", "/dev/null");
	return qmp_call(door->qmp, "object-add", object, NULL, fault);
}

static int connect_door(struct door *door, struct fault *fault)
{
	struct json *arguments;
	cleanup_err cchv_error *err = NULL;
	cleanup_close int theirs = -1;
	int fds[2], r;

	if (fd_socketpair(fds) < 0)
		return fault_os(fault, errno);
	door->fd = fds[0];
	theirs = fds[1];
	if (fd_set_nonblock(door->fd, 1) < 0)
		return fault_os(fault, errno);
	if (loop_add(door->loop, door->fd, EPOLLIN, on_input, door, &door->source, &err) < 0)
		return fault_from_error(fault, err);
	arguments = json_new_object();
	json_set_string(arguments, "fdname", NAME);
	r = qmp_call_fd(door->qmp, "getfd", arguments, theirs, fault);
	if (r < 0)
		return r;
	r = add_chardev(door, fault);
	return r < 0 ? r : add_server(door, fault);
}

int door_open(struct loop *loop, struct qmp *qmp, struct door **ret_door, struct fault *fault)
{
	cleanup_door struct door *door = mem_zalloc(sizeof(*door));

	if (!door)
		return fault_nomem(fault);
	door->loop = loop;
	door->qmp = qmp;
	door->fd = -1;
	door->in.max = LINE_LEN_MAX;
	if (connect_door(door, fault) < 0)
		return fault_wrap(fault, "QEMU does not let its devices be saved");
	*ret_door = steal(&door);
	return CCHV_OK;
}

void door_free(struct door *door)
{
	if (!door)
		return;
	loop_source_free(door->source);
	fd_close(&door->fd);
	buf_free(&door->in);
	free(door);
}

int door_parse_answer(const char *line, uint64_t *ret_value)
{
	char *end;

	if (strcmp(line, "OK") == 0)
		return 0;
	if (strncmp(line, "OK 0x", 5) != 0)
		return -1;
	errno = 0;
	*ret_value = strtoull(line + 3, &end, 16);
	return errno || *end || end == line + 5 ? -1 : 1;
}

static int await_line(struct door *door, struct fault *fault)
{
	uint64_t deadline = clock_deadline(ANSWER_TIMEOUT_MS);
	cleanup_err cchv_error *err = NULL;

	while (!(door->in.len && memchr(door->in.data, '\n', door->in.len))) {
		if (door->closed || clock_passed(deadline))
			return fault_set(fault, 500, "QEMU does not answer for its devices");
		if (loop_run_once(door->loop, deadline, &err) < 0)
			return fault_from_error(fault, err);
	}
	return CCHV_OK;
}

/* has_value: the answer must bring one. */
static int ask(struct door *door, const char *line, int has_value, uint64_t *ret, struct fault *fault)
{
	uint64_t value = 0;
	uint8_t *end;
	int r;

	if (fd_write_full(door->fd, line, strlen(line), clock_deadline(ANSWER_TIMEOUT_MS)) < 0)
		return fault_os(fault, errno);
	r = await_line(door, fault);
	if (r < 0)
		return r;
	end = memchr(door->in.data, '\n', door->in.len);
	*end = '\0';
	if (door_parse_answer((const char *)door->in.data, &value) != has_value)
		return fault_set(fault, 500, "QEMU answers '%s' for its devices", (const char *)door->in.data);
	buf_consume(&door->in, (size_t)(end - door->in.data) + 1);
	*ret = value;
	return CCHV_OK;
}

static char letter(unsigned int size)
{
	return size == 1 ? 'b' : size == 2 ? 'w' : size == 4 ? 'l' : 'q';
}

int door_in(struct door *door, uint16_t port, unsigned int size, uint32_t *ret, struct fault *fault)
{
	uint64_t value = 0;
	char line[64];
	int r;

	snprintf(line, sizeof(line), "in%c 0x%x\n", letter(size), port);
	r = ask(door, line, 1, &value, fault);
	*ret = (uint32_t)value;
	return r;
}

int door_out(struct door *door, uint16_t port, unsigned int size, uint32_t value, struct fault *fault)
{
	uint64_t nothing;
	char line[64];

	snprintf(line, sizeof(line), "out%c 0x%x 0x%x\n", letter(size), port, value);
	return ask(door, line, 0, &nothing, fault);
}

int door_read(struct door *door, uint64_t address, unsigned int size, uint64_t *ret, struct fault *fault)
{
	char line[64];

	snprintf(line, sizeof(line), "read%c 0x%" PRIx64 "\n", letter(size), address);
	return ask(door, line, 1, ret, fault);
}

int door_write(struct door *door, uint64_t address, unsigned int size, uint64_t value, struct fault *fault)
{
	uint64_t nothing;
	char line[96];

	snprintf(line, sizeof(line), "write%c 0x%" PRIx64 " 0x%" PRIx64 "\n", letter(size), address, value);
	return ask(door, line, 0, &nothing, fault);
}
