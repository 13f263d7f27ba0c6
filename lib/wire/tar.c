/* SPDX-License-Identifier: Apache-2.0 */
/* The stream of a tar archive: see image/tar.h. Enters: bytes from outside. Leaves: entries and their data. */
#include "wire/tar.h"

#include "wire/tar_parse.h"

#include <string.h>

#define DATA_MAX (128U << 10)

struct tar {
	tar_source_fn source;
	void *user_data;
	struct tar_header header; /* the entry that was handed out last */
	struct buf global;        /* records of all 'g' headers so far; later ones win */
	uint64_t left;            /* data of the current entry that are still in the stream */
	uint32_t padding;         /* and the zeros after them */
	size_t piece;             /* of a sparse file: which one comes next */
	uint64_t piece_done;
	uint64_t offset;          /* of another file: how far it is read */
	int ended;
	uint8_t data[DATA_MAX];
};

/* What the headers before an entry have said about it. */
struct prelude {
	struct buf pax;
	char *path; /* GNU 'L' */
	char *link; /* GNU 'K' */
};

static void prelude_free(struct prelude *p)
{
	buf_free(&p->pax);
	free(p->path);
	free(p->link);
}

void tar_entry_free(struct tar_entry *entry)
{
	free(entry->path);
	free(entry->link);
	for (size_t i = 0; i < entry->xattr_count; i++) {
		free(entry->xattrs[i].name);
		free(entry->xattrs[i].value);
	}
	free(entry->xattrs);
	free(entry->pieces);
	memset(entry, 0, sizeof(*entry));
}

int tar_new(tar_source_fn source, void *user_data, struct tar **ret_tar, cchv_error **err)
{
	struct tar *tar = mem_zalloc(sizeof(*tar));

	if (!tar)
		return err_nomem(err);
	tar->source = source;
	tar->user_data = user_data;
	tar->global = (struct buf)BUF_INIT(TAR_META_MAX);
	*ret_tar = tar;
	return CCHV_OK;
}

void tar_free(struct tar *tar)
{
	if (!tar)
		return;
	tar_entry_free(&tar->header.entry);
	buf_free(&tar->global);
	free(tar);
}

/* 1; 0: the stream ends before the first byte; CCHV_ERR_PROTOCOL: it ends later. */
static int read_exactly(struct tar *tar, void *data, size_t len, cchv_error **err)
{
	size_t have = 0;

	while (have < len) {
		ssize_t n = tar->source(tar->user_data, (uint8_t *)data + have, len - have, err);

		if (n < 0)
			return (int)n;
		if (n == 0 && have == 0)
			return 0;
		if (n == 0)
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "the archive is cut short");
		have += (size_t)n;
	}
	return 1;
}

static int read_or_fail(struct tar *tar, void *data, size_t len, cchv_error **err)
{
	int r = len ? read_exactly(tar, data, len, err) : 1;

	return r ? r : err_set(err, CCHV_ERR_PROTOCOL, 0, "the archive is cut short");
}

static int skip(struct tar *tar, uint64_t len, cchv_error **err)
{
	while (len) {
		size_t n = len < sizeof(tar->data) ? (size_t)len : sizeof(tar->data);
		int r = read_or_fail(tar, tar->data, n, err);

		if (r < 0)
			return r;
		len -= n;
	}
	return CCHV_OK;
}

static uint32_t padding_of(uint64_t len)
{
	return (uint32_t)(-len & (TAR_BLOCK - 1));
}

/* The data of a header of pax or GNU, appended to buf. */
static int read_meta(struct tar *tar, uint64_t len, struct buf *buf, cchv_error **err)
{
	int r;

	if (len > TAR_META_MAX)
		return err_set(err, CCHV_ERR_LIMIT, 0, "an extended header of %llu bytes", (unsigned long long)len);
	r = buf_reserve(buf, (size_t)len);
	if (r < 0)
		return r == CCHV_ERR_NOMEM ? err_nomem(err) :
			err_set(err, r, 0, "extended headers of more than %u bytes", TAR_META_MAX);
	r = read_or_fail(tar, buf->data + buf->len, (size_t)len, err);
	if (r < 0)
		return r;
	buf->len += (size_t)len;
	return skip(tar, padding_of(len), err);
}

static int read_long_name(struct tar *tar, uint64_t len, char **slot, cchv_error **err)
{
	cleanup_buf struct buf b = BUF_INIT(TAR_META_MAX + 1);
	int r = read_meta(tar, len, &b, err);

	if (r < 0)
		return r;
	free(*slot);
	*slot = mem_strndup((const char *)b.data, strnlen((const char *)b.data, b.len));
	return *slot ? CCHV_OK : err_nomem(err);
}

/* Headers that speak about the next one. 1: it was one; 0: it is an entry of its own. */
static int read_prelude(struct tar *tar, struct tar_header *h, struct prelude *p, cchv_error **err)
{
	int r;

	switch (h->type) {
	case 'x':
	case 'X':
		buf_consume(&p->pax, p->pax.len);
		r = read_meta(tar, h->stored, &p->pax, err);
		break;
	case 'g':
		r = read_meta(tar, h->stored, &tar->global, err);
		break;
	case 'L':
		r = read_long_name(tar, h->stored, &p->path, err);
		break;
	case 'K':
		r = read_long_name(tar, h->stored, &p->link, err);
		break;
	case 'V': /* the volume's label */
		r = skip(tar, h->stored + padding_of(h->stored), err);
		break;
	default:
		return 0;
	}
	return r < 0 ? r : 1;
}

/* Extension blocks of GNU's old sparse form stand before the data. */
static int read_more_pieces(struct tar *tar, struct tar_header *h, cchv_error **err)
{
	uint8_t block[TAR_BLOCK];

	while (h->has_more_pieces) {
		int r = read_or_fail(tar, block, sizeof(block), err);

		if (r > 0)
			r = tar_pieces_of_block(block, 0, &h->entry, err);
		if (r < 0)
			return r;
		h->has_more_pieces = r;
	}
	return CCHV_OK;
}

/* Form 1.0: the map is text at the front of the data: a count, then offsets and lengths, a line each. */
static int read_map_line(struct tar *tar, uint8_t block[TAR_BLOCK], size_t *at, uint64_t *stored, uint64_t *ret,
                         cchv_error **err)
{
	uint64_t value = 0;
	int digits = 0;

	for (;;) {
		if (*at == TAR_BLOCK) {
			int r = *stored < TAR_BLOCK ? 0 : read_or_fail(tar, block, TAR_BLOCK, err);

			if (r < 0)
				return r;
			if (r == 0)
				break;
			*stored -= TAR_BLOCK;
			*at = 0;
		}
		uint8_t c = block[(*at)++];

		if (c == '\n' && digits) {
			*ret = value;
			return CCHV_OK;
		}
		if (c < '0' || c > '9' || ++digits > 18)
			break;
		value = value * 10 + (uint64_t)(c - '0');
	}
	return err_set(err, CCHV_ERR_PROTOCOL, 0, "a sparse map that holds no numbers");
}

static int read_map_text(struct tar *tar, struct tar_header *h, cchv_error **err)
{
	uint64_t count, offset, len;
	uint8_t block[TAR_BLOCK];
	size_t at = TAR_BLOCK;
	int r = read_map_line(tar, block, &at, &h->stored, &count, err);

	if (r < 0)
		return r;
	for (; count; count--) {
		r = read_map_line(tar, block, &at, &h->stored, &offset, err);
		if (r == CCHV_OK)
			r = read_map_line(tar, block, &at, &h->stored, &len, err);
		if (r == CCHV_OK)
			r = tar_piece_add(&h->entry.pieces, &h->entry.piece_count, offset, len, err);
		if (r < 0)
			return r;
	}
	return CCHV_OK;
}

static int apply_sparse(struct tar *tar, struct tar_header *h, struct tar_pax *pax, cchv_error **err)
{
	struct tar_entry *e = &h->entry;
	int is_text = pax->sparse_major == 1 && pax->sparse_minor == 0;

	if (h->is_old_sparse)
		return read_more_pieces(tar, h, err);
	if (pax->sparse_major > 1 || (pax->sparse_major == 1 && pax->sparse_minor > 0))
		return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "'%s': sparse form %d.%d is not known", e->path,
		               pax->sparse_major, pax->sparse_minor);
	if (!is_text && !pax->has_pieces)
		return CCHV_OK;
	if (!pax->has_sparse_size)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': a sparse file without its size", e->path);
	e->is_sparse = 1;
	e->size = pax->sparse_size;
	if (pax->sparse_name) {
		free(e->path);
		e->path = steal(&pax->sparse_name);
	}
	if (is_text)
		return read_map_text(tar, h, err);
	e->pieces = steal(&pax->pieces);
	e->piece_count = pax->piece_count;
	return CCHV_OK;
}

/* What the type flag means, now that the name is known. */
static int settle_type(struct tar_header *h, cchv_error **err)
{
	struct tar_entry *e = &h->entry;
	size_t len = strlen(e->path);

	switch (h->type) {
	case TAR_FILE:
	case '7': /* contiguous */
	case 'S':
		e->type = TAR_FILE;
		/* So v7 wrote directories. */
		if (h->type == TAR_FILE && !e->is_sparse && len && e->path[len - 1] == '/')
			e->type = TAR_DIR;
		break;
	case TAR_HARD_LINK:
	case TAR_SYMLINK:
	case TAR_CHAR:
	case TAR_BLOCK_DEVICE:
	case TAR_DIR:
	case TAR_FIFO:
		e->type = (enum tar_type)h->type;
		break;
	case 'D': /* GNU's incremental directory; its data are a listing */
		e->type = TAR_DIR;
		break;
	default:
		return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "'%s': entries of type 0x%02x are not known", e->path,
		               (unsigned char)h->type);
	}
	if (e->type != TAR_HARD_LINK && e->type != TAR_SYMLINK) {
		free(e->link);
		e->link = NULL;
	}
	/* Links and the like have no data, whatever their size field says: some writers put the target's there. */
	if (e->type != TAR_FILE && h->type != 'D')
		h->stored = 0;
	if (e->type == TAR_FILE && !e->is_sparse)
		e->size = h->stored;
	return CCHV_OK;
}

/* Everything that was said about an entry, in the order of its authority. */
static int assemble(struct tar *tar, struct tar_header *h, struct prelude *p, cchv_error **err)
{
	struct tar_pax pax = TAR_PAX_INIT;
	struct tar_entry *e = &h->entry;
	int r;

	if (p->path) {
		free(e->path);
		e->path = steal(&p->path);
	}
	if (p->link) {
		free(e->link);
		e->link = steal(&p->link);
	}
	r = tar_pax_apply(tar->global.data, tar->global.len, 1, h, &pax, err);
	if (r == CCHV_OK)
		r = tar_pax_apply(p->pax.data, p->pax.len, 0, h, &pax, err);
	if (r == CCHV_OK)
		r = apply_sparse(tar, h, &pax, err);
	tar_pax_free(&pax);
	if (r == CCHV_OK)
		r = settle_type(h, err);
	if (r == CCHV_OK && e->is_sparse && e->type != TAR_FILE)
		r = err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': a sparse map of something that is no file", e->path);
	if (r == CCHV_OK && e->is_sparse)
		r = tar_pieces_check(e, h->stored, err);
	if (r == CCHV_OK && e->size > INT64_MAX)
		r = err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': a size beyond 2^63", e->path);
	return r;
}

static int next_header(struct tar *tar, struct prelude *p, struct tar_header *ret, cchv_error **err)
{
	uint8_t block[TAR_BLOCK];

	for (;;) {
		struct tar_header h;
		int r = read_exactly(tar, block, sizeof(block), err);

		/* Archives end by two blocks of zeros; some writers leave one or both out. */
		if (r > 0)
			r = tar_header_parse(block, &h, err);
		if (r <= 0)
			return r;
		r = read_prelude(tar, &h, p, err);
		if (r == 0) {
			*ret = h;
			return 1;
		}
		tar_entry_free(&h.entry);
		if (r < 0)
			return r;
	}
}

int tar_next(struct tar *tar, const struct tar_entry **ret_entry, cchv_error **err)
{
	struct prelude p = { .pax = BUF_INIT(TAR_META_MAX) };
	struct tar_header h;
	int r;

	if (tar->ended)
		return 0;
	r = skip(tar, tar->left + tar->padding, err);
	tar->left = tar->padding = 0;
	tar_entry_free(&tar->header.entry);
	if (r == CCHV_OK)
		r = next_header(tar, &p, &h, err);
	if (r == 0 && (p.pax.len || p.path || p.link))
		r = err_set(err, CCHV_ERR_PROTOCOL, 0, "the archive ends after an extended header");
	if (r <= 0) {
		prelude_free(&p);
		tar->ended = r == 0;
		return r;
	}
	r = assemble(tar, &h, &p, err);
	prelude_free(&p);
	tar->header = h;
	if (r < 0)
		return r;
	tar->left = h.stored;
	tar->padding = padding_of(h.stored);
	tar->piece = 0;
	tar->piece_done = tar->offset = 0;
	*ret_entry = &tar->header.entry;
	return 1;
}

int tar_read(struct tar *tar, uint64_t *ret_offset, const void **ret_data, size_t *ret_len, cchv_error **err)
{
	const struct tar_entry *e = &tar->header.entry;
	uint64_t n = tar->left, at = tar->offset;
	int r;

	if (e->type != TAR_FILE || n == 0)
		return 0;
	if (e->is_sparse) {
		while (tar->piece_done == e->pieces[tar->piece].len) {
			tar->piece++;
			tar->piece_done = 0;
		}
		n = e->pieces[tar->piece].len - tar->piece_done;
		at = e->pieces[tar->piece].offset + tar->piece_done;
	}
	if (n > sizeof(tar->data))
		n = sizeof(tar->data);
	r = read_or_fail(tar, tar->data, (size_t)n, err);
	if (r < 0)
		return r;
	tar->left -= n;
	tar->piece_done += n;
	tar->offset += n;
	*ret_offset = at;
	*ret_data = tar->data;
	*ret_len = (size_t)n;
	return 1;
}
