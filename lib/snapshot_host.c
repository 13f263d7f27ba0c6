/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host of a snapshot: see snapshot_host.h. Enters: /proc/cpuinfo, uname. Leaves: a checksum of what makes one
 * processor another. A guest has decided by its features how it works, and cannot be told that they are gone.
 */
#include "snapshot_host.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/fd.h"
#include "image/sha256.h"

#define CPUINFO_MAX 16384

struct cpu {
	char sum[SHA256_HEX_SIZE];
	char *model;
};

static int is_line(const char *line, const char *key)
{
	size_t len = strlen(key);

	return strncmp(line, key, len) == 0 && (line[len] == '\t' || line[len] == ' ' || line[len] == ':') &&
	       strspn(line + len, "\t ") == strcspn(line + len, ":");
}

int snapshot_host_cpu(const char *cpuinfo, struct buf *out)
{
	/* Neither the microcode nor what the kernel thinks of its bugs: updates of the same machine change them. */
	static const char *const keys[] = {
		"vendor_id", "cpu family", "model", "model name", "stepping", "flags",
	};
	int r = CCHV_OK;

	for (const char *line = cpuinfo; r == CCHV_OK && *line && *line != '\n';) {
		size_t len = strcspn(line, "\n");

		for (size_t i = 0; r == CCHV_OK && i < ARRAY_LEN(keys); i++)
			if (is_line(line, keys[i]))
				r = buf_printf(out, "%.*s\n", (int)len, line);
		line += len;
		line += *line == '\n';
	}
	return r;
}

/* The value of a line; "" where there is none. */
static char *value_of(const char *text, const char *key)
{
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (is_line(line, key)) {
			const char *value = strchr(line, ':') + 1;

			value += strspn(value, " \t");
			return mem_strndup(value, strcspn(value, "\n"));
		}
	return mem_strdup("");
}

static int read_cpu(struct cpu *ret, cchv_error **err)
{
	cleanup_buf struct buf cpuinfo = BUF_INIT(CPUINFO_MAX), lines = BUF_INIT(CPUINFO_MAX);
	cleanup_close int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
	struct sha256 hash;
	ssize_t n;

	/* The first processors are enough. */
	do
		n = fd < 0 || cpuinfo.len + 1 >= cpuinfo.max
		    ? 0 : buf_read_fd(&cpuinfo, fd, cpuinfo.max - 1 - cpuinfo.len);
	while (n > 0);
	if (fd < 0 || (n < 0 && errno != ENOMEM))
		return err_set(err, CCHV_ERR_SYSTEM, errno, "/proc/cpuinfo");
	if (n < 0 || !buf_string(&cpuinfo) || snapshot_host_cpu(buf_string(&cpuinfo), &lines) < 0 ||
	    !buf_string(&lines))
		return err_nomem(err);
	sha256_init(&hash);
	sha256_update(&hash, lines.data, lines.len);
	sha256_final_hex(&hash, ret->sum);
	ret->model = value_of(buf_string(&lines), "model name");
	return ret->model ? CCHV_OK : err_nomem(err);
}

int snapshot_host_describe(struct json *info, cchv_error **err)
{
	struct json *object = json_new_object();
	struct cpu cpu = { .model = NULL };
	struct utsname host;
	int r = read_cpu(&cpu, err);

	if (r == CCHV_OK && uname(&host) < 0)
		r = err_set(err, CCHV_ERR_SYSTEM, errno, "uname");
	if (r < 0) {
		json_free(object);
		free(cpu.model);
		return r;
	}
	json_set_string(object, "model", cpu.model);
	json_set_string(object, "sha256", cpu.sum);
	free(cpu.model);
	json_set(info, "cpu", object);
	return json_set_string(info, "host_kernel", host.release) < 0 ? err_nomem(err) : CCHV_OK;
}

int snapshot_host_check(const struct json *info, cchv_error **err)
{
	const char *wanted = json_as_string(json_find(info, "cpu.sha256"));
	const char *model = json_as_string(json_find(info, "cpu.model"));
	struct cpu cpu = { .model = NULL };
	int r = read_cpu(&cpu, err);

	if (r == CCHV_OK && (!wanted || strcmp(wanted, cpu.sum) != 0))
		r = err_set(err, CCHV_ERR_UNSUPPORTED, 0,
		            "it was taken on another kind of processor ('%s'), here is '%s'%s", model ? model : "?",
		            cpu.model, model && strcmp(model, cpu.model) == 0 ? " with other features" : "");
	free(cpu.model);
	return r;
}
