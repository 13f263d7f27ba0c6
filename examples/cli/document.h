/* SPDX-License-Identifier: Apache-2.0 */
/* JSON for the command, by yajl: reading what lies on disk or comes from the library, writing what is shown.
 */
#ifndef CLI_DOCUMENT_H
#define CLI_DOCUMENT_H

#include <stdint.h>
#include <stdio.h>
#include <yajl/yajl_gen.h>
#include <yajl/yajl_tree.h>

/* Reading. A NULL tree is fine everywhere and has nothing in it. path: "config.Cmd". */
yajl_val document_parse(const char *text);     /* NULL when it is no JSON; yajl_tree_free() */
yajl_val document_read_file(const char *path); /* NULL and errno (EBADMSG: no JSON) */
yajl_val document_find(yajl_val tree, const char *path);
const char *document_string(yajl_val tree, const char *path); /* NULL when absent; lives with the tree */
uint64_t document_u64(yajl_val tree, const char *path, uint64_t otherwise);
int document_bool(yajl_val tree, const char *path); /* 0 when absent */
/* The strings of an array; what is {"b64"} is decoded. Free the strings. */
struct strings;
void document_strings(yajl_val tree, const char *path, struct strings *ret);

/* Writing. Nothing fails but memory, and then the program ends. */
yajl_gen document_new(int pretty);
void put_key(yajl_gen g, const char *key);
void put_string(yajl_gen g, const char *key,
		const char *text); /* key NULL: inside an array; text NULL: null */
void put_bytes(yajl_gen g, const char *key, const char *text); /* {"b64"} where it is no UTF-8 */
void put_u64(yajl_gen g, const char *key, uint64_t value);
void put_i64(yajl_gen g, const char *key, int64_t value);
void put_bool(yajl_gen g, const char *key, int value);
void put_tree(yajl_gen g, const char *key, yajl_val tree);
/* Print it with a line feed, and free it. */
void document_print(yajl_gen g, FILE *to);
/* Write it to a file, whole or not at all; frees it. 0, or -1 and errno. */
int document_write_file(yajl_gen g, const char *path);

#endif
