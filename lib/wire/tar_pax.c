/* SPDX-License-Identifier: Apache-2.0 */
/* Extended headers of pax. Enters: "LENGTH KEY=VALUE\n" from outside. Leaves: fields of the entry. */
#include "wire/tar_parse.h"

#include <string.h>

struct record {
	const char *key;
	size_t key_len;
	const char *value;
	size_t len;
};

/* Cut one record off. */
static int next_record(const char **text, size_t *left, struct record *ret, cchv_error **err)
{
	const char *p = *text, *equals;
	size_t len = 0, i = 0;

	for (; i < *left && p[i] >= '0' && p[i] <= '9' && i < 9; i++)
		len = len * 10 + (size_t)(p[i] - '0');
	if (i == 0 || i >= *left || p[i] != ' ' || len > *left || len < i + 3 || p[len - 1] != '\n')
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "a malformed pax header");
	i++;
	equals = memchr(p + i, '=', len - i);
	if (!equals || equals == p + i)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "a pax record without a key");
	ret->key = p + i;
	ret->key_len = (size_t)(equals - ret->key);
	ret->value = equals + 1;
	ret->len = (size_t)(p + len - 1 - ret->value);
	*text += len;
	*left -= len;
	return CCHV_OK;
}

static int is_key(const struct record *r, const char *key)
{
	return r->key_len == strlen(key) && memcmp(r->key, key, r->key_len) == 0;
}

static int as_u64(const char *text, size_t len, uint64_t *ret)
{
	uint64_t value = 0;

	if (len == 0)
		return CCHV_ERR_PROTOCOL;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9' || value > (INT64_MAX - 9) / 10)
			return CCHV_ERR_PROTOCOL;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	*ret = value;
	return CCHV_OK;
}

/* Seconds since the epoch with a fraction, maybe negative: -1.25 is 0.75 after -2. */
static int as_time(const struct record *r, struct tar_entry *e)
{
	const char *p = r->value, *end = p + r->len, *dot;
	int negative = p < end && *p == '-';
	uint64_t seconds;
	uint32_t ns = 0, unit = 100000000;

	p += negative;
	dot = memchr(p, '.', (size_t)(end - p));
	if (as_u64(p, (size_t)((dot ? dot : end) - p), &seconds) < 0)
		return CCHV_ERR_PROTOCOL;
	for (p = dot ? dot + 1 : end; p < end; p++) {
		if (*p < '0' || *p > '9')
			return CCHV_ERR_PROTOCOL;
		ns += (uint32_t)(*p - '0') * unit;
		unit /= 10;
	}
	e->mtime_s = negative ? -(int64_t)seconds - (ns ? 1 : 0) : (int64_t)seconds;
	e->mtime_ns = negative && ns ? 1000000000 - ns : ns;
	return CCHV_OK;
}

/* An empty value takes an earlier one back; what the header block says then stays. */
static int as_text(const struct record *r, char **slot, cchv_error **err)
{
	char *copy;

	if (r->len == 0)
		return CCHV_OK;
	if (memchr(r->value, 0, r->len))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "a pax name with a NUL");
	copy = mem_strndup(r->value, r->len);
	if (!copy)
		return err_nomem(err);
	free(*slot);
	*slot = copy;
	return CCHV_OK;
}

static int add_xattr(struct tar_entry *e, const char *name, size_t name_len, const void *value, size_t len,
                     cchv_error **err)
{
	struct tar_xattr x = { .len = len }, *all;

	if (name_len == 0 || name_len > 255 || memchr(name, 0, name_len) || len > 65535)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': an extended attribute that no file can have",
		               e->path);
	for (size_t i = 0; i < e->xattr_count; i++)
		if (strlen(e->xattrs[i].name) == name_len && memcmp(e->xattrs[i].name, name, name_len) == 0)
			return CCHV_OK; /* said twice: SCHILY and LIBARCHIVE forms of one attribute */
	all = mem_realloc_array(e->xattrs, e->xattr_count + 1, sizeof(*all));
	if (!all)
		return err_nomem(err);
	e->xattrs = all;
	x.name = mem_strndup(name, name_len);
	x.value = mem_memdup(len ? value : "", len ? len : 1);
	if (!x.name || !x.value) {
		free(x.name);
		free(x.value);
		return err_nomem(err);
	}
	e->xattrs[e->xattr_count++] = x;
	return CCHV_OK;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int base64_digit(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *p = c ? strchr(digits, c) : NULL;

	return p ? (int)(p - digits) : -1;
}

/* libarchive's form: the name with %XX, the value in base64 with or without padding. */
static int add_xattr_libarchive(struct tar_entry *e, const char *name, size_t name_len, const struct record *r,
                                cchv_error **err)
{
	cleanup_buf struct buf n = BUF_INIT(256), v = BUF_INIT(65536);
	uint32_t bits = 0;
	int count = 0, code = CCHV_OK;

	for (size_t i = 0; i < name_len && code == CCHV_OK; i++) {
		uint8_t b = (uint8_t)name[i];

		if (b == '%' && name_len - i > 2 && hex(name[i + 1]) >= 0 && hex(name[i + 2]) >= 0) {
			b = (uint8_t)(hex(name[i + 1]) << 4 | hex(name[i + 2]));
			i += 2;
		}
		code = buf_append_byte(&n, b);
	}
	for (size_t i = 0; i < r->len && r->value[i] != '=' && code == CCHV_OK; i++) {
		int d = base64_digit(r->value[i]);

		if (d < 0)
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': an attribute that is no base64", e->path);
		bits = bits << 6 | (uint32_t)d;
		if (++count % 4 != 1)
			code = buf_append_byte(&v, (uint8_t)(bits >> ((4 - count % 4) % 4 * 2)));
	}
	if (code < 0)
		return code == CCHV_ERR_NOMEM ? err_nomem(err) :
			err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': an extended attribute that no file can have",
			        e->path);
	return add_xattr(e, (char *)n.data, n.len, v.data, v.len, err);
}

/* Forms 0.0 (an offset, then its length, repeated) and 0.1 (all in one line). */
static int add_pieces(struct tar_pax *pax, const struct record *r, cchv_error **err)
{
	const char *p = r->value, *end = p + r->len;

	pax->has_pieces = 1;
	while (p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		uint64_t number;
		int code = CCHV_OK;

		if (!comma)
			comma = end;
		if (as_u64(p, (size_t)(comma - p), &number) < 0)
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "a sparse map that holds no numbers");
		if (pax->has_pending)
			code = tar_piece_add(&pax->pieces, &pax->piece_count, pax->pending_offset, number, err);
		else
			pax->pending_offset = number;
		if (code < 0)
			return code;
		pax->has_pending = !pax->has_pending;
		p = comma + (comma < end);
	}
	return CCHV_OK;
}

static int apply_sparse(const struct record *r, struct tar_pax *pax, cchv_error **err)
{
	uint64_t number = 0;

	if (is_key(r, "GNU.sparse.name"))
		return as_text(r, &pax->sparse_name, err);
	if (is_key(r, "GNU.sparse.map"))
		return add_pieces(pax, r, err);
	if (as_u64(r->value, r->len, &number) < 0)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "a sparse file whose '%.*s' is no number",
		               (int)(r->key_len < 64 ? r->key_len : 64), r->key);
	if (is_key(r, "GNU.sparse.offset") || is_key(r, "GNU.sparse.numbytes"))
		return add_pieces(pax, r, err);
	if (is_key(r, "GNU.sparse.major")) {
		pax->sparse_major = number > 9 ? 9 : (int)number;
	} else if (is_key(r, "GNU.sparse.minor")) {
		pax->sparse_minor = number > 9 ? 9 : (int)number;
	} else if (is_key(r, "GNU.sparse.size") || is_key(r, "GNU.sparse.realsize")) {
		pax->sparse_size = number;
		pax->has_sparse_size = 1;
	}
	return CCHV_OK;
}

static int apply_number(const struct record *r, uint64_t *slot, const char *path, cchv_error **err)
{
	if (r->len && as_u64(r->value, r->len, slot) < 0)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': its '%.*s' is no number", path,
		               (int)(r->key_len < 64 ? r->key_len : 64), r->key);
	return CCHV_OK;
}

static int apply(const struct record *r, int is_global, struct tar_header *h, struct tar_pax *pax, cchv_error **err)
{
	static const char schily[] = "SCHILY.xattr.", libarchive[] = "LIBARCHIVE.xattr.", sparse[] = "GNU.sparse.";
	const size_t sl = sizeof(schily) - 1, ll = sizeof(libarchive) - 1, gl = sizeof(sparse) - 1;
	struct tar_entry *e = &h->entry;

	if (is_key(r, "uid"))
		return apply_number(r, &e->uid, e->path, err);
	if (is_key(r, "gid"))
		return apply_number(r, &e->gid, e->path, err);
	if (is_key(r, "mtime")) {
		if (r->len && as_time(r, e) < 0)
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': its 'mtime' is no time", e->path);
		return CCHV_OK;
	}
	if (is_global)
		return CCHV_OK;
	if (is_key(r, "path"))
		return as_text(r, &e->path, err);
	if (is_key(r, "linkpath"))
		return as_text(r, &e->link, err);
	if (is_key(r, "size"))
		return apply_number(r, &h->stored, e->path, err);
	if (r->key_len > sl && memcmp(r->key, schily, sl) == 0)
		return add_xattr(e, r->key + sl, r->key_len - sl, r->value, r->len, err);
	if (r->key_len > ll && memcmp(r->key, libarchive, ll) == 0)
		return add_xattr_libarchive(e, r->key + ll, r->key_len - ll, r, err);
	if (r->key_len > gl && memcmp(r->key, sparse, gl) == 0)
		return apply_sparse(r, pax, err);
	return CCHV_OK;
}

int tar_pax_apply(const uint8_t *data, size_t len, int is_global, struct tar_header *header, struct tar_pax *pax,
                  cchv_error **err)
{
	const char *text = (const char *)data;

	while (len) {
		struct record r;
		int code = next_record(&text, &len, &r, err);

		if (code == CCHV_OK)
			code = apply(&r, is_global, header, pax, err);
		if (code < 0)
			return code;
	}
	if (pax->has_pending)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "a sparse map that ends in the middle");
	return CCHV_OK;
}

void tar_pax_free(struct tar_pax *pax)
{
	free(pax->sparse_name);
	free(pax->pieces);
}
