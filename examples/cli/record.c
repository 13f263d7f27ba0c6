/* SPDX-License-Identifier: Apache-2.0 */
/* A container's record: see record.h. Enters: files of the state directory. Leaves: records with their
 * status. */
#include "record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "document.h"

char *record_path(cchv_ctx *ctx, const char *id, const char *file)
{
	return xprintf("%s/containers/%s%s%s", cchv_ctx_get_state_dir(ctx), id, file ? "/" : "",
		       file ? file : "");
}

const char *status_name(enum status status)
{
	static const char *const names[] = { "created", "running", "paused", "exited" };

	return names[status];
}

int record_exit_status(const struct record *record)
{
	if (record->exit_signal)
		return 128 + record->exit_signal;
	return record->exit_code >= 0 ? record->exit_code : 137;
}

void record_free(struct record *r)
{
	if (!r)
		return;
	free(r->id);
	free(r->name);
	free(r->image);
	free(r->image_digest);
	free(r->image_path);
	free(r->command);
	free(r->stop_signal);
	free(r->snapshot);
	free(r->snapshot_id);
	free(r->reason);
	strings_free(&r->words);
	free(r);
}

void records_free(struct records *records)
{
	for (size_t i = 0; i < records->count; i++)
		record_free(records->items[i]);
	free(records->items);
	records->items = NULL;
	records->count = 0;
}

static char *copy_of(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

static struct record *parse(const char *id, yajl_val tree)
{
	struct record *r = xalloc(sizeof(*r));

	r->id = xstrdup(id);
	r->name = xstrdup(document_string(tree, "name") ?: id);
	r->image = xstrdup(document_string(tree, "image") ?: "");
	r->image_digest = xstrdup(document_string(tree, "image_digest") ?: "");
	r->image_path = copy_of(document_string(tree, "image_path"));
	r->command = xstrdup(document_string(tree, "command") ?: "");
	r->created_ns = document_u64(tree, "created_ns", 0);
	r->started_ns = document_u64(tree, "started_ns", 0);
	r->remove = document_bool(tree, "remove");
	r->from_run = document_bool(tree, "from_run");
	r->tty = document_bool(tree, "tty");
	r->interactive = document_bool(tree, "interactive");
	r->stop_signal = copy_of(document_string(tree, "stop_signal"));
	r->snapshot = copy_of(document_string(tree, "snapshot"));
	r->snapshot_id = copy_of(document_string(tree, "snapshot_id"));
	r->exit_code = -1;
	document_strings(tree, "words", &r->words);
	return r;
}

/* 1: read; 0: no such record (or one that is just being made or removed); -1 after an error line. */
static int load(cchv_ctx *ctx, const char *id, struct record **ret_record)
{
	char *path = record_path(ctx, id, "record.json");
	yajl_val tree = document_read_file(path);
	int r = 1;

	if (!tree && (errno == ENOENT || errno == ENOTDIR)) {
		r = 0;
	} else if (!tree) {
		fail("container '%s': %s: %m", id, path);
		r = -1;
	} else {
		*ret_record = parse(id, tree);
	}
	yajl_tree_free(tree);
	free(path);
	return r;
}

int record_read_file(const char *path, const char *id, struct record **ret_record)
{
	yajl_val tree = document_read_file(path);

	if (!tree)
		return fail("'%s': %m", path);
	*ret_record = parse(id, tree);
	yajl_tree_free(tree);
	return 0;
}

static void read_end(cchv_ctx *ctx, struct record *r)
{
	char *path = record_path(ctx, r->id, "exit.json");
	yajl_val tree = document_read_file(path);

	if (tree) {
		r->status = STATUS_EXITED;
		r->exit_code = (int)document_u64(tree, "exit_code", (uint64_t)-1);
		r->exit_signal = (int)document_u64(tree, "signal", 0);
		r->finished_ns = document_u64(tree, "time_ns", 0);
		r->oom_killed = document_bool(tree, "oom");
		free(r->reason);
		r->reason = copy_of(document_string(tree, "reason"));
	}
	yajl_tree_free(tree);
	free(path);
}

/* 1 when the VM lives; sets running or paused. */
static int ask_vm(cchv_ctx *ctx, struct record *r)
{
	cchv_vm *vm = NULL;
	int state;

	if (cchv_vm_open(ctx, r->id, &vm, NULL) < 0)
		return 0;
	state = cchv_vm_get_state(vm);
	if (state == CCHV_VM_RUNNING) {
		cchv_container *c = NULL;

		r->status = STATUS_RUNNING;
		if (cchv_vm_open_container(vm, r->id, 2000, &c, NULL) == CCHV_OK &&
		    cchv_container_get_state(c) == CCHV_CONTAINER_PAUSED)
			r->status = STATUS_PAUSED;
		cchv_container_free(c);
	} else if (state == CCHV_VM_PAUSED) {
		r->status = STATUS_PAUSED;
	}
	cchv_vm_free(vm);
	return state == CCHV_VM_RUNNING || state == CCHV_VM_PAUSED;
}

void record_look_up_status(cchv_ctx *ctx, struct record *r)
{
	r->status = r->started_ns ? STATUS_EXITED : STATUS_CREATED;
	read_end(ctx, r);
	/* An end that is known counts, also while the VM is still being taken down. */
	if (r->status == STATUS_EXITED && r->finished_ns)
		return;
	/* Whoever owns a VM writes down how its container ended: without that, the owner did not live to see it. */
	if (ask_vm(ctx, r) || r->status != STATUS_EXITED)
		return;
	/* It may have done so since. */
	read_end(ctx, r);
	if (!r->reason)
		r->reason = xstrdup("its owner died");
}

int record_read(cchv_ctx *ctx, const char *id, struct record **ret_record)
{
	int r = load(ctx, id, ret_record);

	if (r == 0)
		return fail("no container '%s'", id);
	return r < 0 ? EXIT_OURS : 0;
}

static int newest_first(const void *a, const void *b)
{
	const struct record *x = *(struct record *const *)a, *y = *(struct record *const *)b;

	return x->created_ns < y->created_ns ? 1 : x->created_ns > y->created_ns ? -1 : strcmp(x->id, y->id);
}

static int list_quietly(cchv_ctx *ctx, struct records *ret)
{
	char *path = xprintf("%s/containers", cchv_ctx_get_state_dir(ctx));
	DIR *dir = opendir(path);
	struct dirent *e;
	int r = 0;

	memset(ret, 0, sizeof(*ret));
	if (!dir && errno != ENOENT)
		r = fail("'%s': %m", path);
	while (dir && (e = readdir(dir)) != NULL) {
		struct record *record, **items;

		if (e->d_name[0] == '.' || load(ctx, e->d_name, &record) <= 0)
			continue;
		items = realloc(ret->items, (ret->count + 1) * sizeof(*items));
		if (!items)
			exit(fail("out of memory"));
		ret->items = items;
		items[ret->count++] = record;
	}
	if (dir)
		closedir(dir);
	if (ret->count)
		qsort(ret->items, ret->count, sizeof(*ret->items), newest_first);
	free(path);
	return r;
}

int record_list(cchv_ctx *ctx, struct records *ret)
{
	int r = list_quietly(ctx, ret);

	for (size_t i = 0; i < ret->count; i++)
		record_look_up_status(ctx, ret->items[i]);
	return r;
}

/* Index of the record that a user means; -1 none, -2 several. */
static int match(const struct records *all, const char *name)
{
	int found = -1;

	for (size_t i = 0; i < all->count; i++)
		if (strcmp(all->items[i]->name, name) == 0 || strcmp(all->items[i]->id, name) == 0)
			return (int)i;
	for (size_t i = 0; i < all->count; i++)
		if (*name && strncmp(all->items[i]->id, name, strlen(name)) == 0)
			found = found == -1 ? (int)i : -2;
	return found;
}

int record_find(cchv_ctx *ctx, const char *name, struct record **ret_record)
{
	struct records all;
	int r = list_quietly(ctx, &all), i;

	if (r)
		return r;
	i = match(&all, name);
	if (i >= 0) {
		*ret_record = all.items[i];
		all.items[i] = NULL;
		record_look_up_status(ctx, *ret_record);
	} else {
		r = i == -2 ? fail("container '%s': more than one id begins so", name)
			    : fail("no container '%s'", name);
	}
	records_free(&all);
	return r;
}

/* Two words for those who give no name; the id tells containers apart, the name only has to be easy to type.
 */
static char *invent_name(const struct records *all)
{
	static const char *const first[] = { "amber", "brave",  "calm",   "clever", "cosmic", "crisp",
					     "eager", "gentle", "golden", "happy",  "keen",   "lucid",
					     "merry", "noble",  "proud",  "quiet" };
	static const char *const second[] = { "badger", "beaver", "crane",  "falcon", "finch", "fox",
					      "heron",  "lynx",   "marten", "otter",  "owl",   "panda",
					      "raven",  "seal",   "swift",  "wren" };
	unsigned char b[2];
	char *name;

	for (int i = 0; i < 32; i++) {
		if (getrandom(b, sizeof(b), 0) != sizeof(b))
			break;
		name = xprintf("%s_%s", first[b[0] % 16], second[b[1] % 16]);
		if (match(all, name) < 0)
			return name;
		free(name);
	}
	return NULL;
}

static char *fresh_id(void)
{
	unsigned char b[6];

	if (getrandom(b, sizeof(b), 0) != sizeof(b))
		exit(fail("getrandom: %m"));
	return xprintf("%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4], b[5]);
}

int record_name_is_valid(const char *name)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
	size_t len = strlen(name);

	return len >= 2 && len <= 64 && strspn(name, allowed) == len && !strchr("_.-", name[0]);
}

/* The directories, and a lock on them that makes "is the name free" and "it is taken" one step. */
static int lock_containers(cchv_ctx *ctx)
{
	const char *state = cchv_ctx_get_state_dir(ctx);
	char *path = xprintf("%s/containers", state), *lock;
	int fd;

	/* Parents that are missing: each level in turn. */
	for (char *p = path + 1;; p++) {
		char kept = *p;

		if (kept != '/' && kept)
			continue;
		*p = '\0';
		if (mkdir(path, 0700) < 0 && errno != EEXIST && errno != EROFS) {
			fail("directory '%s': %m", path);
			free(path);
			return -1;
		}
		*p = kept;
		if (!kept)
			break;
	}
	lock = xprintf("%s/.lock", path);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		fail("'%s': %m", lock);
	free(lock);
	free(path);
	return fd;
}

int record_create(cchv_ctx *ctx, const char *name, int from_run, struct record **ret_record)
{
	struct record *record = xalloc(sizeof(*record));
	struct records all = { 0 };
	int lock, r;

	if (name && !record_name_is_valid(name)) {
		free(record);
		return fail("--name '%s': not 2 to 64 of [a-zA-Z0-9_.-], the first a letter or digit", name);
	}
	lock = lock_containers(ctx);
	r = lock < 0 ? EXIT_OURS : list_quietly(ctx, &all);
	record->id = fresh_id();
	record->name = name ? xstrdup(name) : invent_name(&all) ?: xstrdup(record->id);
	record->created_ns = now_ns();
	record->exit_code = -1;
	if (r == 0 && match(&all, record->name) >= 0)
		r = fail("container name '%s' is in use; remove that container first", record->name);
	if (r == 0) {
		char *path = record_path(ctx, record->id, NULL);

		if (mkdir(path, 0700) < 0)
			r = fail("directory '%s': %m", path);
		free(path);
	}
	record->from_run = from_run;
	if (r == 0 && from_run)
		r = record_hold(ctx, record);
	if (r == 0)
		r = record_save(ctx, record);
	if (lock >= 0)
		close(lock);
	records_free(&all);
	if (r == 0)
		*ret_record = record;
	else
		record_free(record);
	return r;
}

int record_save(cchv_ctx *ctx, struct record *record)
{
	char *path = record_path(ctx, record->id, "record.json");
	yajl_gen g = document_new(1);
	int r = 0;

	yajl_gen_map_open(g);
	put_string(g, "name", record->name);
	put_bytes(g, "image", record->image ?: "");
	put_string(g, "image_digest", record->image_digest ?: "");
	if (record->image_path)
		put_bytes(g, "image_path", record->image_path);
	put_bytes(g, "command", record->command ?: "");
	put_u64(g, "created_ns", record->created_ns);
	put_u64(g, "started_ns", record->started_ns);
	put_bool(g, "remove", record->remove);
	put_bool(g, "from_run", record->from_run);
	put_bool(g, "tty", record->tty);
	put_bool(g, "interactive", record->interactive);
	put_string(g, "stop_signal", record->stop_signal);
	if (record->snapshot) {
		put_bytes(g, "snapshot", record->snapshot);
		put_string(g, "snapshot_id", record->snapshot_id);
	}
	put_key(g, "words");
	yajl_gen_array_open(g);
	for (size_t i = 0; i < record->words.count; i++)
		put_bytes(g, NULL, record->words.items[i]);
	yajl_gen_array_close(g);
	yajl_gen_map_close(g);
	if (document_write_file(g, path) < 0)
		r = fail("'%s': %m", path);
	free(path);
	return r;
}

int record_open_image(cchv_ctx *ctx, const struct record *record, cchv_image **ret_image)
{
	cchv_error *err = NULL;

	if (cchv_image_open(ctx, record->image_path ?: record->image_digest, ret_image, &err) < 0)
		return fail_error(err, "container '%s'", record->name);
	return 0;
}

int record_forget_end(cchv_ctx *ctx, struct record *record)
{
	char *path = record_path(ctx, record->id, "exit.json");
	int r = 0;

	if (unlink(path) < 0 && errno != ENOENT)
		r = fail("'%s': %m", path);
	free(path);
	return r;
}
