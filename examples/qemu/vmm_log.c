/* SPDX-License-Identifier: Apache-2.0 */
/* The log: see vmm_log.h. Enters: lines with a level. Leaves: "cchv-qemu: 0.012345s: <vmm> INFO -- text". */
#include "vmm_log.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define LINE_MAX_LEN 2200

static uint64_t start_ns;
static int log_fd = STDERR_FILENO;

static void write_line(int level, const char *text, void *user_data)
{
	static const char *const names[] = { "ERROR", "WARN", "INFO", "DEBUG" };
	uint64_t us = (clock_mono_ns() - start_ns) / 1000;
	char line[LINE_MAX_LEN];
	int n;

	(void)user_data;
	n = snprintf(line, sizeof(line), "cchv-qemu: %llu.%06llus: <vmm> %s -- %s\n",
	             (unsigned long long)(us / 1000000), (unsigned long long)(us % 1000000), names[level], text);
	if (n >= (int)sizeof(line)) {
		n = sizeof(line) - 1;
		line[n - 1] = '\n';
	}
	/* A log that cannot be written has nowhere to complain. */
	if (write(log_fd, line, (size_t)n) < 0)
		return;
}

int vmm_log_open(struct log_sink *sink, const char *path, int max_level)
{
	start_ns = clock_mono_ns();
	if (path) {
		log_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
		if (log_fd < 0)
			return -1;
	}
	*sink = (struct log_sink){ .max_level = max_level, .fn = write_line, .fd = -1 };
	return 0;
}
