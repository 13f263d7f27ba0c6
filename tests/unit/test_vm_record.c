/* SPDX-License-Identifier: Apache-2.0 */
#include "vm_record.h"

#include "ctx.h"
#include "test.h"

#include <sys/wait.h>

static cchv_ctx *new_ctx(void)
{
	cchv_ctx *ctx = NULL;

	CHECK_INT(cchv_ctx_new(&ctx, NULL), 0);
	CHECK_INT(cchv_ctx_set_runtime_dir(ctx, test_dir()), 0);
	return ctx;
}

TEST(an_owner_and_a_reader)
{
	struct json *old;
	cchv_ctx *ctx = new_ctx();
	struct vm_record *owner = NULL, *other = NULL, *client = NULL;
	char *text = NULL;
	int reason = 0;
	pid_t pid;

	CHECK_INT(record_open(ctx, "a", &client, NULL), CCHV_ERR_NOT_FOUND);
	CHECK_INT(record_create(ctx, "a", &owner, NULL), 0);
	CHECK_INT(record_create(ctx, "a", &other, NULL), CCHV_ERR_EXISTS);
	CHECK_INT(record_open(ctx, "a", &client, NULL), 0);
	CHECK_STR(json_as_string(json_get(client->json, "id")), "a");
	CHECK_INT(record_is_orphan(client), 0);
	CHECK_INT(record_try_lock(client, NULL), 0);
	record_set(owner, "vmm", record_process_json(getpid()));
	CHECK_INT(record_write(owner, NULL), 0);
	CHECK_INT(record_reload(client, NULL), 0);
	CHECK_INT(record_process(json_get(client->json, "vmm"), &pid), 1);
	CHECK_INT(pid, getpid());
	CHECK_INT(record_process(json_get(client->json, "none"), &pid), 0);
	/* The same numbers in another boot of the machine are somebody else. */
	old = record_process_json(getpid());
	CHECK_INT(record_process(old, &pid), 1);
	json_set_string(old, "boot", "00000000-0000-4000-8000-000000000000");
	CHECK_INT(record_process(old, &pid), 0);
	json_free(old);
	CHECK_INT(record_read_stop(client, &reason, &text), 0);
	CHECK_INT(record_was_killed(owner), 0);
	record_mark_killed(client);
	CHECK_INT(record_was_killed(owner), 1);
	record_write_stop(owner, 4, "why");
	record_write_stop(owner, 5, "later");
	CHECK_INT(record_remove(owner, NULL), 0);
	record_free(owner);
	/* The directory is gone, the reason is not. */
	CHECK_INT(record_read_stop(client, &reason, &text), 1);
	CHECK_INT(reason, 4);
	CHECK_STR(text, "why");
	free(text);
	record_free(client);
	CHECK_INT(record_create(ctx, "a", &owner, NULL), 0);
	CHECK_INT(record_remove(owner, NULL), 0);
	record_free(owner);
	cchv_ctx_free(ctx);
}

TEST(a_dead_owner_leaves_an_orphan)
{
	cchv_ctx *ctx = new_ctx();
	struct vm_record *rec = NULL;
	int status;
	pid_t pid = fork();

	if (!pid) {
		_exit(record_create(ctx, "a", &rec, NULL) == 0 ? 0 : 1);
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
	CHECK_INT(record_open(ctx, "a", &rec, NULL), 0);
	CHECK_INT(record_is_orphan(rec), 1);
	CHECK_INT(record_try_lock(rec, NULL), 1);
	CHECK_INT(record_is_orphan(rec), 0);
	record_free(rec);
	cchv_ctx_free(ctx);
}

TEST(rubbish_in_vm_json)
{
	cchv_ctx *ctx = new_ctx();
	struct vm_record *owner = NULL, *client = NULL;
	char path[600];
	FILE *f;

	CHECK_INT(record_create(ctx, "a", &owner, NULL), 0);
	snprintf(path, sizeof(path), "%s/a/vm.json", test_dir());
	f = fopen(path, "we");
	CHECK(f);
	fputs("[1]", f);
	fclose(f);
	CHECK_INT(record_open(ctx, "a", &client, NULL), CCHV_ERR_PROTOCOL);
	record_free(owner);
	cchv_ctx_free(ctx);
}
