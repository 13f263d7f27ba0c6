/* SPDX-License-Identifier: Apache-2.0 */
/* Root file systems of each kind, with real overlays and real images, as root; no VM. */
#include "tests/unit/test.h"

#include "examples/shim/mountinfo.h"
#include "examples/shim/rootfs.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

static cchv_ctx *ctx;
static cchv_container_config *config;
static cchv_vm_config *vm_config;
static yajl_val spec;
static struct mount_list mounts;
static struct rootfs *rootfs;
static char *error;

/* The shell as the quickest way to make trees; $D is the test's directory. */
static void __attribute__((format(printf, 1, 2))) sh(const char *format, ...)
{
	char *command, *whole;
	va_list args;

	va_start(args, format);
	CHECK(vasprintf(&command, format, args) > 0);
	va_end(args);
	CHECK(asprintf(&whole, "set -e; cd '%s'; %s", test_dir(), command) > 0);
	if (system(whole) != 0)
		test_fail(__FILE__, __LINE__, "sh: %s", command);
	free(command);
	free(whole);
}

static char *in_dir(const char *name)
{
	char *path;

	CHECK(asprintf(&path, "%s/%s", test_dir(), name) > 0);
	return path;
}

static void begin(const char *json)
{
	char *state = in_dir("state"), reason[200];

	if (geteuid() != 0) {
		printf("skipped: needs root\n");
		exit(0);
	}
	/* What is mounted here is seen by no one else, and goes with the case. */
	CHECK_INT(unshare(CLONE_NEWNS), 0);
	CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	sh("mkdir -p state bundle/rootfs");
	CHECK_INT(cchv_ctx_new(&ctx, NULL), CCHV_OK);
	CHECK_INT(cchv_ctx_set_state_dir(ctx, state), CCHV_OK);
	CHECK_INT(cchv_container_config_new("c", &config), CCHV_OK);
	CHECK_INT(cchv_vm_config_new(&vm_config), CCHV_OK);
	spec = yajl_tree_parse(json ? json : "{\"root\":{\"path\":\"rootfs\"}}", reason, sizeof(reason));
	CHECK(spec);
	free(state);
}

static void end(void)
{
	rootfs_release(rootfs);
	cchv_container_config_free(config);
	cchv_vm_config_free(vm_config);
	cchv_ctx_free(ctx);
	yajl_tree_free(spec);
	mount_list_clear(&mounts);
	free(error);
}

/* A mount whose options have D for the test's directory. */
static void add_mount(const char *type, const char *source, ...)
{
	va_list args;

	CHECK_INT(mount_list_add(&mounts, type, source, ""), CCHV_OK);
	va_start(args, source);
	for (const char *option; (option = va_arg(args, const char *));) {
		char text[4096];
		size_t n = 0;

		for (; *option; option++)
			n += (size_t)(*option == '@' ? snprintf(text + n, sizeof(text) - n, "%s", test_dir())
						     : snprintf(text + n, sizeof(text) - n, "%c", *option));
		CHECK_INT(mount_list_add_option(&mounts, text), CCHV_OK);
	}
	va_end(args);
}

static int add_mode(enum rootfs_mode mode)
{
	struct rootfs_options options = { mode, 1 << 30 };
	char *bundle = in_dir("bundle");
	int r = rootfs_add(&rootfs, ctx, &mounts, bundle, spec, &options, config, vm_config, &error);

	free(bundle);
	return r;
}

static void add(void)
{
	int r = add_mode(ROOTFS_IMAGE);

	if (r < 0)
		test_fail(__FILE__, __LINE__, "rootfs_add: %d %s", r, error ? error : "");
}

/* How many images the cache has. */
static int images(void)
{
	cchv_list *list = NULL;
	int n;

	CHECK_INT(cchv_image_list(ctx, &list, NULL), CCHV_OK);
	n = (int)cchv_list_get_count(list);
	cchv_list_free(list);
	return n;
}

static void again(void)
{
	rootfs_release(rootfs);
	rootfs = NULL;
	cchv_container_config_free(config);
	CHECK_INT(cchv_container_config_new("c", &config), CCHV_OK);
}

/* Mount the one image of the cache, and look into it. */
static void look(const char *command)
{
	sh("mkdir -p look; mount -t erofs -o ro,loop state/images/*.erofs look; (cd look && %s); r=$?; umount look;"
	   "[ $r = 0 ]", command);
}

static void make_layers(void)
{
	sh("mkdir -p l1/etc l1/gone l2/etc l2/opaque l3/opaque u w");
	sh("echo one >l1/etc/f; echo below >l1/etc/hidden; echo x >l1/gone/file; mkdir l1/opaque");
	sh("echo y >l1/opaque/old");
	sh("echo two >l2/etc/f; mknod l2/etc/hidden c 0 0; mknod l2/gone c 0 0; echo z >l2/opaque/new");
	sh("setfattr -n trusted.overlay.opaque -v y l2/opaque; ln l2/etc/f l2/etc/g; echo top >l3/opaque/top");
}

#define LAYERS "lowerdir=@/l3:@/l2:@/l1"

TEST(a_chain_becomes_one_image_once)
{
	begin(NULL);
	make_layers();
	add_mount("overlay", "overlay", "workdir=@/w", "upperdir=@/u", LAYERS, "index=off", NULL);
	add();
	CHECK_INT(images(), 1);
	look("[ \"$(cat etc/f)\" = two ] && [ \"$(stat -c %h etc/g)\" = 2 ] && [ ! -e etc/hidden ] && [ ! -e gone ] &&"
	     "[ \"$(ls opaque)\" = \"new\ntop\" ]");
	/* A second container of the same chain: nothing is built, so nothing is needed to build. */
	again();
	sh("mv l1/etc/f l1/etc/moved-away");
	CHECK_INT(setenv("PATH", "/nonexistent", 1), 0);
	add();
	CHECK_INT(images(), 1);
	end();
}

TEST(a_chain_made_anew_is_built_anew)
{
	begin(NULL);
	make_layers();
	add_mount("overlay", "overlay", "workdir=@/w", "upperdir=@/u", LAYERS, NULL);
	add();
	again();
	/* As a snapshotter does that was wiped: the same paths, and something else in them. */
	sh("rm -rf l1 l2 l3; mkdir l1 l2 l3; echo other >l1/file");
	add();
	CHECK_INT(images(), 2);
	end();
}

TEST(a_pruned_image_is_built_again)
{
	begin(NULL);
	make_layers();
	add_mount("overlay", "overlay", "workdir=@/w", "upperdir=@/u", LAYERS, NULL);
	add();
	again();
	CHECK_INT(cchv_image_prune(ctx, 0, NULL, NULL), CCHV_OK);
	CHECK_INT(images(), 0);
	add();
	CHECK_INT(images(), 1);
	end();
}

TEST(two_at_once_build_one)
{
	pid_t pids[3];
	char *path;
	int status;

	begin(NULL);
	make_layers();
	add_mount("overlay", "overlay", "workdir=@/w", "upperdir=@/u", LAYERS, NULL);
	/* Who builds leaves a line. */
	sh("mkdir bin; { echo '#!/bin/sh'; echo echo '>>' $PWD/builds; echo exec $(command -v mkfs.erofs) '\"$@\"'; }"
	   ">bin/mkfs.erofs; chmod 755 bin/mkfs.erofs");
	CHECK(asprintf(&path, "%s/bin:%s", test_dir(), getenv("PATH")) > 0);
	CHECK_INT(setenv("PATH", path, 1), 0);
	free(path);
	for (int i = 0; i < 3; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			/* The context is the parent's: a child makes its own. */
			char *state = in_dir("state");

			cchv_ctx_new(&ctx, NULL);
			cchv_ctx_set_state_dir(ctx, state);
			_exit(add_mode(ROOTFS_IMAGE) == CCHV_OK ? 0 : 1);
		}
	}
	for (int i = 0; i < 3; i++) {
		CHECK_INT(waitpid(pids[i], &status, 0), pids[i]);
		CHECK_INT(status, 0);
	}
	CHECK_INT(images(), 1);
	sh("[ $(wc -l <builds) = 1 ]");
	end();
}

TEST(more_layers_than_a_page_of_options_holds)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	begin(NULL);
	sh("mkdir -p a-rather-long-name-of-a-directory-that-layers-are-in u w; cd a-rather*; for i in $(seq 120); do "
	   "mkdir -p $i/fs; echo $i >$i/fs/f$i; done");
	fputs("lowerdir=", out);
	for (int i = 1; i <= 120; i++)
		fprintf(out, "%s@/a-rather-long-name-of-a-directory-that-layers-are-in/%d/fs", i > 1 ? ":" : "", i);
	fclose(out);
	CHECK(size > 4096);
	CHECK_INT(mount_list_add(&mounts, "overlay", "overlay", ""), CCHV_OK);
	{
		char *whole = NULL;
		FILE *to = open_memstream(&whole, &size);

		for (const char *p = text; *p; p++)
			if (*p == '@')
				fputs(test_dir(), to);
			else
				fputc(*p, to);
		fclose(to);
		CHECK_INT(mount_list_add_option(&mounts, whole), CCHV_OK);
		free(whole);
	}
	free(text);
	add();
	look("[ $(ls | wc -l) = 120 ] && [ $(cat f77) = 77 ]");
	end();
}

TEST(what_the_upper_layer_has_is_a_layer_over_the_chain)
{
	char *json;

	begin(NULL);
	make_layers();
	sh("echo own >u/own");
	add_mount("overlay", "overlay", "workdir=@/w", "upperdir=@/u", LAYERS, NULL);
	add();
	CHECK_INT(images(), 2);
	again();
	/* Marks that no image carries: it is mounted on the host and shared. */
	sh("mkdir u/new; setfattr -n trusted.overlay.opaque -v y u/new");
	add();
	CHECK_INT(images(), 3);
	again();
	sh("mkdir u/etc; setfattr -n trusted.overlay.opaque -v y u/etc");
	add();
	sh("[ $(cat bundle/rootfs/own) = own ] && [ -z \"$(ls bundle/rootfs/etc)\" ] && [ -d bundle/rootfs/opaque ]");
	CHECK_INT(cchv_vm_config_to_json(vm_config, &json, NULL), CCHV_OK);
	CHECK_CONTAINS(json, "\"shared\": true");
	cchv_free(json);
	rootfs_release(rootfs);
	rootfs = NULL;
	sh("! mountpoint -q bundle/rootfs; [ -z \"$(ls bundle/rootfs)\" ]");
	end();
}

TEST(the_shared_mode_mounts_and_cleans_up)
{
	char *bundle;

	begin(NULL);
	bundle = in_dir("bundle");
	make_layers();
	add_mount("overlay", "overlay", "workdir=@/w", "upperdir=@/u", LAYERS, NULL);
	CHECK_INT(add_mode(ROOTFS_SHARED), CCHV_OK);
	CHECK_INT(images(), 0);
	sh("echo written >bundle/rootfs/new; [ $(cat u/new) = written ]");
	/* The shim has died, and somebody had mounted once more. */
	sh("mount -t tmpfs t bundle/rootfs; : >bundle/rootfs/busy");
	CHECK_INT(rootfs_clean(bundle, &error), CCHV_OK);
	sh("[ -z \"$(ls bundle/rootfs)\" ]");
	CHECK_INT(rootfs_clean(bundle, &error), CCHV_OK);
	CHECK_INT(rootfs_clean("/nonexistent/bundle", &error), CCHV_OK);
	free(bundle);
	end();
}

TEST(a_failed_mount_leaves_nothing_and_is_named)
{
	begin(NULL);
	add_mount("tmpfs", "first", NULL);
	add_mount("no-such-type", "/dev/nothing", NULL);
	CHECK_INT(add_mode(ROOTFS_SHARED), CCHV_ERR_NOT_FOUND);
	CHECK_CONTAINS(error, "no-such-type");
	sh("! mountpoint -q bundle/rootfs");
	mount_list_clear(&mounts);
	add_mount("overlay", "overlay", "lowerdir=/nonexistent/a:/nonexistent/b", NULL);
	CHECK_INT(add_mode(ROOTFS_IMAGE), CCHV_ERR_NOT_FOUND);
	CHECK_CONTAINS(error, "'/nonexistent/a'");
	mount_list_clear(&mounts);
	add_mount("overlay", "overlay", "lowerdir=/", "uidmap=0:1:1", NULL);
	CHECK_INT(add_mode(ROOTFS_IMAGE), CCHV_ERR_UNSUPPORTED);
	mount_list_clear(&mounts);
	add_mount("format/mkdir/overlay", "overlay", NULL);
	CHECK_INT(add_mode(ROOTFS_IMAGE), CCHV_ERR_UNSUPPORTED);
	end();
}

TEST(dockers_living_directory)
{
	char *text, reason[200], *path;

	begin(NULL);
	make_layers();
	path = in_dir("merged");
	CHECK(asprintf(&text, "{\"root\":{\"path\":\"%s\"}}", path) > 0);
	yajl_tree_free(spec);
	spec = yajl_tree_parse(text, reason, sizeof(reason));
	CHECK(spec);
	/* As the daemon makes them: in an overlay, so that they have its attributes. */
	sh("mkdir -p merged; for i in i1 i2; do mkdir $i $i-work;"
	   "mount -t overlay -o lowerdir=$PWD/l3:$PWD/l2:$PWD/l1,upperdir=$PWD/$i,workdir=$PWD/$i-work o merged;"
	   ": >merged/.dockerenv; : >merged/etc/hosts; mkdir -p merged/dev/pts; umount merged;"
	   /* Older kernels do this to each directory that is new. */
	   "setfattr -n trusted.overlay.opaque -v y $i/dev; done;"
	   "getfattr -d -m - i1/etc 2>/dev/null | grep -q overlay");
	sh("mount -t overlay -o lowerdir=$PWD/i1:$PWD/l3:$PWD/l2:$PWD/l1,upperdir=$PWD/u,workdir=$PWD/w o merged");
	add();
	CHECK_INT(images(), 2);
	/* The next container has an -init layer of its own with the same in it. */
	again();
	sh("umount merged; mkdir u2 w2; mount -t overlay "
	   "-o lowerdir=$PWD/i2:$PWD/l3:$PWD/l2:$PWD/l1,upperdir=$PWD/u2,workdir=$PWD/w2 overlay merged");
	CHECK_INT(setenv("PATH", "/nonexistent", 1), 0);
	add();
	CHECK_INT(images(), 2);
	free(text);
	free(path);
	end();
}

TEST(a_directory_that_is_no_overlay_is_shared)
{
	begin(NULL);
	add();
	CHECK_INT(images(), 0);
	again();
	yajl_tree_free(spec);
	spec = yajl_tree_parse("{\"root\":{\"path\":\"nowhere\"}}", NULL, 0);
	CHECK_INT(add_mode(ROOTFS_IMAGE), CCHV_ERR_NOT_FOUND);
	CHECK_CONTAINS(error, "'nowhere'");
	end();
}

TEST(images_that_are_mounted_are_not_built_again)
{
	begin(NULL);
	make_layers();
	sh("for i in 1 2; do mkdir m$i; mkfs.erofs -Enoinline_data i$i.erofs l$i >/dev/null 2>&1; done;"
	   "for i in 1 2; do mount -t erofs -o ro,loop i$i.erofs m$i; done");
	add_mount("overlay", "overlay", "workdir=@/w", "upperdir=@/u", "lowerdir=@/m2:@/m1", NULL);
	CHECK_INT(setenv("PATH", "/nonexistent", 1), 0);
	add();
	CHECK_INT(images(), 0);
	end();
}

TEST(an_image_and_a_directory_are_built_into_one)
{
	begin(NULL);
	make_layers();
	sh("mkdir m1; mkfs.erofs -Enoinline_data i1.erofs l1 >/dev/null 2>&1; mount -t erofs -o ro,loop i1.erofs m1");
	add_mount("overlay", "overlay", "workdir=@/w", "upperdir=@/u", "lowerdir=@/l2:@/m1", NULL);
	add();
	CHECK_INT(images(), 1);
	look("[ $(cat etc/f) = two ] && [ ! -e gone ]");
	end();
}

TEST(disks_images_and_binds_are_used_where_they_lie)
{
	begin(NULL);
	sh("mkdir tree; echo x >tree/f; mkfs.erofs -Enoinline_data one.erofs tree >/dev/null 2>&1;"
	   "cp one.erofs two.erofs; truncate -s 16M disk.img; mkfs.ext4 -q disk.img");
	{
		char *disk = in_dir("disk.img"), *one = in_dir("one.erofs");
		char *two = in_dir("two.erofs"), *tree = in_dir("tree");

		add_mount("ext4", disk, "loop", "rw", NULL);
		add();
		again();
		mount_list_clear(&mounts);
		add_mount("erofs", one, "ro", "loop", NULL);
		add_mount("erofs", two, "ro", "loop", NULL);
		add_mount("format/mkdir/overlay", "overlay", "lowerdir={{ overlay 0 1 }}", NULL);
		add();
		again();
		mount_list_clear(&mounts);
		add_mount("erofs", disk, "ro", NULL);
		CHECK_INT(add_mode(ROOTFS_IMAGE), CCHV_ERR_PROTOCOL);
		CHECK_CONTAINS(error, "disk.img");
		again();
		mount_list_clear(&mounts);
		add_mount("bind", tree, "rbind", "rw", NULL);
		add();
		CHECK_INT(images(), 0);
		again();
		mount_list_clear(&mounts);
		add_mount("bind", tree, "rbind", "ro", NULL);
		add();
		CHECK_INT(images(), 1);
		free(disk);
		free(one);
		free(two);
		free(tree);
	}
	end();
}
