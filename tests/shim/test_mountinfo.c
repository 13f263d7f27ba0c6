/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "examples/shim/layer_list.h"
#include "examples/shim/mountinfo.h"

#include <cchv/error.h>

static const char text[] =
	"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n"
	"30 22 0:30 / /with\\040space rw - tmpfs tmpfs rw\n"
	"40 22 0:40 / /merged rw,relatime shared:2 master:1 propagate_from:3 - overlay overlay "
	"rw,lowerdir=/d/l/AA:/d/a\\134:b:/d/x\\054y,upperdir=/d/id/diff,workdir=/d/id/work\n"
	"41 22 0:41 / /twice rw - tmpfs first rw\n"
	"42 22 0:42 /part /twice rw - tmpfs second rw,size=4k\n"
	"too short\n"
	"43 22 0:43 / /nodash rw shared:3 tmpfs x rw\n";

static int find(const char *path, struct mount_list *list)
{
	FILE *file = fmemopen((void *)text, sizeof(text) - 1, "r");
	int r = mountinfo_find(file, path, list);

	fclose(file);
	return r;
}

TEST(an_overlay_and_its_layers_are_found)
{
	struct mount_list list = { 0 };
	struct layer_list layers;

	CHECK_INT(find("/merged", &list), 1);
	CHECK_STR(list.items[0].type, "overlay");
	CHECK_STR(list.items[0].target, "/");
	CHECK_STR(mount_get_option(&list.items[0], "upperdir"), "/d/id/diff");
	CHECK_INT(layer_list_of_mount(&list.items[0], &layers), CCHV_OK);
	CHECK_INT(layers.count, 3);
	CHECK_STR(layers.paths[0], "/d/l/AA");
	CHECK_STR(layers.paths[1], "/d/a:b");
	CHECK_STR(layers.paths[2], "/d/x,y");
	layer_list_remove_first(&layers);
	CHECK_STR(layers.paths[0], "/d/a:b");
	layer_list_clear(&layers);
	mount_list_clear(&list);
}

TEST(the_topmost_mount_counts_and_names_are_decoded)
{
	struct mount_list list = { 0 };

	CHECK_INT(find("/twice", &list), 1);
	CHECK_STR(list.items[0].source, "second");
	CHECK_STR(list.items[0].target, "/part");
	CHECK_INT(find("/with space", &list), 1);
	CHECK_STR(list.items[1].type, "tmpfs");
	mount_list_clear(&list);
}

TEST(what_is_not_mounted_or_cut_short_is_not_found)
{
	struct mount_list list = { 0 };

	CHECK_INT(find("/mer", &list), 0);
	CHECK_INT(find("/nodash", &list), 0);
	CHECK_INT(find("", &list), 0);
	CHECK_INT(list.count, 0);
	CHECK_INT(mountinfo_find_here("/proc", &list), 1);
	CHECK_STR(list.items[0].type, "proc");
	mount_list_clear(&list);
}

static int layers_of(const char *const *options, struct layer_list *layers)
{
	struct mount_list list = { 0 };
	int r;

	CHECK_INT(mount_list_add(&list, "overlay", "overlay", ""), CCHV_OK);
	for (; *options; options++)
		CHECK_INT(mount_list_add_option(&list, *options), CCHV_OK);
	r = layer_list_of_mount(&list.items[0], layers);
	mount_list_clear(&list);
	return r;
}

TEST(layers_come_together_or_one_by_one)
{
	static const char *const relative[] = { "lowerdir=l/A:l/B", "upperdir=/var/d/id/diff", NULL };
	static const char *const single[] = { "lowerdir+=/a:b", "lowerdir+=/c", NULL };
	static const char *const lost[] = { "lowerdir=l/A", NULL }, *const none[] = { "ro", NULL };
	static const char *const empty[] = { "lowerdir=/a:", NULL };
	static const char *const data[] = { "lowerdir=/a::/b", NULL };
	static const char *const data2[] = { "lowerdir=/a", "datadir+=/b", NULL };
	struct layer_list layers;

	CHECK_INT(layers_of(relative, &layers), CCHV_OK);
	CHECK_STR(layers.paths[1], "/var/d/l/B");
	layer_list_clear(&layers);
	CHECK_INT(layers_of(single, &layers), CCHV_OK);
	CHECK_INT(layers.count, 2);
	CHECK_STR(layers.paths[0], "/a:b");
	layer_list_clear(&layers);
	CHECK_INT(layers_of(lost, &layers), CCHV_ERR_INVALID);
	CHECK_INT(layers_of(none, &layers), CCHV_ERR_INVALID);
	CHECK_INT(layers_of(empty, &layers), CCHV_ERR_INVALID);
	CHECK_INT(layers_of(data, &layers), CCHV_ERR_UNSUPPORTED);
	CHECK_INT(layers_of(data2, &layers), CCHV_ERR_UNSUPPORTED);
}
