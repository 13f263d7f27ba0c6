/* SPDX-License-Identifier: Apache-2.0 */
#include "template_store.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "ctx.h"
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define SIZE (4 << 20)

static cchv_ctx *ctx;
static char state[300], file[400];

static void begin(void)
{
	snprintf(state, sizeof(state), "%s/state", test_dir());
	CHECK_INT(cchv_ctx_new(&ctx, NULL), 0);
	CHECK_INT(cchv_ctx_set_state_dir(ctx, state), 0);
}

static void put(const char *path, off_t size, off_t at, const char *text)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK_INT(ftruncate(fd, size), 0);
	CHECK_INT(pwrite(fd, text, strlen(text), at), (ssize_t)strlen(text));
	close(fd);
}

static struct json *info_of(const char *key)
{
	struct json *info = json_new_object();

	json_set_string(info, "key", key);
	json_set_u64(info, "memory_bytes", SIZE);
	return info;
}

static void publish(const char *key)
{
	char *dir = NULL;
	int lock = -1;

	CHECK_INT(template_lock(ctx, clock_deadline(1000), &lock, NULL), 0);
	CHECK_INT(template_begin(ctx, &dir, NULL), 0);
	snprintf(file, sizeof(file), "%s/" TEMPLATE_RAM, dir);
	put(file, SIZE, 8192, "memory");
	CHECK_INT(template_publish(ctx, dir, key, info_of(key), NULL), 0);
	CHECK_INT(access(dir, F_OK), -1);
	free(dir);
	close(lock);
}

static int count(void)
{
	cchv_list *keys = NULL;
	int n;

	CHECK_INT(template_list(ctx, &keys, NULL), 0);
	n = cchv_list_get_count(keys);
	cchv_list_free(keys);
	return n;
}

TEST(published_is_found)
{
	struct template *template = NULL;
	cchv_list *keys = NULL;
	struct stat st;

	begin();
	CHECK_INT(count(), 0);
	CHECK_INT(template_open(ctx, KEY, &template, NULL), CCHV_ERR_NOT_FOUND);
	publish(OTHER);
	publish(KEY);
	CHECK_INT(template_list(ctx, &keys, NULL), 0);
	CHECK_INT(cchv_list_get_count(keys), 2);
	CHECK_STR(cchv_list_get(keys, 0), KEY);
	CHECK_STR(cchv_list_get(keys, 1), OTHER);
	cchv_list_free(keys);
	CHECK_INT(template_open(ctx, KEY, &template, NULL), 0);
	CHECK_CONTAINS(template->dir, KEY);
	snprintf(file, sizeof(file), "%s/" TEMPLATE_RAM, template->dir);
	CHECK_INT(stat(file, &st), 0);
	CHECK_INT(st.st_mode & 0777, 0400);
	template_free(template);
	cchv_ctx_free(ctx);
}

TEST(names_that_are_no_keys)
{
	static const char *const names[] = { "", "..", "lock", "tmp", "0123", KEY "0", "../templates/" KEY };
	struct template *template = NULL;

	begin();
	publish(KEY);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		CHECK_INT(template_open(ctx, names[i], &template, NULL), CCHV_ERR_NOT_FOUND);
		CHECK_INT(template_remove(ctx, names[i], NULL), CCHV_ERR_NOT_FOUND);
	}
	CHECK_INT(count(), 1);
	cchv_ctx_free(ctx);
}

TEST(in_use_it_stays)
{
	struct template *template = NULL, *second = NULL;

	begin();
	publish(KEY);
	CHECK_INT(template_open(ctx, KEY, &template, NULL), 0);
	CHECK_INT(template_open(ctx, KEY, &second, NULL), 0);
	CHECK_INT(template_remove(ctx, KEY, NULL), CCHV_ERR_EXISTS);
	template_free(template);
	CHECK_INT(template_remove(ctx, KEY, NULL), CCHV_ERR_EXISTS);
	template_free(second);
	CHECK_INT(template_remove(ctx, KEY, NULL), 0);
	CHECK_INT(template_remove(ctx, KEY, NULL), CCHV_ERR_NOT_FOUND);
	CHECK_INT(count(), 0);
	cchv_ctx_free(ctx);
}

TEST(one_builder_at_a_time)
{
	int lock = -1, second = -1;
	char *dir = NULL, left[400];

	begin();
	CHECK_INT(template_lock(ctx, CLOCK_NEVER, &lock, NULL), 0);
	CHECK_INT(template_begin(ctx, &dir, NULL), 0);
	snprintf(left, sizeof(left), "%s/x", dir);
	put(left, 1, 0, "x");
	CHECK_INT(template_lock(ctx, clock_deadline(0), &second, NULL), CCHV_ERR_TIMEOUT);
	CHECK_INT(template_lock(ctx, clock_deadline(120), &second, NULL), CCHV_ERR_TIMEOUT);
	/* Its unfinished work is not taken away from it. */
	CHECK_INT(template_prune(ctx, NULL), 0);
	CHECK_INT(access(left, F_OK), 0);
	close(lock);
	CHECK_INT(template_lock(ctx, clock_deadline(0), &second, NULL), 0);
	CHECK_INT(access(left, F_OK), 0);
	free(dir);
	CHECK_INT(template_begin(ctx, &dir, NULL), 0);
	CHECK_INT(access(left, F_OK), -1);
	close(second);
	CHECK_INT(template_prune(ctx, NULL), 0);
	CHECK_INT(access(dir, F_OK), -1);
	free(dir);
	cchv_ctx_free(ctx);
}

TEST(a_copy_is_the_starters_until_it_is_dropped)
{
	struct template_copy copy = TEMPLATE_COPY_INIT, again = TEMPLATE_COPY_INIT;
	struct template *template = NULL;
	char hash[SHA256_HEX_SIZE], other[SHA256_HEX_SIZE];
	uint64_t used;
	struct stat st;

	begin();
	publish(KEY);
	CHECK_INT(template_open(ctx, KEY, &template, NULL), 0);
	CHECK_INT(template_copy_ram(ctx, template, "vm", &copy, NULL), 0);
	snprintf(file, sizeof(file), "%s/" TEMPLATE_RAM, template->dir);
	CHECK_INT(template_hash_ram(file, hash, &used, NULL), 0);
	CHECK_INT(template_hash_ram(copy.path, other, &used, NULL), 0);
	CHECK_STR(other, hash);
	CHECK_INT(stat(copy.path, &st), 0);
	CHECK_INT(st.st_mode & 0777, 0600);
	CHECK_INT(st.st_size, SIZE);
	CHECK(st.st_blocks * 512 < SIZE / 2);
	CHECK_INT(template_prune(ctx, NULL), 0);
	CHECK_INT(access(copy.path, F_OK), 0);
	/* What a VM of that name left that died is in nobody's way. */
	CHECK_INT(template_copy_ram(ctx, template, "vm", &again, NULL), 0);
	template_copy_drop(&again);
	template_copy_drop(&copy);
	CHECK_INT(template_copy_ram(ctx, template, "vm", &copy, NULL), 0);
	close(copy.fd);
	copy.fd = -1;
	CHECK_INT(template_prune(ctx, NULL), 0);
	CHECK_INT(access(copy.path, F_OK), -1);
	template_copy_drop(&copy);
	template_free(template);
	cchv_ctx_free(ctx);
}

static void expect_hash(const char *path, char hash[SHA256_HEX_SIZE], uint64_t used)
{
	uint64_t n = 1;

	CHECK_INT(template_hash_ram(path, hash, &n, NULL), 0);
	CHECK_INT(n, used);
}

TEST(a_hole_is_as_good_as_zeroes)
{
	char a[400], b[400], one[SHA256_HEX_SIZE], two[SHA256_HEX_SIZE], *zeroes = calloc(1, SIZE);
	int fd;

	snprintf(a, sizeof(a), "%s/a", test_dir());
	snprintf(b, sizeof(b), "%s/b", test_dir());
	put(a, SIZE, 3 << 20, "memory");
	fd = open(b, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK_INT(write(fd, zeroes, SIZE), SIZE);
	close(fd);
	free(zeroes);
	put(b, SIZE, 3 << 20, "memory");
	expect_hash(a, one, 4096);
	expect_hash(b, two, 4096);
	CHECK_STR(two, one);
	/* The same page somewhere else, and another byte in it, are something else. */
	put(b, SIZE, (3 << 20) + 5, "Y");
	expect_hash(b, two, 4096);
	CHECK(strcmp(one, two) != 0);
	unlink(b);
	put(b, SIZE, (3 << 20) + 4096, "memory");
	expect_hash(b, two, 4096);
	CHECK(strcmp(one, two) != 0);
	put(b, SIZE, SIZE - 1, "z");
	expect_hash(b, two, 8192);
	CHECK_INT(template_hash_ram("/nonexistent", one, &(uint64_t){ 0 }, NULL), CCHV_ERR_NOT_FOUND);
}

TEST(out_of_memory)
{
	struct template *template = NULL;
	uint64_t before, total;

	begin();
	publish(KEY);
	before = mem_count();
	CHECK_INT(template_open(ctx, KEY, &template, NULL), 0);
	total = mem_count() - before;
	template_free(template);
	CHECK(total > 5);
	for (uint64_t n = 1; n <= total; n++) {
		cchv_error *err = NULL;
		int r;

		mem_fail_from(n);
		r = template_open(ctx, KEY, &template, &err);
		mem_fail_from(0);
		CHECK_INT(r, CCHV_ERR_NOMEM);
		cchv_error_free(err);
	}
	cchv_ctx_free(ctx);
}
