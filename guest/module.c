/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel modules: see module.h. Enters: aliases of devices, names that the kernel asks for. Leaves: loaded modules.
 * On demand, because each module costs memory in every VM, and time in every start.
 */
#include "guest/module.h"

#include "base/fd.h"
#include "base/path.h"
#include "guest/worker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DIRECTORY "/modules"
#define INDEX_MAX ((size_t)1 << 20)
#define ALIAS_MAX 1024

/* The text of the index, kept: a hot-plug should not have to read it. */
static char *index_text;

static const char *get_index(void)
{
	struct buf text = BUF_INIT(INDEX_MAX);

	if (!index_text && path_read_file(DIRECTORY "/index", &text, NULL) >= 0)
		index_text = buf_take_string(&text);
	buf_free(&text);
	return index_text ? index_text : "";
}

struct row {
	char name[64];
	char stage[8];
	char dependencies[512];
	const char *aliases; /* up to the end of the line */
	size_t aliases_len;
};

/* The next row of the index; 0 at its end. Lines that make no sense are skipped. */
static int next_row(const char **position, struct row *row)
{
	while (**position) {
		const char *line = *position, *end = strchrnul(line, '\n');
		int used = 0;

		*position = *end ? end + 1 : end;
		if (sscanf(line, "%63s %7s %511s%n", row->name, row->stage, row->dependencies, &used) == 3 &&
		    line + used <= end) {
			row->aliases = line + used;
			row->aliases_len = (size_t)(end - row->aliases);
			return 1;
		}
	}
	return 0;
}

/* In module names, a dash and an underscore are the same. */
static int same_name(const char *a, const char *b)
{
	for (; *a && *b; a++, b++)
		if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_')))
			return 0;
	return *a == *b;
}

static int row_matches(const struct row *row, const char *alias)
{
	const char *p = row->aliases, *end = row->aliases + row->aliases_len;

	if (same_name(row->name, alias))
		return 1;
	while (p < end) {
		char pattern[256];
		size_t len;

		p += strspn(p, " ");
		len = strcspn(p, " \n");
		if (p >= end || len == 0)
			break;
		if (len < sizeof(pattern)) {
			memcpy(pattern, p, len);
			pattern[len] = '\0';
			if (fnmatch(pattern, alias, 0) == 0)
				return 1;
		}
		p += len;
	}
	return 0;
}

static int is_loaded(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/module/%s", name);
	for (char *p = path + strlen("/sys/module/"); *p; p++)
		if (*p == '-')
			*p = '_';
	return access(path, F_OK) == 0;
}

static int load_one(const char *name)
{
	cleanup_close int fd = -1;
	char path[128];

	snprintf(path, sizeof(path), DIRECTORY "/%s.ko", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST)
		return -errno;
	return 0;
}

static int load_row(const struct row *row)
{
	char names[sizeof(row->dependencies)], *save = NULL;
	int r = 0;

	strcpy(names, row->dependencies);
	for (char *n = strtok_r(names, ",", &save); n && r == 0; n = strtok_r(NULL, ",", &save)) {
		if (strcmp(n, "-") != 0 && !is_loaded(n))
			r = load_one(n);
		/* A driver for instructions that this processor lacks: others do its work, more slowly. */
		if (r == -ENODEV)
			r = 0;
	}
	return r < 0 ? r : load_one(row->name);
}

void module_load_boot(const struct log_sink *log)
{
	const char *position = get_index();
	struct row row;

	while (next_row(&position, &row)) {
		int r = strcmp(row.stage, "boot") == 0 ? load_row(&row) : 0;

		if (r < 0)
			log_error(log, "module '%s': %s", row.name, err_errno_name(-r));
	}
}

void module_load_all(void)
{
	const char *position = get_index();
	struct row row;

	while (next_row(&position, &row))
		load_row(&row);
}

int module_load_alias(const char *alias)
{
	const char *position = get_index();
	struct row row;
	int count = 0, failure = 0;

	while (next_row(&position, &row)) {
		int r;

		if (!row_matches(&row, alias))
			continue;
		r = load_row(&row);
		if (r < 0)
			failure = r;
		else
			count++;
	}
	return count ? count : failure;
}

static void load_modalias_file(int directory, const char *device)
{
	char path[320], alias[ALIAS_MAX];
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/modalias", device);
	fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, alias, sizeof(alias) - 1);
	if (n <= 0)
		return;
	alias[n] = '\0';
	alias[strcspn(alias, "\n")] = '\0';
	module_load_alias(alias);
}

static void coldplug_bus(const char *bus)
{
	char path[64];
	struct dirent *entry;
	DIR *directory;

	snprintf(path, sizeof(path), "/sys/bus/%s/devices", bus);
	directory = opendir(path);
	while (directory && (entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			load_modalias_file(dirfd(directory), entry->d_name);
	if (directory)
		closedir(directory);
}

static int coldplug(void *arg, struct json **ret_result, const char **kind, cchv_error **err)
{
	/* In the order in which containers need them. */
	static const char *const buses[] = { "virtio", "nd", "pci", "acpi", "platform" };

	for (size_t i = 0; i < ARRAY_LEN(buses); i++)
		coldplug_bus(buses[i]);
	return CCHV_OK;
}

static int hotplug(void *arg, struct json **ret_result, const char **kind, cchv_error **err)
{
	int r = module_load_alias(arg);

	return r < 0 ? fail(kind, err, "device", -r, "driver for '%s'", (const char *)arg) : CCHV_OK;
}

static void done(struct agent *agent, void *user_data, int r, struct json *result, const char *kind,
                 cchv_error *err)
{
	if (r < 0)
		log_error(&agent->log, "modules: %s", cchv_error_message(err));
	json_free(result);
	cchv_error_free(err);
}

int module_coldplug(struct agent *agent, cchv_error **err)
{
	if (!*get_index())
		return CCHV_OK;
	return worker_start(agent, coldplug, NULL, -1, done, NULL, err);
}

void module_hotplug(struct agent *agent, const char *alias)
{
	const char *position = get_index();
	cleanup_err cchv_error *err = NULL;
	struct row row;

	while (next_row(&position, &row)) {
		if (is_loaded(row.name) || !row_matches(&row, alias))
			continue;
		if (worker_start(agent, hotplug, (void *)alias, -1, done, NULL, &err) < 0)
			log_error(&agent->log, "modules: %s", cchv_error_message(err));
		return;
	}
}

int module_is_helper(const char *argv0)
{
	const char *slash = strrchr(argv0, '/');

	return strcmp(slash ? slash + 1 : argv0, "modprobe") == 0;
}

int module_helper(int argc, char **argv)
{
	/* modprobe -q -- NAME */
	return argc < 2 || module_load_alias(argv[argc - 1]) <= 0;
}
