/* SPDX-License-Identifier: Apache-2.0 */
/* The VMM's cgroup: see cgroup.h. Enters: a path below the tree's root. Leaves: directories, a limit, an fd. */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

/* Controllers of v1 hosts, each with a tree of its own. Memory comes first: it has the limit. */
static const char *const v1_controllers[] = { "memory", "pids", "cpu" };

static int exists(const char *directory, const char *name)
{
	cleanup_free char *path = mem_printf("%s/%s", directory, name);

	return path && access(path, F_OK) == 0;
}

static int plan_dir(struct cgroup *cgroup, const char *root, const char *controller, const char *path,
                    cchv_error **err)
{
	char *dir = mem_printf("%s%s%s%s", root, controller ? "/" : "", controller ? controller : "", path);

	if (!dir)
		return err_nomem(err);
	cgroup->procs_fds[cgroup->count] = -1;
	cgroup->dirs[cgroup->count++] = dir;
	/* Each directory from the root down that is not there yet will be ours. */
	for (char *p = dir + strlen(dir) - strlen(path); p; p = strchr(p + 1, '/')) {
		char *next = strchr(p + 1, '/');
		cleanup_free char *part = next ? mem_strndup(dir, (size_t)(next - dir)) : mem_strdup(dir);

		if (!part)
			return err_nomem(err);
		if (access(part, F_OK) < 0 && errno == ENOENT &&
		    json_append(cgroup->made, json_new_string(part)) < 0)
			return err_nomem(err);
	}
	return CCHV_OK;
}

int cgroup_plan(const char *root, const char *path, struct cgroup *cgroup, cchv_error **err)
{
	int r = CCHV_OK;

	*cgroup = (struct cgroup){ .made = json_new_array() };
	if (!cgroup->made)
		return err_nomem(err);
	if (exists(root, "cgroup.controllers"))
		return plan_dir(cgroup, root, NULL, path, err);
	for (size_t i = 0; i < ARRAY_LEN(v1_controllers) && r == CCHV_OK; i++)
		if (exists(root, v1_controllers[i]))
			r = plan_dir(cgroup, root, v1_controllers[i], path, err);
	return r;
}

/* Is it one of "one,two:"? */
static int is_listed(const char *names, const char *name)
{
	for (; *names && *names != ':'; names += *names == ',') {
		size_t len = strcspn(names, ",:");

		if (len == strlen(name) && strncmp(names, name, len) == 0)
			return 1;
		names += len;
	}
	return 0;
}

/* Ours in the tree of the v1 memory controller, from lines such as "4:memory,hugetlb:/one/two"; "" for its root. */
static char *own_memory_path(const char *self)
{
	for (const char *line = self; line && *line;) {
		const char *end = line + strcspn(line, "\n"), *names = strchr(line, ':');
		const char *path = names ? strchr(names + 1, ':') : NULL;

		if (path && path < end && is_listed(names + 1, "memory"))
			return mem_strndup(path + 1, path[2] == '\n' || !path[2] ? 0 : (size_t)(end - path - 1));
		line = *end ? end + 1 : NULL;
	}
	return mem_strdup("");
}

int cgroup_plan_usual(const char *root, const char *self, const char *id, struct cgroup *cgroup, cchv_error **err)
{
	cleanup_free char *own = own_memory_path(self), *below = NULL, *path = NULL, *tree = NULL;
	int v2 = exists(root, "cgroup.controllers");

	*cgroup = (struct cgroup){ .made = json_new_array(), .usual = 1 };
	if (!cgroup->made || !own)
		return err_nomem(err);
	if (!v2 && !exists(root, "memory"))
		return CCHV_OK;
	/* In a container the tree may begin at our own place, and its path be that on the host. */
	tree = mem_printf("%s/memory", root);
	below = tree && !v2 && exists(tree, own + (*own == '/')) ? mem_strdup(own) : mem_strdup("");
	path = below ? mem_printf("%s/cchv-%s", below, id) : NULL;
	return path ? plan_dir(cgroup, root, v2 ? NULL : "memory", path, err) : err_nomem(err);
}

static int write_text(const char *directory, const char *name, const char *text)
{
	cleanup_free char *path = mem_printf("%s/%s", directory, name);
	cleanup_close int fd = path ? open(path, O_WRONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		return -1;
	return write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

static int read_text(const char *directory, const char *name, char *text, size_t room)
{
	cleanup_free char *path = mem_printf("%s/%s", directory, name);
	cleanup_close int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t n = fd < 0 ? -1 : read(fd, text, room - 1);

	if (n < 0)
		return -1;
	text[n] = '\0';
	return 0;
}

/* "key number" in a file of such lines. */
static uint64_t read_key(const char *directory, const char *name, const char *key)
{
	size_t len = strlen(key);
	char text[4096];

	if (read_text(directory, name, text, sizeof(text)) < 0)
		return 0;
	for (char *line = text; line && *line;) {
		char *next = strchr(line, '\n');

		if (strncmp(line, key, len) == 0 && line[len] == ' ')
			return strtoull(line + len + 1, NULL, 10);
		line = next ? next + 1 : NULL;
	}
	return 0;
}

static uint64_t oom_kills(const struct cgroup *cgroup)
{
	uint64_t v2;

	if (!cgroup->count)
		return 0;
	v2 = read_key(cgroup->dirs[0], "memory.events", "oom_kill");
	return v2 ? v2 : read_key(cgroup->dirs[0], "memory.oom_control", "oom_kill");
}

/* In the v2 tree a controller must be passed down by each parent. */
static void pass_down(const char *directory, const char *root_end)
{
	cleanup_free char *copy = mem_strdup(directory);

	if (!copy)
		return;
	for (char *p = copy + (root_end - directory); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		/* One by one: a kernel without one of them would refuse all. */
		write_text(copy, "cgroup.subtree_control", "+memory");
		write_text(copy, "cgroup.subtree_control", "+pids");
		write_text(copy, "cgroup.subtree_control", "+cpu");
		*p = '/';
	}
}

static int set_limit(const char *directory, uint64_t limit)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)limit);
	if (write_text(directory, "memory.max", text) == 0)
		return 0;
	return write_text(directory, "memory.limit_in_bytes", text);
}

static int open_procs(const char *directory)
{
	cleanup_free char *path = mem_printf("%s/cgroup.procs", directory);

	return path ? open(path, O_WRONLY | O_CLOEXEC) : -1;
}

static int level(const struct cgroup *cgroup)
{
	return cgroup->usual ? CCHV_LOG_INFO : CCHV_LOG_WARNING;
}

void cgroup_set_limit(struct cgroup *cgroup, uint64_t memory_limit, const struct log_sink *log)
{
	if (cgroup->count && set_limit(cgroup->dirs[0], memory_limit) < 0)
		log_write(log, level(cgroup), "cgroup %s: no memory limit: %s", cgroup->dirs[0], strerror(errno));
}

void cgroup_make(struct cgroup *cgroup, uint64_t memory_limit, const struct log_sink *log)
{
	for (size_t i = 0; i < json_count(cgroup->made); i++) {
		const char *dir = json_as_string(json_at(cgroup->made, i));

		if (mkdir(dir, 0755) < 0 && errno != EEXIST)
			log_write(log, level(cgroup), "cgroup %s: %s; the VMM stays where it is", dir,
			          strerror(errno));
	}
	for (size_t i = 0; i < cgroup->count; i++) {
		const char *dir = cgroup->dirs[i], *below = dir + strlen("/sys/fs/cgroup");

		if (strncmp(dir, "/sys/fs/cgroup/", 15) == 0)
			pass_down(dir, below);
		cgroup->procs_fds[i] = open_procs(dir);
		if (cgroup->procs_fds[i] < 0)
			log_write(log, level(cgroup), "cgroup %s: %s", dir, strerror(errno));
	}
	cgroup_set_limit(cgroup, memory_limit, log);
	cgroup->oom_kills = oom_kills(cgroup);
}

int cgroup_adopt(const char *directory, const struct json *made, struct cgroup *cgroup, cchv_error **err)
{
	*cgroup = (struct cgroup){ .made = made ? json_copy(made) : json_new_array() };
	cgroup->dirs[0] = directory ? mem_strdup(directory) : NULL;
	if (!cgroup->made || (directory && !cgroup->dirs[0]))
		return err_nomem(err);
	cgroup->procs_fds[0] = -1;
	cgroup->count = directory != NULL;
	cgroup->oom_kills = oom_kills(cgroup);
	return CCHV_OK;
}

void cgroup_close_procs(struct cgroup *cgroup)
{
	for (size_t i = 0; i < cgroup->count; i++)
		fd_close(&cgroup->procs_fds[i]);
}

int cgroup_had_oom(const struct cgroup *cgroup)
{
	return oom_kills(cgroup) > cgroup->oom_kills;
}

/* Who is in the VM's own cgroup when the VM has ended was started by its VMM. */
static void kill_members(const char *dir)
{
	char text[4096], *next;

	if (read_text(dir, "cgroup.procs", text, sizeof(text)) < 0)
		return;
	for (char *word = text; *word; word = next) {
		long pid = strtol(word, &next, 10);

		if (next == word)
			break;
		/* 0 is somebody of another namespace. */
		if (pid > 0 && pid != getpid())
			kill((pid_t)pid, SIGKILL);
	}
}

static int remove_dir(const char *dir, uint64_t deadline)
{
	while (rmdir(dir) < 0) {
		/* A tree that cannot be written to refuses even what is not there. */
		if (errno == ENOENT || (access(dir, F_OK) < 0 && errno == ENOENT))
			return 0;
		/* A process that has ended leaves its cgroup a moment later, and no descriptor tells when. */
		if (errno != EBUSY || clock_passed(deadline))
			return -1;
		kill_members(dir);
		poll(NULL, 0, 5);
	}
	return 0;
}

int cgroup_remove(const struct json *made, cchv_error **err)
{
	uint64_t deadline = clock_deadline(1000);
	int r = CCHV_OK;

	for (size_t i = json_count(made); i > 0; i--) {
		const char *dir = json_as_string(json_at(made, i - 1));

		if (dir && strncmp(dir, "/", 1) == 0 && remove_dir(dir, deadline) < 0 && r == CCHV_OK)
			r = err_set(err, CCHV_ERR_SYSTEM, errno, "cgroup %s", dir);
	}
	return r;
}

void cgroup_free(struct cgroup *cgroup)
{
	cgroup_close_procs(cgroup);
	for (size_t i = 0; i < cgroup->count; i++)
		free(cgroup->dirs[i]);
	json_free(cgroup->made);
	*cgroup = (struct cgroup){ 0 };
}
