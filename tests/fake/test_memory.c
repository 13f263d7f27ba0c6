/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that runs out at any moment of a VM's life, in a pool, or while a template is built: an error, no crash, and
 * nothing is left behind.
 */
#include "base/mem.h"

#include <cchv/cchv.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "../unit/test.h"

#define TIMEOUT_MS 60000

static cchv_ctx *ctx;
static cchv_vm_config *config;

static const char *file(const char *name)
{
	static char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", test_dir(), name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_INT(ftruncate(fd, 1 << 20), 0);
	close(fd);
	return path;
}

static void set_up(void)
{
	cchv_disk_config *disk = NULL;
	char run[600];

	snprintf(run, sizeof(run), "%s/run", test_dir());
	CHECK_INT(setenv("FAKE_VMM", "{}", 1), 0);
	CHECK_INT(cchv_ctx_new(&ctx, NULL), 0);
	CHECK_INT(cchv_ctx_set_runtime_dir(ctx, run), 0);
	CHECK_INT(cchv_ctx_set_vmm(ctx, FAKE_VMM), 0);
	CHECK_INT(cchv_vm_config_new(&config), 0);
	CHECK_INT(cchv_vm_config_set_vcpus(config, 1, 2), 0);
	CHECK_INT(cchv_vm_config_set_kernel(config, file("vmlinux")), 0);
	CHECK_INT(cchv_vm_config_set_initramfs(config, file("initramfs.img")), 0);
	CHECK_INT(cchv_disk_config_new(file("disk"), CCHV_DISK_RAW, &disk), 0);
	CHECK_INT(cchv_vm_config_add_disk(config, disk), 0);
	cchv_disk_config_free(disk);
}

static void nothing_is_left(uint64_t n)
{
	struct dirent *entry;
	char run[600];
	DIR *dir;

	snprintf(run, sizeof(run), "%s/run", test_dir());
	dir = opendir(run);
	while (dir && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			test_fail(__FILE__, __LINE__, "allocation %llu: %s is left", (unsigned long long)n,
			          entry->d_name);
	if (dir)
		closedir(dir);
}

static int live(cchv_error **err)
{
	cchv_vm *vm = NULL;
	int r;

	r = cchv_vm_create(ctx, config, TIMEOUT_MS, &vm, err);
	if (r == CCHV_OK)
		r = cchv_vm_boot(vm, TIMEOUT_MS, err);
	if (r == CCHV_OK)
		r = cchv_vm_resize(vm, 2, 1ULL << 30, TIMEOUT_MS, err);
	if (r == CCHV_OK)
		r = cchv_vm_shutdown(vm, TIMEOUT_MS, err);
	/* The tear-down may need memory too; in a test that holds for all later ones it is given back first. */
	mem_fail_from(0);
	cchv_vm_free(vm);
	return r;
}

TEST(out_of_memory_at_any_moment)
{
	cchv_error *err = NULL;
	uint64_t before, total, step = 1;

	set_up();
	before = mem_count();
	CHECK_INT(live(&err), CCHV_OK);
	total = mem_count() - before;
	CHECK(total > 100);
	for (uint64_t n = 1; n <= total; n += step) {
		int r;

		mem_fail_from(n);
		r = live(&err);
		mem_fail_from(0);
		/* What only makes life easier may fail in silence; all else is an error. */
		CHECK(r <= 0);
		cchv_error_free(err);
		err = NULL;
		nothing_is_left(n);
		/* The first ones one by one; later a VMM is started each time. */
		step = n < 40 ? 1 : 1 + total / 25;
	}
	cchv_vm_config_free(config);
	cchv_ctx_free(ctx);
}

/* Settings without a kernel of their own: the one of the state directory. */
static void set_up_templates(void)
{
	char path[600];

	set_up();
	cchv_vm_config_free(config);
	snprintf(path, sizeof(path), "%s/state", test_dir());
	CHECK_INT(cchv_ctx_set_state_dir(ctx, path), 0);
	CHECK_INT(mkdir(path, 0700), 0);
	strcat(path, "/kernels");
	CHECK_INT(mkdir(path, 0700), 0);
	file("state/kernels/vmlinux");
	file("state/kernels/initramfs.img");
	CHECK_INT(cchv_vm_config_new(&config), 0);
	CHECK_INT(cchv_vm_config_set_vcpus(config, 1, 2), 0);
	CHECK_INT(cchv_vm_config_set_start(config, CCHV_START_TEMPLATE), 0);
}

TEST(out_of_memory_from_a_template)
{
	cchv_error *err = NULL;
	uint64_t before, total;
	char *key = NULL;

	set_up_templates();
	CHECK_INT(cchv_template_build(ctx, NULL, TIMEOUT_MS, &key, NULL), CCHV_OK);
	cchv_free(key);
	before = mem_count();
	CHECK_INT(live(&err), CCHV_OK);
	total = mem_count() - before;
	for (uint64_t n = 1; n <= total; n += 1 + total / 30) {
		mem_fail_from(n);
		CHECK(live(&err) <= 0);
		mem_fail_from(0);
		cchv_error_free(err);
		err = NULL;
		nothing_is_left(n);
	}
	CHECK_INT(live(&err), CCHV_OK);
	cchv_vm_config_free(config);
	cchv_ctx_free(ctx);
}

static int live_in_pool(cchv_error **err)
{
	cchv_pool *pool = NULL;
	cchv_vm *vm = NULL;
	int r;

	r = cchv_pool_new(ctx, config, 1, &pool, err);
	if (r == CCHV_OK)
		r = cchv_pool_set_reserve(pool, 0);
	if (r == CCHV_OK)
		r = cchv_pool_fill(pool, TIMEOUT_MS, err);
	if (r == CCHV_OK)
		r = cchv_pool_take(pool, "taken", TIMEOUT_MS, &vm, err);
	mem_fail_from(0);
	cchv_pool_free(pool);
	cchv_vm_free(vm);
	return r;
}

TEST(out_of_memory_in_a_pool)
{
	cchv_error *err = NULL;
	uint64_t before, total, step = 1;
	char *key = NULL;

	set_up_templates();
	CHECK_INT(cchv_template_build(ctx, NULL, TIMEOUT_MS, &key, NULL), CCHV_OK);
	cchv_free(key);
	before = mem_count();
	CHECK_INT(live_in_pool(&err), 1);
	total = mem_count() - before;
	for (uint64_t n = 1; n <= total; n += step) {
		int r;

		mem_fail_from(n);
		r = live_in_pool(&err);
		mem_fail_from(0);
		CHECK(r < 0 || r == 1);
		cchv_error_free(err);
		err = NULL;
		nothing_is_left(n);
		/* The first ones are the pool's own, and are quick. */
		step = n < 20 ? 1 : 1 + total / 25;
	}
	CHECK_INT(live_in_pool(&err), 1);
	cchv_vm_config_free(config);
	cchv_ctx_free(ctx);
}

TEST(out_of_memory_while_one_is_built)
{
	uint64_t before, total;
	char *key = NULL;

	set_up_templates();
	before = mem_count();
	CHECK_INT(cchv_template_build(ctx, NULL, TIMEOUT_MS, &key, NULL), CCHV_OK);
	total = mem_count() - before;
	for (uint64_t n = 1; n <= total; n += 1 + total / 7) {
		cchv_error *err = NULL;
		char *other = NULL;
		int r;

		CHECK_INT(cchv_template_remove(ctx, key, NULL), CCHV_OK);
		mem_fail_from(n);
		r = cchv_template_build(ctx, NULL, TIMEOUT_MS, &other, &err);
		mem_fail_from(0);
		CHECK(r <= 0);
		cchv_error_free(err);
		CHECK_INT(cchv_ctx_prune(ctx, NULL, NULL), CCHV_OK);
		nothing_is_left(n);
		cchv_free(other);
		/* What is there is whole; what is not there can be built. */
		CHECK_INT(cchv_template_build(ctx, NULL, TIMEOUT_MS, &other, NULL), CCHV_OK);
		CHECK_STR(other, key);
		cchv_free(other);
		CHECK_INT(live(NULL), CCHV_OK);
	}
	cchv_free(key);
	cchv_vm_config_free(config);
	cchv_ctx_free(ctx);
}

/* A VM, kept and made again; neither VM nor snapshot stays. */
static int keep_and_restore(const char *snapshot, const char *copy, cchv_restore_config *restore, cchv_error **err)
{
	cchv_vm *vm = NULL, *again = NULL;
	int r;

	r = cchv_vm_create(ctx, config, TIMEOUT_MS, &vm, err);
	if (r == CCHV_OK)
		r = cchv_vm_boot(vm, TIMEOUT_MS, err);
	if (r == CCHV_OK)
		r = cchv_vm_snapshot(vm, snapshot, TIMEOUT_MS, err);
	if (r == CCHV_OK)
		r = cchv_vm_create_restored(ctx, restore, TIMEOUT_MS, &again, err);
	if (r == CCHV_OK)
		r = cchv_vm_boot(again, TIMEOUT_MS, err);
	mem_fail_from(0);
	/* A copy is there if the VM is that it is for. */
	CHECK_INT(unlink(copy) == 0, again != NULL);
	cchv_vm_free(again);
	cchv_vm_free(vm);
	/* What is there is whole. */
	if (access(snapshot, F_OK) == 0)
		CHECK_INT(cchv_snapshot_remove(snapshot, NULL), CCHV_OK);
	return r;
}

TEST(out_of_memory_while_one_is_kept_or_restored)
{
	cchv_restore_config *restore = NULL;
	cchv_error *err = NULL;
	uint64_t before, total;
	char snapshot[600], copy[600];

	set_up();
	snprintf(snapshot, sizeof(snapshot), "%s/snapshot", test_dir());
	snprintf(copy, sizeof(copy), "%s/copy", test_dir());
	CHECK_INT(cchv_restore_config_new(snapshot, &restore), CCHV_OK);
	CHECK_INT(cchv_restore_config_set_disk(restore, "disk0", copy), CCHV_OK);
	before = mem_count();
	CHECK_INT(keep_and_restore(snapshot, copy, restore, &err), CCHV_OK);
	total = mem_count() - before;
	for (uint64_t n = total / 4; n <= total; n += 1 + total / 40) {
		mem_fail_from(n);
		CHECK(keep_and_restore(snapshot, copy, restore, &err) <= 0);
		mem_fail_from(0);
		cchv_error_free(err);
		err = NULL;
		nothing_is_left(n);
	}
	CHECK_INT(keep_and_restore(snapshot, copy, restore, NULL), CCHV_OK);
	cchv_restore_config_free(restore);
	cchv_vm_config_free(config);
	cchv_ctx_free(ctx);
}
