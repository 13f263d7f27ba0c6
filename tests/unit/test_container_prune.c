/* SPDX-License-Identifier: Apache-2.0 */
#include "container_prune.h"
#include "base/fd.h"
#include "base/path.h"
#include "test.h"

#include <fcntl.h>

static char dirs[3][200];

static int make(int number, const char *id, int with_end)
{
	char path[300];
	int fd;

	snprintf(dirs[number], sizeof(dirs[number]), "%s/containers/%s", test_dir(), id);
	CHECK_INT(path_make_dirs(dirs[number], 0700, NULL), 0);
	snprintf(path, sizeof(path), "%s/exit.json", dirs[number]);
	if (with_end)
		CHECK_INT(path_write_atomic(path, "{}", 2, 0600, NULL), 0);
	snprintf(path, sizeof(path), "%s/lock", dirs[number]);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	return fd;
}

TEST(only_what_a_dead_owner_left_goes)
{
	cleanup_findings cchv_findings *findings = findings_new();
	cchv_ctx *ctx = NULL;
	int held;

	CHECK_INT(cchv_ctx_new(&ctx, NULL), 0);
	CHECK_INT(cchv_ctx_set_state_dir(ctx, test_dir()), 0);
	CHECK_INT(container_prune(ctx, findings), 0);
	close(make(0, "dead", 0));
	close(make(1, "ended", 1));
	held = make(2, "alive", 0);
	CHECK_INT(fd_lock(held, 0), 0);
	CHECK_INT(container_prune(ctx, findings), 0);
	CHECK_INT(access(dirs[0], F_OK), -1);
	CHECK_INT(access(dirs[1], F_OK), 0);
	CHECK_INT(access(dirs[2], F_OK), 0);
	CHECK_INT(cchv_findings_get_count(findings), 1);
	CHECK_CONTAINS(cchv_findings_get_text(findings, 0), "'dead'");
	close(held);
	cchv_ctx_free(ctx);
}

TEST(files_of_a_consumer_stay_and_learn_the_end)
{
	cleanup_findings cchv_findings *findings = findings_new();
	struct buf text = BUF_INIT(4096);
	cchv_ctx *ctx = NULL;
	char path[300];

	CHECK_INT(cchv_ctx_new(&ctx, NULL), 0);
	CHECK_INT(cchv_ctx_set_state_dir(ctx, test_dir()), 0);
	close(make(0, "kept", 0));
	snprintf(path, sizeof(path), "%s/upper.img", dirs[0]);
	CHECK_INT(path_write_atomic(path, "data", 4, 0600, NULL), 0);
	CHECK_INT(container_prune(ctx, findings), 0);
	CHECK_INT(access(path, F_OK), 0);
	snprintf(path, sizeof(path), "%s/exit.json", dirs[0]);
	CHECK_INT(path_read_file(path, &text, NULL), 0);
	CHECK_CONTAINS(buf_string(&text), "the owner died");
	snprintf(path, sizeof(path), "%s/lock", dirs[0]);
	CHECK_INT(access(path, F_OK), -1);
	/* Once is enough. */
	CHECK_INT(cchv_findings_get_count(findings), 1);
	CHECK_INT(container_prune(ctx, findings), 0);
	CHECK_INT(cchv_findings_get_count(findings), 1);
	buf_free(&text);
	cchv_ctx_free(ctx);
}
