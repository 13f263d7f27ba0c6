/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that the host puts: see copy.h. Enters: copy.put. Leaves: directories in the guest's memory, which mounts of
 * kind "copy" bind. They may come before their container and change while it runs.
 */
#include "guest/copy.h"

#include "guest/container.h"
#include "guest/copy_tree.h"

#include "base/fd.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STORE "/run/cchv/copies"

struct copy {
	struct copy *next;
	char *container;
	char *destination;
	char *directory; /* ours */
	char *path; /* what is mounted: the directory below it, or the one file */
	int is_file;
};

/* The agent is one; so is the list. */
static struct copy *copies;

static struct copy *find(const char *container, const char *destination)
{
	for (struct copy *c = copies; c; c = c->next)
		if (strcmp(c->container, container) == 0 && strcmp(c->destination, destination) == 0)
			return c;
	return NULL;
}

const char *copy_find(const struct agent *agent, const char *container, const char *destination)
{
	const struct copy *c = find(container, destination);

	return c ? c->path : NULL;
}

void copy_each_name(const char *container, name_fn fn, void *user_data)
{
	for (struct copy *c = copies; c; c = c->next)
		if (strcmp(c->container, container) == 0)
			fn(&c->container, user_data);
}

static void copy_free(struct copy *c)
{
	free(c->container);
	free(c->destination);
	free(c->directory);
	free(c->path);
	free(c);
}

void copy_forget(struct agent *agent, const char *container)
{
	struct copy **link = &copies;

	while (*link) {
		struct copy *c = *link;
		cleanup_err cchv_error *err = NULL;

		if (container && strcmp(c->container, container) != 0) {
			link = &c->next;
			continue;
		}
		*link = c->next;
		if (path_remove_tree(c->directory, &err) < 0)
			log_error(&agent->log, "%s", cchv_error_message(err));
		copy_free(c);
	}
}

static int make_store(char **ret_directory, cchv_error **err)
{
	cleanup_free char *directory = mem_strdup(STORE "/XXXXXX");
	int r = path_make_dirs(STORE, 0700, err);

	if (r < 0)
		return r;
	if (!directory)
		return err_nomem(err);
	if (!mkdtemp(directory))
		return err_set(err, CCHV_ERR_SYSTEM, errno, "make '%s'", directory);
	*ret_directory = steal(&directory);
	return CCHV_OK;
}

static int make_copy(const char *container, const char *destination, int is_file, struct copy **ret_copy,
                     cchv_error **err)
{
	struct copy *c = mem_zalloc(sizeof(*c));
	int r = c ? make_store(&c->directory, err) : err_nomem(err);

	if (r < 0) {
		if (c)
			copy_free(c);
		return r;
	}
	c->container = mem_strdup(container);
	c->destination = mem_strdup(destination);
	c->path = mem_printf("%s/it", c->directory);
	c->is_file = is_file;
	if (!c->container || !c->destination || !c->path)
		r = err_nomem(err);
	else if (!is_file && mkdir(c->path, 0755) < 0)
		r = err_set(err, CCHV_ERR_SYSTEM, errno, "make '%s'", c->path);
	if (r < 0) {
		rmdir(c->directory);
		copy_free(c);
		return r;
	}
	*ret_copy = c;
	return CCHV_OK;
}

static int write_copy(const struct copy *c, const struct copy_list *list, cchv_error **err)
{
	cleanup_close int fd = -1;

	if (c->is_file)
		return copy_file_write(c->path, &list->entries[0], err);
	fd = open(c->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "open '%s'", c->path);
	return copy_tree_write(fd, list, err);
}

static int put(struct agent *agent, const char *container, const char *destination,
               const struct copy_list *list, const char **kind, cchv_error **err)
{
	int is_file = copy_list_is_file(list);
	struct copy *c = find(container, destination), *made = NULL;
	int r;

	if (c && c->is_file != is_file)
		return fail(kind, err, "mount", EEXIST, "'%s' is a %s", destination,
		            c->is_file ? "file" : "directory");
	if (!c) {
		r = make_copy(container, destination, is_file, &made, err);
		if (r < 0)
			return r;
		c = made;
	}
	r = write_copy(c, list, err);
	if (r == CCHV_OK && made) {
		made->next = copies;
		copies = made;
	} else if (made) {
		path_remove_tree(made->directory, NULL);
		copy_free(made);
	}
	return r;
}

int copy_put(struct agent *agent, const struct json *params, struct reply *reply)
{
	cleanup_free char *destination = NULL;
	struct copy_list list;
	const char *container;
	size_t len;
	int r = request_get_container(params, &container, reply);

	if (r < 0)
		return r;
	if (json_get_bytes(params, "destination", &destination, &len, NULL) != 1 ||
	    strlen(destination) != len || !len)
		return fail(&reply->kind, &reply->err, "mount", EINVAL, "'destination' is no path");
	reply->kind = "mount";
	r = copy_list_parse(json_get(params, "entries"), &list, &reply->err);
	if (r < 0)
		return r;
	r = put(agent, container, destination, &list, &reply->kind, &reply->err);
	copy_list_free(&list);
	return r;
}
