/* SPDX-License-Identifier: Apache-2.0 */
/* An image against its tree: see image/verify.h. Enters: both. Leaves: equal, or the name of what differs. */
#include "image/verify.h"

#include "image/attr.h"
#include "image/erofs.h"
#include "image/tree.h"
#include "image/verify_data.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct verify {
	struct erofs fs;
	int root_fd;
	const struct sparse *sparse;
	cchv_progress *progress;
	struct map64 by_ino;    /* inode of the tree (device and number hashed): nid */
	struct map64 by_nid;    /* nid: names seen, names promised */
	char path[TREE_PATH_MAX];
	size_t len;
};

static int differs(const struct verify *v, const char *what, cchv_error **err)
{
	return err_set(err, CCHV_ERR_PROTOCOL, 0,
	               "'mkfs.erofs' has built something else than it was told, or the source has changed meanwhile: "
	               "'%s': %s", v->len ? v->path : "/", what);
}

static uint32_t encode_dev(dev_t dev)
{
	uint32_t maj = major(dev), min = minor(dev);

	return (min & 0xff) | maj << 8 | (min & ~0xffU) << 12;
}

static int check_inode(const struct verify *v, const struct stat *st, const struct erofs_inode *inode,
                       cchv_error **err)
{
	const struct sparse_file *f = S_ISREG(st->st_mode) ? sparse_find(v->sparse, st->st_ino) : NULL;
	uint64_t size = f ? f->size : (uint64_t)st->st_size;

	if (inode->mode != (uint32_t)st->st_mode)
		return differs(v, "type or mode", err);
	if (inode->uid != st->st_uid || inode->gid != st->st_gid)
		return differs(v, "owner", err);
	if (inode->mtime_s != (uint64_t)st->st_mtim.tv_sec || inode->mtime_ns != (uint32_t)st->st_mtim.tv_nsec)
		return differs(v, "time", err);
	if ((S_ISREG(st->st_mode) || S_ISLNK(st->st_mode)) && inode->size != size)
		return differs(v, "size", err);
	if ((S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode)) && inode->rdev != encode_dev(st->st_rdev))
		return differs(v, "device number", err);
	return CCHV_OK;
}

static int check_xattrs(const struct verify *v, const struct erofs_inode *inode, cchv_error **err)
{
	cleanup_buf struct buf names = BUF_INIT(ATTR_LIST_MAX), value = BUF_INIT(ATTR_VALUE_MAX);
	const char *path = v->len ? v->path : ".";
	int dropped = 0, r = attr_list(v->root_fd, path, &names, &dropped, err);
	uint32_t wanted = 0, found = 0;
	struct erofs_xattr x;

	for (size_t i = 0; i < names.len; i++)
		wanted += names.data[i] == 0;
	while (r >= 0 && (r = erofs_xattr_at(&v->fs, inode, found, &x, err)) > 0) {
		const char *p = (const char *)names.data, *end = p + names.len;

		while (p < end && strcmp(p, x.name) != 0)
			p += strlen(p) + 1;
		if (p >= end)
			return differs(v, "an attribute that the file does not have", err);
		value.len = 0;
		r = attr_read(v->root_fd, path, x.name, &value, err);
		if (r == CCHV_OK && (value.len != x.len || memcmp(value.data, x.value, x.len) != 0))
			return differs(v, "the value of an attribute", err);
		found++;
	}
	if (r < 0)
		return r;
	return found == wanted ? CCHV_OK : differs(v, "an attribute is missing", err);
}

static int check_content(struct verify *v, const struct stat *st, const struct erofs_inode *inode, cchv_error **err)
{
	const struct sparse_file *f;
	int r;

	if (S_ISLNK(st->st_mode)) {
		r = verify_link(&v->fs, inode, v->root_fd, v->path, err);
	} else if (S_ISREG(st->st_mode)) {
		f = sparse_find(v->sparse, st->st_ino);
		r = f ? verify_sparse(&v->fs, inode, v->sparse, f, v->progress, err) :
		        verify_file(&v->fs, inode, v->root_fd, v->path, v->progress, err);
	} else {
		return CCHV_OK;
	}
	if (r == 0)
		return differs(v, "contents", err);
	return r < 0 ? r : CCHV_OK;
}

/* One file of the tree is one inode of the image, and the other way round. 1: it was seen by another name. */
static int check_identity(struct verify *v, const struct stat *st, const struct erofs_inode *inode, cchv_error **err)
{
	uint64_t key = map64_hash(map64_hash(0, &st->st_dev, sizeof(st->st_dev)), &st->st_ino, sizeof(st->st_ino));
	const struct map64_slot *known = map64_get(&v->by_ino, key), *names = map64_get(&v->by_nid, inode->nid);

	if ((known && known->a != inode->nid) || (!known && names))
		return differs(v, "hard links", err);
	if (map64_put(&v->by_nid, inode->nid, names ? names->a + 1 : 1, inode->nlink) < 0 ||
	    (!known && map64_put(&v->by_ino, key, inode->nid, 0) < 0))
		return err_nomem(err);
	return known != NULL;
}

static int check_dir(struct verify *v, const struct erofs_inode *dir, cchv_error **err);

static int check_name(struct verify *v, uint64_t nid, cchv_error **err)
{
	struct erofs_inode inode;
	struct stat st;
	int seen = 0, r = progress_check(v->progress, err);

	if (r == CCHV_OK)
		r = erofs_inode_read(&v->fs, nid, &inode, err);
	if (r < 0)
		return r;
	if (fstatat(v->root_fd, v->len ? v->path : ".", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s'", v->path);
	r = check_inode(v, &st, &inode, err);
	if (r == CCHV_OK && !S_ISDIR(st.st_mode))
		seen = r = check_identity(v, &st, &inode, err);
	if (r < 0 || seen)
		return r < 0 ? r : CCHV_OK;
	r = check_xattrs(v, &inode, err);
	if (r == CCHV_OK)
		r = S_ISDIR(st.st_mode) ? check_dir(v, &inode, err) : check_content(v, &st, &inode, err);
	return r;
}

struct pair {
	const uint8_t *name;
	size_t len;
	uint64_t nid;
};

static int compare_pairs(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	int c = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);

	return c ? c : x->len < y->len ? -1 : x->len > y->len;
}

/* The names of a directory of the image but "." and "..", sorted. */
static int image_names(const struct verify *v, const struct erofs_inode *dir, struct pair **ret, size_t *ret_count,
                       cchv_error **err)
{
	struct erofs_dir_position position = { 0 };
	cleanup_free struct pair *pairs = NULL;
	size_t count = 0, room = 0;
	struct erofs_name n;
	int r;

	while ((r = erofs_dir_next(&v->fs, dir, &position, &n, err)) > 0) {
		if (n.name[0] == '.' && (n.len == 1 || (n.len == 2 && n.name[1] == '.')))
			continue;
		if (count == room) {
			struct pair *more;

			room = room ? room * 2 : 32;
			more = mem_realloc_array(pairs, room, sizeof(*more));
			if (!more)
				return err_nomem(err);
			pairs = more;
		}
		pairs[count++] = (struct pair){ n.name, n.len, n.nid };
	}
	if (r < 0)
		return r;
	if (count > 1)
		qsort(pairs, count, sizeof(*pairs), compare_pairs);
	*ret = steal(&pairs);
	*ret_count = count;
	return CCHV_OK;
}

/* The recursion ends where the tree does: the tree's names lead it, and each must be in the image. */
static int check_dir(struct verify *v, const struct erofs_inode *dir, cchv_error **err)
{
	cleanup_buf struct buf names = BUF_INIT(TREE_NAMES_MAX);
	cleanup_free struct pair *pairs = NULL;
	size_t count = 0, image_count = 0, base = v->len;
	const char *name;
	int r = tree_list(v->root_fd, base ? v->path : ".", &names, &count, err);

	if (r == CCHV_OK)
		r = image_names(v, dir, &pairs, &image_count, err);
	if (r < 0)
		return r;
	name = (const char *)names.data;
	for (size_t i = 0; i < count && i < image_count; i++, name += strlen(name) + 1) {
		size_t n = strlen(name);

		if (pairs[i].len != n || memcmp(pairs[i].name, name, n) != 0)
			return differs(v, "its names", err);
		if (base + n + 2 > sizeof(v->path))
			return err_set(err, CCHV_ERR_LIMIT, 0, "'%.200s...': a path that is too long", v->path);
		if (base)
			v->path[v->len++] = '/';
		memcpy(v->path + v->len, name, n + 1);
		v->len += n;
		r = check_name(v, pairs[i].nid, err);
		if (r < 0)
			return r;
		v->len = base;
		v->path[base] = '\0';
	}
	return count == image_count ? CCHV_OK : differs(v, "the number of its names", err);
}

static int check_link_counts(struct verify *v, cchv_error **err)
{
	for (size_t i = 0; i < v->by_nid.room; i++)
		if (v->by_nid.slots[i].used && v->by_nid.slots[i].a != v->by_nid.slots[i].b)
			return err_set(err, CCHV_ERR_PROTOCOL, 0,
			               "'mkfs.erofs' has built a file of %llu names that counts %llu links",
			               (unsigned long long)v->by_nid.slots[i].a,
			               (unsigned long long)v->by_nid.slots[i].b);
	return CCHV_OK;
}

static int check_super(const struct verify *v, cchv_error **err)
{
	if (v->fs.super.compat & EROFS_COMPAT_CHECKSUM &&
	    (v->fs.size < EROFS_BLOCK || v->fs.super.checksum != erofs_super_checksum(v->fs.data)))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "'mkfs.erofs' has built an image with a wrong checksum");
	return CCHV_OK;
}

int verify_image(int image_fd, int root_fd, const struct sparse *sparse, cchv_progress *progress, cchv_error **err)
{
	cleanup_free struct verify *v = mem_zalloc(sizeof(*v));
	int r;

	if (!v)
		return err_nomem(err);
	v->root_fd = root_fd;
	v->sparse = sparse;
	v->progress = progress;
	r = erofs_open(&v->fs, image_fd, err);
	if (r == CCHV_OK)
		r = check_super(v, err);
	if (r == CCHV_OK)
		r = check_name(v, v->fs.super.root_nid, err);
	if (r == CCHV_OK)
		r = check_link_counts(v, err);
	map64_clear(&v->by_ino);
	map64_clear(&v->by_nid);
	erofs_close(&v->fs);
	return r;
}
