/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.json as a tree that can be changed before it goes to the library. Reading is by yajl; the nodes are the
 * tree's own, and what is taken out or put in is freed with it. A NULL tree has nothing in it.
 */
#ifndef SHIM_SPEC_TREE_H
#define SHIM_SPEC_TREE_H

#include <stddef.h>
#include <yajl/yajl_tree.h>

yajl_val spec_tree_get(yajl_val tree, const char *key);          /* a member of an object, or NULL */
yajl_val spec_tree_find(yajl_val tree, const char *path);        /* "linux.resources.memory" */
const char *spec_tree_string(yajl_val tree, const char *key);    /* NULL when it is absent or no string */
size_t spec_tree_count(yajl_val array);                          /* 0 when it is no array */
yajl_val spec_tree_at(yajl_val array, size_t index);
int spec_tree_has_string(yajl_val array, const char *text);      /* one of its strings is text */

/* 0 or CCHV_ERR_NOMEM (and CCHV_ERR_INVALID when tree is no object); the tree is whole either way. */
int spec_tree_set_string(yajl_val tree, const char *key, const char *text);
int spec_tree_set_object(yajl_val tree, const char *key); /* an empty one */
/* value is taken, whatever happens. CCHV_ERR_INVALID when it is no array. */
int spec_tree_append(yajl_val array, yajl_val value);
int spec_tree_set_strings(yajl_val tree, const char *key, const char *const *texts, size_t count);
/* One more entry of linux.devices: a block device, root's, mode 0660. The list is made where it is missing. */
int spec_tree_add_device(yajl_val spec, const char *path, unsigned int device_major, unsigned int device_minor);
void spec_tree_remove(yajl_val tree, const char *key);           /* absent is fine */
void spec_tree_remove_at(yajl_val array, size_t index);

/* The text of it; NULL: no memory. free() it. */
char *spec_tree_print(yajl_val tree);

#endif
