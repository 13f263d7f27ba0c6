/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm.online. Enters: the size that the host has plugged, or asked back. Leaves: just those processors running, memory
 * that is there, and the kernel's settings as if it had been booted so. A worker does it: bringing up a processor stops
 * all others a while.
 */
#include "guest/vm.h"

#include "base/clock.h"
#include "base/fd.h"
#include "guest/meminfo.h"
#include "guest/scale.h"
#include "guest/uevent.h"
#include "guest/worker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS 5000
/* Memory grows without a uevent of its own while virtio-mem fills a block. */
#define LOOK_AGAIN_MS 50
#define CPU_DIRECTORY "/sys/devices/system/cpu"

struct wanted {
	uint64_t vcpus, memory_bytes;
};

static unsigned int cpus_online(void)
{
	char text[256];

	return meminfo_read_file(CPU_DIRECTORY "/online", text, sizeof(text)) > 0 ? meminfo_count_cpus(text) : 0;
}

/* Every processor that is there and off. The first that fails is remembered; others may still work. */
static int online_cpus(uint64_t wanted)
{
	unsigned int running = cpus_online();
	struct dirent *entry;
	int error_number = 0;
	DIR *directory;

	if (running >= wanted)
		return 0;
	directory = opendir(CPU_DIRECTORY);
	while (directory && running < wanted && (entry = readdir(directory))) {
		cleanup_close int fd = -1;
		char path[300], now = '1';
		unsigned int number;

		if (sscanf(entry->d_name, "cpu%u", &number) != 1)
			continue;
		snprintf(path, sizeof(path), "%s/online", entry->d_name);
		fd = openat(dirfd(directory), path, O_RDWR | O_CLOEXEC);
		if (fd < 0 || read(fd, &now, 1) != 1 || now != '0')
			continue;
		if (pwrite(fd, "1", 1, 0) < 0)
			error_number = errno;
		else
			running++;
	}
	if (directory)
		closedir(directory);
	return error_number;
}

static int look(const struct wanted *w, struct wanted *now)
{
	now->vcpus = cpus_online();
	now->memory_bytes = scale_memory();
	/* The kernel lets a processor go by itself, some time after the VMM has asked: the VMM cannot tell when. */
	return (!w->vcpus || now->vcpus == w->vcpus) && now->memory_bytes >= w->memory_bytes;
}

static struct json *describe(const struct wanted *now)
{
	struct json *result = json_new_object();

	json_set_u64(result, "vcpus", now->vcpus);
	json_set_u64(result, "memory_bytes", now->memory_bytes);
	return result;
}

static int online(void *arg, struct json **ret_result, const char **kind, cchv_error **err)
{
	const struct wanted *w = arg;
	cleanup_close int events = uevent_open();
	uint64_t deadline = clock_deadline(TIMEOUT_MS);
	struct wanted now;
	int error_number;

	if (events < 0)
		return fail(kind, err, "other", errno, "listen to uevents");
	for (;;) {
		uint64_t soon = clock_deadline(LOOK_AGAIN_MS);

		error_number = online_cpus(w->vcpus);
		if (look(w, &now))
			break;
		if (clock_passed(deadline))
			return fail(kind, err, "device", error_number ? error_number : ETIMEDOUT,
			            "%llu processors for %llu wanted, %llu of %llu bytes of memory",
			            (unsigned long long)now.vcpus, (unsigned long long)w->vcpus,
			            (unsigned long long)now.memory_bytes,
			            (unsigned long long)w->memory_bytes);
		uevent_wait(events, soon < deadline ? soon : deadline);
	}
	*ret_result = describe(&now);
	return CCHV_OK;
}

static void done(struct agent *agent, void *user_data, int r, struct json *result, const char *kind,
                 cchv_error *err)
{
	/* Not in the worker: limits are inherited from the agent. What did come up counts, even after an error. */
	if (agent->is_init)
		scale_apply(&agent->log);
	ticket_done(agent, user_data, r, result, kind, err);
}

int vm_online(struct agent *agent, const struct json *params, struct reply *reply)
{
	struct wanted w = { 0 }, now;
	struct ticket *ticket;
	int r = json_get_u64(params, "vcpus", &w.vcpus, &reply->err);

	if (r >= 0)
		r = json_get_u64(params, "memory_bytes", &w.memory_bytes, &reply->err);
	if (r < 0)
		return r;
	/* What is there already needs no worker, whose fork a clone would pay for with copies of pages. */
	if (look(&w, &now)) {
		if (agent->is_init)
			scale_apply(&agent->log);
		reply->result = describe(&now);
		return CCHV_OK;
	}
	ticket = reply_defer(reply);
	r = worker_start(agent, online, &w, -1, done, ticket, &reply->err);
	return r < 0 ? r : REPLY_LATER;
}
