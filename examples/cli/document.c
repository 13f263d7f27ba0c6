/* SPDX-License-Identifier: Apache-2.0 */
/* JSON for the command: see document.h. Enters: text, values. Leaves: values, text. */
#include "document.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

#define MAX_FILE (16 << 20)

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

yajl_val document_parse(const char *text)
{
	char reason[256];

	return yajl_tree_parse(text, reason, sizeof(reason));
}

yajl_val document_read_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	yajl_val tree = NULL;
	struct stat st;
	char *text;
	ssize_t n;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > MAX_FILE) {
		close(fd);
		errno = EBADMSG;
		return NULL;
	}
	text = xalloc((size_t)st.st_size + 1);
	n = read(fd, text, (size_t)st.st_size);
	close(fd);
	if (n == st.st_size)
		tree = document_parse(text);
	free(text);
	if (!tree)
		errno = EBADMSG;
	return tree;
}

yajl_val document_find(yajl_val tree, const char *path)
{
	const char *keys[16];
	char *copy = xstrdup(path), *rest = copy;
	yajl_val found;
	size_t n = 0;

	while (n < 15 && rest)
		keys[n++] = strsep(&rest, ".");
	keys[n] = NULL;
	found = tree ? yajl_tree_get(tree, keys, yajl_t_any) : NULL;
	free(copy);
	return found;
}

const char *document_string(yajl_val tree, const char *path)
{
	yajl_val v = document_find(tree, path);

	return YAJL_IS_STRING(v) ? YAJL_GET_STRING(v) : NULL;
}

uint64_t document_u64(yajl_val tree, const char *path, uint64_t otherwise)
{
	yajl_val v = document_find(tree, path);
	char *end;
	uint64_t value;

	if (!YAJL_IS_NUMBER(v))
		return otherwise;
	/* From the text: yajl's own integer stops at 2^63. */
	errno = 0;
	value = strtoull(YAJL_GET_NUMBER(v), &end, 10);
	return errno || *end ? otherwise : value;
}

int document_bool(yajl_val tree, const char *path)
{
	return YAJL_IS_TRUE(document_find(tree, path));
}

static char *decode_base64(const char *text)
{
	size_t n = strlen(text), o = 0;
	char *out = xalloc(n / 4 * 3 + 1);
	uint32_t v = 0;

	for (size_t i = 0; i < n && text[i] != '='; i++) {
		const char *at = strchr(alphabet, text[i]);

		if (!at)
			break;
		v = v << 6 | (uint32_t)(at - alphabet);
		if (i % 4 == 1)
			out[o++] = (char)(v >> 4);
		else if (i % 4 == 2)
			out[o++] = (char)(v >> 2);
		else if (i % 4 == 3)
			out[o++] = (char)v;
	}
	out[o] = '\0';
	return out;
}

void document_strings(yajl_val tree, const char *path, struct strings *ret)
{
	yajl_val v = document_find(tree, path);

	if (!YAJL_IS_ARRAY(v))
		return;
	for (size_t i = 0; i < YAJL_GET_ARRAY(v)->len; i++) {
		yajl_val item = YAJL_GET_ARRAY(v)->values[i];
		const char *b64 = document_string(item, "b64");
		char *decoded;

		if (YAJL_IS_STRING(item)) {
			strings_add(ret, YAJL_GET_STRING(item));
		} else if (b64) {
			decoded = decode_base64(b64);
			strings_add(ret, decoded);
			free(decoded);
		}
	}
}

yajl_gen document_new(int pretty)
{
	yajl_gen g = yajl_gen_alloc(NULL);

	if (!g) {
		fputs("cchv: out of memory\n", stderr);
		exit(EXIT_OURS);
	}
	yajl_gen_config(g, yajl_gen_beautify, pretty);
	yajl_gen_config(g, yajl_gen_indent_string, "  ");
	return g;
}

static void put_text(yajl_gen g, const char *text)
{
	yajl_gen_string(g, (const unsigned char *)text, strlen(text));
}

void put_key(yajl_gen g, const char *key)
{
	if (key)
		put_text(g, key);
}

void put_string(yajl_gen g, const char *key, const char *text)
{
	put_key(g, key);
	if (text)
		put_text(g, text);
	else
		yajl_gen_null(g);
}

/* yajl's own check of UTF-8 is the judge. */
static int is_utf8(const char *text)
{
	yajl_gen g = document_new(0);
	int ok;

	yajl_gen_config(g, yajl_gen_validate_utf8, 1);
	ok = yajl_gen_string(g, (const unsigned char *)text, strlen(text)) == yajl_gen_status_ok;
	yajl_gen_free(g);
	return ok;
}

void put_bytes(yajl_gen g, const char *key, const char *text)
{
	size_t n = strlen(text), o = 0;
	char *b64;

	put_key(g, key);
	if (is_utf8(text)) {
		put_text(g, text);
		return;
	}
	b64 = xalloc((n + 2) / 3 * 4 + 1);
	for (size_t i = 0; i < n; i += 3) {
		unsigned int a = (unsigned char)text[i], b = i + 1 < n ? (unsigned char)text[i + 1] : 0,
			     c = i + 2 < n ? (unsigned char)text[i + 2] : 0, v = a << 16 | b << 8 | c;

		b64[o++] = alphabet[v >> 18];
		b64[o++] = alphabet[v >> 12 & 63];
		b64[o++] = i + 1 < n ? alphabet[v >> 6 & 63] : '=';
		b64[o++] = i + 2 < n ? alphabet[v & 63] : '=';
	}
	yajl_gen_map_open(g);
	put_string(g, "b64", b64);
	yajl_gen_map_close(g);
	free(b64);
}

void put_u64(yajl_gen g, const char *key, uint64_t value)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)value);

	put_key(g, key);
	yajl_gen_number(g, text, (size_t)n);
}

void put_i64(yajl_gen g, const char *key, int64_t value)
{
	put_key(g, key);
	yajl_gen_integer(g, value);
}

void put_bool(yajl_gen g, const char *key, int value)
{
	put_key(g, key);
	yajl_gen_bool(g, value);
}

void put_tree(yajl_gen g, const char *key, yajl_val tree)
{
	put_key(g, key);
	if (YAJL_IS_STRING(tree)) {
		put_text(g, YAJL_GET_STRING(tree));
	} else if (YAJL_IS_NUMBER(tree)) {
		yajl_gen_number(g, YAJL_GET_NUMBER(tree), strlen(YAJL_GET_NUMBER(tree)));
	} else if (YAJL_IS_TRUE(tree) || YAJL_IS_FALSE(tree)) {
		yajl_gen_bool(g, YAJL_IS_TRUE(tree));
	} else if (YAJL_IS_ARRAY(tree)) {
		yajl_gen_array_open(g);
		for (size_t i = 0; i < YAJL_GET_ARRAY(tree)->len; i++)
			put_tree(g, NULL, YAJL_GET_ARRAY(tree)->values[i]);
		yajl_gen_array_close(g);
	} else if (YAJL_IS_OBJECT(tree)) {
		yajl_gen_map_open(g);
		for (size_t i = 0; i < YAJL_GET_OBJECT(tree)->len; i++)
			put_tree(g, YAJL_GET_OBJECT(tree)->keys[i], YAJL_GET_OBJECT(tree)->values[i]);
		yajl_gen_map_close(g);
	} else {
		yajl_gen_null(g);
	}
}

void document_print(yajl_gen g, FILE *to)
{
	const unsigned char *text;
	size_t len;

	yajl_gen_get_buf(g, &text, &len);
	fwrite(text, 1, len, to);
	if (len == 0 || text[len - 1] != '\n')
		fputc('\n', to);
	yajl_gen_free(g);
}

int document_write_file(yajl_gen g, const char *path)
{
	char *temp = xprintf("%s.%d.tmp", path, getpid());
	int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600), saved, r = -1;
	const unsigned char *text;
	size_t len;

	yajl_gen_get_buf(g, &text, &len);
	if (fd >= 0) {
		if (write(fd, text, len) == (ssize_t)len && fsync(fd) == 0 && rename(temp, path) == 0)
			r = 0;
		saved = errno;
		close(fd);
		if (r < 0)
			unlink(temp);
		errno = saved;
	}
	yajl_gen_free(g);
	free(temp);
	return r;
}
