/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's identity: see vm.h. Enters: what only the host knows: entropy, time, names. Leaves: a guest that is
 * not its template's twin. The random pool comes first, since all else may draw from it.
 */
#include "guest/vm.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "guest/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <linux/random.h>

#define RANDOM_MIN 32
#define RANDOM_MAX 512

static int credit_random(const void *data, size_t len, struct reply *reply)
{
	cleanup_free struct rand_pool_info *info = mem_zalloc(sizeof(*info) + RANDOM_MAX);
	cleanup_close int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);

	if (!info)
		return err_nomem(&reply->err);
	if (fd < 0)
		return fail(&reply->kind, &reply->err, "other", errno, "open /dev/urandom");
	info->entropy_count = (int)len * 8;
	info->buf_size = (int)len;
	memcpy(info->buf, data, len);
	if (ioctl(fd, RNDADDENTROPY, info) < 0)
		return fail(&reply->kind, &reply->err, "other", errno, "credit the random pool");
	/* Without it, clones of one template would draw the same bytes until the pool's own next reseed. */
	if (ioctl(fd, RNDRESEEDCRNG) < 0)
		return fail(&reply->kind, &reply->err, "other", errno, "reseed the random generator");
	return CCHV_OK;
}

static int set_clock(uint64_t time_ns, struct reply *reply)
{
	struct timespec now = { .tv_sec = (time_t)(time_ns / NS_PER_S), .tv_nsec = (long)(time_ns % NS_PER_S) };
	uint64_t mine = clock_real_ns();

	/* The message took its time to come here: a clock that is right must not go back for that. */
	if (mine >= time_ns && mine - time_ns < NS_PER_S)
		return CCHV_OK;
	if (clock_settime(CLOCK_REALTIME, &now) < 0)
		return fail(&reply->kind, &reply->err, "other", errno, "set the clock");
	return CCHV_OK;
}

static int set_hostname(const char *name, struct reply *reply)
{
	if (sethostname(name, strlen(name)) < 0)
		return fail(&reply->kind, &reply->err, "other", errno, "set the hostname");
	return CCHV_OK;
}

/* 32 hexadecimal digits, as machine-id(5) says. */
static int set_machine_id(const char *id, struct reply *reply)
{
	cleanup_free char *line = NULL;
	int r;

	if (strlen(id) != 32 || strspn(id, "0123456789abcdef") != 32)
		return fail(&reply->kind, &reply->err, "method", EINVAL, "'machine_id' is not 32 hexadecimal digits");
	line = mem_printf("%s\n", id);
	if (!line)
		return err_nomem(&reply->err);
	r = path_make_dirs("/etc", 0755, &reply->err);
	return r < 0 ? r : path_write_atomic("/etc/machine-id", line, strlen(line), 0444, &reply->err);
}

/* All is checked before anything is changed. */
struct identity {
	char *random;
	size_t random_len;
	uint64_t time_ns;
	const char *hostname, *machine_id;
	int has_time;
};

static int parse(const struct json *params, struct identity *id, struct reply *reply)
{
	int r = json_get_bytes(params, "random", &id->random, &id->random_len, &reply->err);

	if (r < 0)
		return r;
	if (r == 0 || id->random_len < RANDOM_MIN || id->random_len > RANDOM_MAX)
		return fail(&reply->kind, &reply->err, "method", EINVAL, "'random' is not %d to %d bytes", RANDOM_MIN,
		            RANDOM_MAX);
	id->has_time = json_get_u64(params, "time_ns", &id->time_ns, &reply->err);
	if (id->has_time < 0)
		return id->has_time;
	r = json_get_string(params, "hostname", &id->hostname, &reply->err);
	if (r >= 0)
		r = json_get_string(params, "machine_id", &id->machine_id, &reply->err);
	return r < 0 ? r : CCHV_OK;
}

static int apply(const struct identity *id, struct reply *reply)
{
	int r = credit_random(id->random, id->random_len, reply);

	if (r == 0 && id->has_time)
		r = set_clock(id->time_ns, reply);
	if (r == 0 && id->hostname)
		r = set_hostname(id->hostname, reply);
	if (r == 0 && id->machine_id)
		r = set_machine_id(id->machine_id, reply);
	return r;
}

/*
 * The kernel draws its boot id when it is read for the first time. Nobody reads it before the random pool is the
 * guest's own, so that clones of one template have boot ids of their own, and everybody in them sees the same one.
 */
static int read_boot_id(struct agent *agent, struct reply *reply)
{
	cleanup_close int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char text[sizeof(agent->boot_id)];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return fail(&reply->kind, &reply->err, "other", n < 0 ? errno : EIO, "read the boot id");
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	memcpy(agent->boot_id, text, sizeof(text));
	return CCHV_OK;
}

int vm_configure(struct agent *agent, const struct json *params, struct reply *reply)
{
	struct identity id = { 0 };
	int r = parse(params, &id, reply);

	/* The test build leaves the machine that it runs on alone. */
	if (r == 0 && agent->is_init)
		r = apply(&id, reply);
	if (id.random)
		explicit_bzero(id.random, id.random_len);
	free(id.random);
	if (r == 0 && !agent->boot_id[0])
		r = read_boot_id(agent, reply);
	if (r < 0)
		return r;
	agent->configured = 1;
	reply->result = json_new_object();
	json_set_string(reply->result, "boot_id", agent->boot_id);
	return CCHV_OK;
}

static int sync_all(void *arg, struct json **ret_result, const char **kind, cchv_error **err)
{
	sync();
	return CCHV_OK;
}

int vm_sync(struct agent *agent, const struct json *params, struct reply *reply)
{
	return worker_reply(agent, reply, sync_all, NULL, -1);
}
