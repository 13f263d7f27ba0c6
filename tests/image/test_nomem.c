/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out at any moment of an import: a code, never a crash, nothing left behind, and then it works. */
#include "image.h"

#include "base/mem.h"

#include "../unit/tar_make.h"
#include "../unit/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

static int entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	CHECK(dir);
	for (struct dirent *e; (e = readdir(dir)) != NULL;)
		n += e->d_name[0] != '.';
	closedir(dir);
	return n;
}

static void write_tar(const char *path)
{
	static const char *const records[] = { "SCHILY.xattr.user.k=v", NULL };
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
	static uint8_t zeros[3 << 20];
	char name[256];
	int fd;

	memset(name, 'n', 60);
	name[60] = '\0';
	tar_make_pax(&t, 'x', records);
	tar_make_entry(&t, '0', "d/f", NULL, "hello", 5);
	tar_make_entry(&t, '1', "h", "d/f", NULL, 0);
	zeros[sizeof(zeros) - 1] = 1;
	tar_make_entry(&t, '0', "sparse", NULL, zeros, sizeof(zeros));
	memset(name, 'l', 255);
	name[255] = '\0';
	tar_make_entry(&t, 'L', "long", NULL, name, 255);
	tar_make_entry(&t, '0', "cut", NULL, NULL, 0);
	tar_make_entry(&t, '0', ".wh.none", NULL, NULL, 0);
	tar_make_end(&t);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	CHECK_INT(write(fd, t.bytes.data, t.bytes.len), (ssize_t)t.bytes.len);
	close(fd);
}

/* How many allocations before the first that fails; step skips some, a prime against patterns. */
static void run(const char *text, uint64_t step)
{
	cleanup_free char *state = mem_printf("%s/state", test_dir()), *tmp = mem_printf("%s/images/tmp", state);
	cchv_image_source *source = NULL;
	cchv_ctx *ctx = NULL;
	int r = CCHV_ERR_NOMEM;

	CHECK_INT(cchv_ctx_new(&ctx, NULL), CCHV_OK);
	CHECK_INT(cchv_ctx_set_state_dir(ctx, state), CCHV_OK);
	CHECK_INT(cchv_image_source_new(&source), CCHV_OK);
	CHECK_INT(cchv_image_source_add(source, text), CCHV_OK);
	for (uint64_t n = 1; r == CCHV_ERR_NOMEM; n += n < 40 ? 1 : step) {
		cchv_image *image = NULL;

		mem_fail_from(n);
		r = cchv_image_import(ctx, source, "name", NULL, &image, NULL);
		mem_fail_from(0);
		if (r != CCHV_OK)
			CHECK_INT(r, CCHV_ERR_NOMEM);
		if (r == CCHV_OK)
			cchv_image_free(image);
		CHECK(n < 100000);
	}
	CHECK_INT(r, CCHV_OK);
	/* A directory that could not be removed for want of memory is swept by the next import. */
	CHECK_INT(cchv_image_prune(ctx, 0, NULL, NULL), CCHV_OK);
	CHECK_INT(entries(tmp), 0);
	cchv_image_source_free(source);
	cchv_ctx_free(ctx);
}

TEST(import_of_a_layer_out_of_memory)
{
	cleanup_free char *path = mem_printf("%s/t.tar", test_dir()), *text = mem_printf("tar:%s", path);

	write_tar(path);
	run(text, 7);
}

TEST(import_of_a_directory_out_of_memory)
{
	cleanup_free char *path = mem_printf("%s/root", test_dir()), *text = mem_printf("dir:%s", path);
	cleanup_free char *file = mem_printf("%s/file", path);

	CHECK_INT(mkdir(path, 0755), 0);
	CHECK_INT(mkdir(file, 0755), 0);
	run(text, 3);
}

TEST(list_and_open_out_of_memory)
{
	cleanup_free char *state = mem_printf("%s/state", test_dir()), *path = mem_printf("%s/root", test_dir());
	cleanup_free char *text = mem_printf("dir:%s", path);
	cchv_image_source *source = NULL;
	cchv_ctx *ctx = NULL;
	int r = CCHV_ERR_NOMEM;

	CHECK_INT(mkdir(path, 0755), 0);
	CHECK_INT(cchv_ctx_new(&ctx, NULL), CCHV_OK);
	CHECK_INT(cchv_ctx_set_state_dir(ctx, state), CCHV_OK);
	CHECK_INT(cchv_image_source_new(&source), CCHV_OK);
	CHECK_INT(cchv_image_source_add(source, text), CCHV_OK);
	CHECK_INT(cchv_image_import(ctx, source, "name", NULL, NULL, NULL), CCHV_OK);
	cchv_image_source_free(source);
	for (uint64_t n = 1; r == CCHV_ERR_NOMEM; n++) {
		cchv_findings *removed = NULL;
		cchv_image *image = NULL;
		cchv_list *list = NULL;

		CHECK(n < 2000);
		mem_fail_from(n);
		r = cchv_image_list(ctx, &list, NULL);
		if (r == CCHV_OK)
			r = cchv_image_open(ctx, "name", &image, NULL);
		if (r == CCHV_OK)
			r = cchv_image_prune(ctx, 0, &removed, NULL);
		mem_fail_from(0);
		if (r != CCHV_OK)
			CHECK_INT(r, CCHV_ERR_NOMEM);
		cchv_list_free(list);
		cchv_image_free(image);
		cchv_findings_free(removed);
	}
	CHECK_INT(r, CCHV_OK);
	cchv_ctx_free(ctx);
}
