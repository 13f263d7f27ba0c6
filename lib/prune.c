/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pruning and listing. Enters: run directories. Leaves: only those whose owner lives. An unlocked directory is a
 * dead owner's: its processes are ended, what vm.json says was taken is given back, and then it goes itself.
 */
#include "prune.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cchv/vm.h>

#include "base/clock.h"
#include "base/export.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"
#include "cgroup.h"
#include "container_prune.h"
#include "ctx.h"
#include "image_prune.h"
#include "list.h"
#include "snapshot_store.h"
#include "template_auto.h"
#include "template_store.h"

#define KILL_MS 10000
/* A directory under its temporary name is locked at once; one that is not, for so long, has lost its maker. */
#define TEMPORARY_AGE_S 60

/* ---- processes ---- */

static int lives_in(const char *pid_text, const char *run_dir)
{
	char path[64], target[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%.20s/cwd", pid_text);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return 0;
	target[n] = '\0';
	return strcmp(target, run_dir) == 0;
}

struct residents {
	int *pidfds;
	size_t count;
};

static void residents_free(struct residents *residents)
{
	for (size_t i = 0; i < residents->count; i++)
		fd_close(&residents->pidfds[i]);
	free(residents->pidfds);
}

/* Take note of one, through a pidfd that is known to be the right process. */
static int add_resident(const char *pid_text, const char *run_dir, struct residents *residents, cchv_error **err)
{
	pid_t pid = (pid_t)strtol(pid_text, NULL, 10);
	cleanup_close int pidfd = -1;
	int *pidfds;

	if (pid == getpid())
		return CCHV_OK;
	pidfd = proc_pidfd_open(pid);
	if (pidfd < 0 || !lives_in(pid_text, run_dir))
		return CCHV_OK;
	pidfds = mem_realloc_array(residents->pidfds, residents->count + 1, sizeof(*pidfds));
	if (!pidfds)
		return err_nomem(err);
	residents->pidfds = pidfds;
	pidfds[residents->count++] = fd_steal(&pidfd);
	return CCHV_OK;
}

static int find_residents(const char *run_dir, struct residents *residents, cchv_error **err)
{
	struct dirent *entry;
	int r = CCHV_OK;
	DIR *proc;

	proc = opendir("/proc");
	if (!proc)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "/proc");
	while (r == CCHV_OK && (entry = readdir(proc)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && lives_in(entry->d_name, run_dir))
			r = add_resident(entry->d_name, run_dir, residents, err);
	closedir(proc);
	return r;
}

/*
 * All are found before the first is killed: one that dies with another has no directory any more while its last thread
 * still holds the disks, and would not be waited for.
 */
int prune_kill_residents(const char *run_dir, uint64_t deadline, cchv_error **err)
{
	cleanup_free char *real = realpath(run_dir, NULL);
	struct residents residents = { 0 };
	int r;

	if (!real)
		return CCHV_OK;
	r = find_residents(real, &residents, err);
	for (size_t i = 0; i < residents.count; i++)
		if (proc_pidfd_signal(residents.pidfds[i], SIGKILL) < 0 && errno != ESRCH)
			r = err_set(r < 0 ? NULL : err, err_code_of_errno(errno), errno, "kill a process in %s",
			            run_dir);
	for (size_t i = 0; i < residents.count && r == CCHV_OK; i++)
		if (fd_wait(residents.pidfds[i], POLLIN, deadline) < 0)
			r = err_set(err, CCHV_ERR_TIMEOUT, errno, "a process in %s does not die", run_dir);
	residents_free(&residents);
	return r;
}

/* ---- one VM ---- */

static int report(cchv_findings *f, int status, const char *id, const char *text)
{
	cleanup_free char *line = mem_printf("VM '%s': %s", id, text);

	if (!line)
		return CCHV_ERR_NOMEM;
	return findings_add(f, "vm", status, line,
	                    status == CCHV_FINDING_WARN ? "look at its run directory, then prune again" : NULL);
}

/* The lock is ours. */
static int remove_vm(struct vm_record *rec, const char *id, cchv_findings *f)
{
	cleanup_err cchv_error *error = NULL;
	cleanup_free char *text = NULL;
	pid_t pid = 0;
	int was_alive, r;

	was_alive = record_process(json_get(rec->json, "vmm"), &pid);
	/* Told before it happens: a client that sees the VMM die finds the reason. */
	record_write_stop(rec, CCHV_STOP_OWNER_DIED, "its owner died");
	r = prune_kill_residents(rec->dir, clock_deadline(KILL_MS), &error);
	if (r == CCHV_OK)
		r = cgroup_remove(json_get(rec->json, "cgroups"), &error);
	if (r == CCHV_OK)
		r = record_remove(rec, &error);
	if (r < 0)
		return report(f, CCHV_FINDING_WARN, id, cchv_error_message(error));
	text = was_alive ? mem_printf("its owner had died; VMM %d was killed, everything removed", pid)
			 : mem_strdup("its owner and its VMM had died; everything removed");
	return text ? report(f, CCHV_FINDING_REMOVED, id, text) : CCHV_ERR_NOMEM;
}

static int is_directory(cchv_ctx *ctx, const char *id)
{
	cleanup_free char *dir = mem_printf("%s/%s", ctx->runtime_dir, id);
	struct stat st;

	return dir && lstat(dir, &st) == 0 && S_ISDIR(st.st_mode);
}

static int prune_vm(cchv_ctx *ctx, const char *id, cchv_findings *f)
{
	cleanup_record struct vm_record *rec = NULL;
	cleanup_err cchv_error *error = NULL;
	int r;

	r = record_open(ctx, id, &rec, &error);
	if (r == CCHV_ERR_NOMEM)
		return r;
	/* Gone since it was listed; or there, and nothing of ours. */
	if (r == CCHV_ERR_NOT_FOUND && !is_directory(ctx, id))
		return CCHV_OK;
	if (r < 0)
		return report(f, CCHV_FINDING_WARN, id, cchv_error_message(error));
	r = record_try_lock(rec, &error);
	if (r == 0)
		return CCHV_OK;
	if (r < 0)
		return report(f, CCHV_FINDING_WARN, id, cchv_error_message(error));
	return remove_vm(rec, id, f);
}

/* A directory that its maker never finished, or a remover. */
static int prune_temporary(cchv_ctx *ctx, const char *name, cchv_findings *f)
{
	cleanup_free char *dir = mem_printf("%s/%s", ctx->runtime_dir, name);
	cleanup_free char *lock = mem_printf("%s/%s/lock", ctx->runtime_dir, name);
	cleanup_err cchv_error *error = NULL;
	cleanup_close int fd = -1;
	struct stat st;

	if (!dir || !lock)
		return CCHV_ERR_NOMEM;
	if (lstat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
		return CCHV_OK;
	fd = open(lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 ? fd_lock(fd, 0) < 0 : clock_real_ns() / NS_PER_S < (uint64_t)st.st_mtime + TEMPORARY_AGE_S)
		return CCHV_OK;
	if (prune_kill_residents(dir, clock_deadline(KILL_MS), &error) < 0 || path_remove_tree(dir, &error) < 0)
		return report(f, CCHV_FINDING_WARN, name, cchv_error_message(error));
	return report(f, CCHV_FINDING_REMOVED, name, "an unfinished run directory");
}

/* Names of the runtime directory, hidden ones too. An absent directory has none. */
static int list_names(cchv_ctx *ctx, cchv_list **ret_names, cchv_error **err)
{
	cleanup_list cchv_list *names = list_new();
	struct dirent *entry;
	int r = CCHV_OK;
	DIR *dir;

	if (!names)
		return err_nomem(err);
	dir = opendir(ctx->runtime_dir);
	if (!dir && errno != ENOENT)
		return err_set(err, err_code_of_errno(errno), errno, "runtime directory %s", ctx->runtime_dir);
	while (dir && r == CCHV_OK && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = list_add(names, entry->d_name);
	if (dir)
		closedir(dir);
	if (r < 0)
		return err_nomem(err);
	*ret_names = steal(&names);
	return CCHV_OK;
}

/* Where the command keeps them. */
static int prune_snapshots(cchv_ctx *ctx, cchv_findings *f)
{
	cleanup_free char *dir = mem_printf("%s/snapshots", ctx->state_dir);
	cleanup_err cchv_error *error = NULL;
	cleanup_free char *text = NULL;
	int count, r;

	if (!dir)
		return CCHV_ERR_NOMEM;
	if (access(dir, F_OK) < 0)
		return CCHV_OK;
	r = snapshot_clear_drafts(dir, &count, &error);
	if (r == CCHV_OK && !count)
		return CCHV_OK;
	text = r < 0 ? mem_strdup(cchv_error_message(error)) : mem_printf("%d that were not finished", count);
	if (!text)
		return CCHV_ERR_NOMEM;
	return findings_add(f, "snapshot", r < 0 ? CCHV_FINDING_WARN : CCHV_FINDING_REMOVED, text,
	                    r < 0 ? "look at its directory, then prune again" : NULL);
}

CCHV_API int cchv_ctx_prune(cchv_ctx *ctx, cchv_findings **ret_removed, cchv_error **err)
{
	cleanup_findings cchv_findings *f = findings_new();
	cleanup_list cchv_list *names = NULL;
	int r;

	err_clear(err);
	if (!ctx)
		return err_set(err, CCHV_ERR_INVALID, 0, "ctx_prune: NULL argument");
	r = ctx_check_process(ctx, err);
	if (r == CCHV_OK && !f)
		r = err_nomem(err);
	if (r == CCHV_OK)
		r = list_names(ctx, &names, err);
	for (int i = 0; r == CCHV_OK && i < cchv_list_get_count(names); i++) {
		const char *name = cchv_list_get(names, i);

		if (strncmp(name, RECORD_TEMPORARY, sizeof(RECORD_TEMPORARY) - 1) == 0)
			r = prune_temporary(ctx, name, f);
		else if (path_name_is_valid(name, 76))
			r = prune_vm(ctx, name, f);
		if (r == CCHV_ERR_NOMEM)
			return err_nomem(err);
	}
	/* After the VMs: their devices are let go of by now. */
	if (r == CCHV_OK && (container_prune(ctx, f) < 0 || image_prune_unfinished(ctx, f) < 0 ||
	                     template_prune(ctx, f) < 0 || template_prune_stale(ctx, f) < 0 ||
	                     prune_snapshots(ctx, f) < 0))
		return err_nomem(err);
	if (r == CCHV_OK && ret_removed)
		*ret_removed = steal(&f);
	return r;
}

/* ---- list ---- */

struct found {
	uint64_t created_ns;
	const char *id;
};

static int by_age(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return x->created_ns < y->created_ns ? -1 : x->created_ns > y->created_ns;
}

static size_t find_vms(cchv_ctx *ctx, cchv_list *names, struct found *found)
{
	size_t count = 0;

	for (int i = 0; i < cchv_list_get_count(names); i++) {
		cleanup_record struct vm_record *rec = NULL;
		const char *name = cchv_list_get(names, i);
		uint64_t created = 0;

		if (!path_name_is_valid(name, 76) || record_open(ctx, name, &rec, NULL) < 0)
			continue;
		json_get_u64(rec->json, "created_ns", &created, NULL);
		found[count++] = (struct found){ created, name };
	}
	return count;
}

CCHV_API int cchv_ctx_list_vms(cchv_ctx *ctx, cchv_list **ret_ids, cchv_error **err)
{
	cleanup_list cchv_list *names = NULL, *ids = NULL;
	cleanup_free struct found *found = NULL;
	size_t count;
	int r;

	err_clear(err);
	if (!ctx || !ret_ids)
		return err_set(err, CCHV_ERR_INVALID, 0, "ctx_list_vms: NULL argument");
	r = ctx_check_process(ctx, err);
	if (r == CCHV_OK)
		r = list_names(ctx, &names, err);
	if (r < 0)
		return r;
	ids = list_new();
	found = mem_realloc_array(NULL, (size_t)cchv_list_get_count(names) + 1, sizeof(*found));
	if (!ids || !found)
		return err_nomem(err);
	count = find_vms(ctx, names, found);
	qsort(found, count, sizeof(*found), by_age);
	for (size_t i = 0; i < count; i++)
		if (list_add(ids, found[i].id) < 0)
			return err_nomem(err);
	*ret_ids = steal(&ids);
	return CCHV_OK;
}
