/* SPDX-License-Identifier: Apache-2.0 */
/* Run directories: see vm_record.h. Enters: ids, facts of a VM's life. Leaves: files that other processes read. */
#include "vm_record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"
#include "ctx.h"

#define RECORD_MAX (1U << 20) /* bytes of vm.json */
#define STOP_MAX 4096

void record_free(struct vm_record *record)
{
	if (!record)
		return;
	fd_close(&record->lock_fd);
	fd_close(&record->stop_fd);
	fd_close(&record->dir_fd);
	json_free(record->json);
	free(record->dir);
	free(record);
}

static struct vm_record *record_new(void)
{
	struct vm_record *r = mem_zalloc(sizeof(*r));

	if (r)
		r->dir_fd = r->lock_fd = r->stop_fd = -1;
	return r;
}

static int open_files(struct vm_record *record, int flags, cchv_error **err)
{
	record->dir_fd = open(record->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (record->dir_fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "run directory %s", record->dir);
	record->lock_fd = openat(record->dir_fd, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	if (record->lock_fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "run directory %s: lock", record->dir);
	record->stop_fd = openat(record->dir_fd, "stop", O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	if (record->stop_fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "run directory %s: stop", record->dir);
	return CCHV_OK;
}

static int make_temporary(cchv_ctx *ctx, const char *id, char **ret_dir, cchv_error **err)
{
	for (int i = 0; i < 100; i++) {
		cleanup_free char *dir = NULL;
		uint32_t number;

		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return err_set(err, CCHV_ERR_SYSTEM, errno, "getrandom");
		dir = mem_printf("%s/" RECORD_TEMPORARY "%08x-%s", ctx->runtime_dir, number, id);
		if (!dir)
			return err_nomem(err);
		if (mkdir(dir, 0700) == 0) {
			*ret_dir = steal(&dir);
			return CCHV_OK;
		}
		if (errno != EEXIST)
			return err_set(err, err_code_of_errno(errno), errno, "run directory %s", dir);
	}
	return err_set(err, CCHV_ERR_EXISTS, 0, "run directory of VM '%s': no free name", id);
}

static int take_name(struct vm_record *record, char *final, const char *id, cchv_error **err)
{
	if (rename(record->dir, final) < 0) {
		if (errno == ENOTEMPTY || errno == EEXIST)
			return err_set(err, CCHV_ERR_EXISTS, 0, "VM '%s' exists", id);
		return err_set(err, CCHV_ERR_SYSTEM, errno, "run directory %s", final);
	}
	free(record->dir);
	record->dir = final;
	return CCHV_OK;
}

int record_create(cchv_ctx *ctx, const char *id, struct vm_record **ret_record, cchv_error **err)
{
	cleanup_record struct vm_record *rec = record_new();
	cleanup_free char *final = mem_printf("%s/%s", ctx->runtime_dir, id);
	int r;

	if (!rec || !final)
		return err_nomem(err);
	rec->json = json_new_object();
	json_set_u64(rec->json, "format", 1);
	json_set_string(rec->json, "id", id);
	r = make_temporary(ctx, id, &rec->dir, err);
	if (r < 0)
		return r;
	r = open_files(rec, O_CREAT, err);
	if (r == CCHV_OK && fd_lock(rec->lock_fd, 0) < 0)
		r = err_set(err, CCHV_ERR_SYSTEM, errno, "run directory %s: lock", rec->dir);
	rec->locked = r == CCHV_OK;
	if (r == CCHV_OK)
		r = record_write(rec, err);
	if (r == CCHV_OK)
		r = take_name(rec, final, id, err);
	if (r < 0) {
		path_remove_tree(rec->dir, NULL);
		return r;
	}
	final = NULL;
	*ret_record = steal(&rec);
	return CCHV_OK;
}

int record_open(cchv_ctx *ctx, const char *id, struct vm_record **ret_record, cchv_error **err)
{
	cleanup_record struct vm_record *rec = record_new();
	int r;

	if (!rec)
		return err_nomem(err);
	rec->dir = mem_printf("%s/%s", ctx->runtime_dir, id);
	if (!rec->dir)
		return err_nomem(err);
	if (access(rec->dir, F_OK) < 0 && errno == ENOENT)
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "no VM '%s'", id);
	r = open_files(rec, 0, err);
	if (r == CCHV_OK)
		r = record_reload(rec, err);
	if (r < 0)
		return err_prefix(err, r, "VM '%s'", id);
	*ret_record = steal(&rec);
	return CCHV_OK;
}

int record_write(struct vm_record *record, cchv_error **err)
{
	static const char temporary[] = "vm.json.new";
	cleanup_buf struct buf text = BUF_INIT(RECORD_MAX);
	cleanup_close int fd = -1;
	int r;

	r = json_print(record->json, 1, &text);
	if (r < 0)
		return err_set(err, r, 0, "vm.json cannot be written");
	fd = openat(record->dir_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	/* No fsync: what it describes does not survive the host's crash either. */
	if (fd < 0 || fd_pwrite_full(fd, text.data, text.len, 0) < 0 ||
	    renameat(record->dir_fd, temporary, record->dir_fd, "vm.json") < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "%s/vm.json", record->dir);
	return CCHV_OK;
}

int record_reload(struct vm_record *record, cchv_error **err)
{
	cleanup_buf struct buf text = BUF_INIT(RECORD_MAX);
	struct json *json = NULL;
	cleanup_close int fd = -1;
	ssize_t n;
	int r;

	fd = openat(record->dir_fd, "vm.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "%s/vm.json", record->dir);
	do
		n = buf_read_fd(&text, fd, 65536);
	while (n > 0);
	if (n < 0)
		return err_set(err, errno == ENOMEM ? CCHV_ERR_NOMEM : CCHV_ERR_PROTOCOL, errno, "%s/vm.json",
		               record->dir);
	r = json_parse((const char *)text.data, text.len, &json, err);
	if (r == CCHV_OK && json_get_type(json) != JSON_OBJECT) {
		json_free(json);
		r = err_set(err, CCHV_ERR_PROTOCOL, 0, "no object");
	}
	if (r < 0)
		return err_prefix(err, r, "%s/vm.json", record->dir);
	json_free(record->json);
	record->json = json;
	return CCHV_OK;
}

int record_try_lock(struct vm_record *record, cchv_error **err)
{
	if (fd_lock(record->lock_fd, 0) == 0) {
		record->locked = 1;
		return 1;
	}
	if (errno == EWOULDBLOCK)
		return 0;
	return err_set(err, CCHV_ERR_SYSTEM, errno, "%s/lock", record->dir);
}

void record_unlock(struct vm_record *record)
{
	flock(record->lock_fd, LOCK_UN);
	record->locked = 0;
}

int record_is_orphan(struct vm_record *record)
{
	if (record->locked)
		return 0;
	/* A shared lock, and for a moment only: it is in nobody's way but an adopter's, who tries again. */
	if (flock(record->lock_fd, LOCK_SH | LOCK_NB) < 0)
		return 0;
	flock(record->lock_fd, LOCK_UN);
	return 1;
}

void record_set(struct vm_record *record, const char *key, struct json *value)
{
	json_set(record->json, key, value);
}

/* /proc/sys/kernel/random/boot_id has 36 characters. */
#define BOOT_ID_SIZE 64

struct json *record_process_json(pid_t pid)
{
	struct json *p = json_new_object();
	char boot[BOOT_ID_SIZE];
	uint64_t start = 0;

	proc_start_time(pid, &start, NULL);
	json_set_i64(p, "pid", pid);
	json_set_u64(p, "start", start);
	if (proc_boot_id(boot, sizeof(boot)) == 0)
		json_set_string(p, "boot", boot);
	return p;
}

int record_process(const struct json *process, pid_t *ret_pid)
{
	const char *recorded = NULL;
	uint64_t pid = 0, start = 0;
	char boot[BOOT_ID_SIZE];

	if (json_get_u64(process, "pid", &pid, NULL) != 1 || json_get_u64(process, "start", &start, NULL) != 1 ||
	    pid < 1 || pid > INT32_MAX)
		return 0;
	/* Numbers of another boot name nobody, whoever has them now. */
	if (json_get_string(process, "boot", &recorded, NULL) == 1 && proc_boot_id(boot, sizeof(boot)) == 0 &&
	    strcmp(recorded, boot) != 0)
		return 0;
	*ret_pid = (pid_t)pid;
	return proc_is_alive((pid_t)pid, start);
}

void record_write_stop(struct vm_record *record, int reason, const char *text)
{
	cleanup_buf struct buf out = BUF_INIT(STOP_MAX);
	struct json *json = NULL;
	struct stat st;

	if (fstat(record->stop_fd, &st) < 0 || st.st_size > 0)
		return;
	json = json_new_object();
	json_set_i64(json, "reason", reason);
	json_set_string(json, "text", text ? text : "");
	/* One write: a reader sees all of it or nothing. */
	if (json_print(json, 0, &out) == CCHV_OK)
		fd_pwrite_full(record->stop_fd, out.data, out.len, 0);
	json_free(json);
}

int record_read_stop(struct vm_record *record, int *ret_reason, char **ret_text)
{
	cleanup_json struct json *json = NULL;
	const char *text = NULL;
	char data[STOP_MAX];
	uint64_t reason = 0;
	ssize_t n;

	n = fd_pread_full(record->stop_fd, data, sizeof(data), 0);
	if (n <= 0 || json_parse(data, (size_t)n, &json, NULL) < 0 ||
	    json_get_u64(json, "reason", &reason, NULL) != 1 || reason < 1 || reason > 1000)
		return 0;
	json_get_string(json, "text", &text, NULL);
	*ret_text = mem_strdup(text ? text : "");
	*ret_reason = (int)reason;
	return 1;
}

void record_mark_killed(struct vm_record *record)
{
	int fd = openat(record->dir_fd, "killed", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	fd_close(&fd);
}

int record_was_killed(struct vm_record *record)
{
	return faccessat(record->dir_fd, "killed", F_OK, 0) == 0;
}

int record_remove(struct vm_record *record, cchv_error **err)
{
	const char *slash = strrchr(record->dir, '/');
	/* On the stack: a VM must be removable without memory. */
	char away[PATH_MAX];
	uint32_t number = 0;

	if (strncmp(slash + 1, RECORD_TEMPORARY, sizeof(RECORD_TEMPORARY) - 1) == 0)
		return path_remove_tree(record->dir, err);
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return err_set(err, CCHV_ERR_SYSTEM, errno, "getrandom");
	if (snprintf(away, sizeof(away), "%.*s/" RECORD_TEMPORARY "%08x-gone", (int)(slash - record->dir),
	             record->dir, number) >= (int)sizeof(away))
		return err_set(err, CCHV_ERR_LIMIT, 0, "run directory %s: its path is too long", record->dir);
	if (rename(record->dir, away) < 0)
		return errno == ENOENT ? CCHV_OK
				       : err_set(err, CCHV_ERR_SYSTEM, errno, "run directory %s", record->dir);
	return path_remove_tree(away, err);
}
