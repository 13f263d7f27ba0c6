/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts as descriptors: see mount_fd.h. Enters: names of file systems and options. Leaves: mounts. */
#include "guest/mount_fd.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

/* The error of a context: its errno, and the kernel's own words where there are some. */
static int context_error(int context, const char *name, const char *what, cchv_error **err)
{
	int number = errno;
	char text[256];
	ssize_t n = read(context, text, sizeof(text) - 1);

	/* "e tmpfs: Bad value for 'size'": a letter for the level first */
	if (n > 2 && text[1] == ' ') {
		text[n] = '\0';
		text[strcspn(text, "\n")] = '\0';
		return err_set(err, err_code_of_errno(number), number, "%s: %s", name, text + 2);
	}
	return err_set(err, err_code_of_errno(number), number, "%s: %s", name, what);
}

static int set_word(int context, const char *word, const char *name, cchv_error **err)
{
	const char *equals = strchr(word, '=');
	cleanup_free char *key = mem_strndup(word, equals ? (size_t)(equals - word) : strlen(word));
	int r;

	if (!key)
		return err_nomem(err);
	if (equals)
		r = fsconfig(context, FSCONFIG_SET_STRING, key, equals + 1, 0);
	else
		r = fsconfig(context, FSCONFIG_SET_FLAG, key, NULL, 0);
	return r < 0 ? context_error(context, name, word, err) : CCHV_OK;
}

static int set_words(int context, const struct words *words, const char *name, cchv_error **err)
{
	int r = CCHV_OK;

	for (size_t i = 0; r == CCHV_OK && i < words->count; i++)
		r = set_word(context, words->items[i], name, err);
	return r;
}

/* Make what a context describes. */
static int create(int context, uint64_t attributes, const char *name, cchv_error **err)
{
	int fd;

	if (fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return context_error(context, name, "cannot be mounted", err);
	fd = fsmount(context, FSMOUNT_CLOEXEC, (unsigned int)attributes);
	return fd < 0 ? context_error(context, name, "cannot be mounted", err) : fd;
}

static int open_context(const char *type, const char *source, const char *name, cchv_error **err)
{
	cleanup_close int context = fsopen(type, FSOPEN_CLOEXEC);

	if (context < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "%s: file system '%s'", name, type);
	if (source && *source && fsconfig(context, FSCONFIG_SET_STRING, "source", source, 0) < 0)
		return context_error(context, name, source, err);
	return fd_steal(&context);
}

/* A wish: file systems that do not know the word, or the disk's lack of it, are no reason not to mount. */
static void wish_discard(int context)
{
	char text[256];

	/* What it says against it must not be taken for the reason of a later failure. */
	if (fsconfig(context, FSCONFIG_SET_FLAG, "discard", NULL, 0) < 0)
		while (read(context, text, sizeof(text)) > 0)
			;
}

int mount_fd_new(const char *type, const char *source, const struct mount_options *options, const char *name,
                 cchv_error **err)
{
	cleanup_close int context = open_context(type, source, name, err);
	int r = CCHV_OK;

	if (context < 0)
		return context;
	if (!options)
		return create(context, 0, name, err);
	if (options->sb_readonly && fsconfig(context, FSCONFIG_SET_FLAG, "ro", NULL, 0) < 0)
		return context_error(context, name, "ro", err);
	/* Before the words of the specification: "nodiscard" among them wins. */
	if (options->discard)
		wish_discard(context);
	r = set_words(context, &options->sb_flags, name, err);
	if (r == CCHV_OK)
		r = set_words(context, &options->data, name, err);
	return r < 0 ? r : create(context, options->attr_set, name, err);
}

int mount_fd_new_words(const char *type, const char *source, const char *const *words, const char *name,
                       cchv_error **err)
{
	cleanup_close int context = open_context(type, source, name, err);
	int r = CCHV_OK;

	if (context < 0)
		return context;
	for (; r == CCHV_OK && *words; words++)
		r = set_word(context, *words, name, err);
	return r < 0 ? r : create(context, 0, name, err);
}

int mount_fd_bind(int fd, int recursive, const char *name, cchv_error **err)
{
	unsigned int flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH;
	int mount_fd = open_tree(fd, "", flags | (recursive ? AT_RECURSIVE : 0));

	if (mount_fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "%s: bind", name);
	return mount_fd;
}

int mount_fd_set(int mount_fd, uint64_t set, uint64_t clear, uint64_t propagation, int recursive,
                 const char *name, cchv_error **err)
{
	struct mount_attr attr = { .attr_set = set, .attr_clr = clear, .propagation = propagation };

	if (!set && !clear && !propagation)
		return CCHV_OK;
	/* The kinds of atime are one field: to set one means to clear the field. */
	if (set & MOUNT_ATTR__ATIME)
		attr.attr_clr |= MOUNT_ATTR__ATIME;
	if (mount_setattr(mount_fd, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0), &attr, sizeof(attr)) <
	    0)
		return err_set(err, err_code_of_errno(errno), errno, "%s: attributes", name);
	return CCHV_OK;
}

int mount_fd_set_options(int mount_fd, const struct mount_options *o, const char *name, cchv_error **err)
{
	int r = mount_fd_set(mount_fd, o->attr_set, o->attr_clear, 0, 0, name, err);

	if (r == CCHV_OK)
		r = mount_fd_set(mount_fd, o->rec_set, o->rec_clear, 0, 1, name, err);
	if (r == CCHV_OK)
		r = mount_fd_set(mount_fd, 0, 0, o->propagation, o->propagation_recursive, name, err);
	return r;
}

int mount_fd_attach(int mount_fd, int target_fd, const char *name, cchv_error **err)
{
	if (move_mount(mount_fd, "", target_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "%s: attach", name);
	return CCHV_OK;
}
