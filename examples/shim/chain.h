/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which image a chain of directories has become. Enters: the lower directories of a root file system. Leaves: a key,
 * and the digest that was built for exactly that key.
 *
 * The key is a text, and says of each directory in its order: file system (type and id, and its UUID where the kernel
 * tells it), inode, generation, birth time; of the top one also change time and the number of its entries. A
 * directory that was removed and made anew, at the same path and even with the same inode number, has another one: a
 * snapshotter that was wiped and filled again never starts the old image. Layers are committed, which is why what is
 * deeper inside of them is not looked at.
 *
 * <state_dir>/shim/chains/HASH holds digest and key, and the whole key is compared at each use: the hash is a name, and
 * nothing relies on it.
 */
#ifndef SHIM_CHAIN_H
#define SHIM_CHAIN_H

#include "layer_list.h"

/* 0 and *ret_key (free() it). With neither generation nor birth time there is nothing to tell an inode from its
   successor: CCHV_ERR_UNSUPPORTED, and the chain cannot be remembered. */
int chain_key(const struct layer_list *layers, char **ret_key, char **ret_error);
/* For a small directory that many containers have of their own, such as Docker's "-init" layer: its contents are the
   key. CCHV_ERR_LIMIT when it is not small. */
int chain_key_of_contents(const char *path, char **ret_key, char **ret_error);

/* 1 and *ret_digest (free() it), or 0. */
int chain_find(const char *state_dir, const char *key, char **ret_digest, char **ret_error);
int chain_store(const char *state_dir, const char *key, const char *digest, char **ret_error);
/* One builder per key: waits for the others. The fd is the lock; closing it lets the next one in. */
int chain_lock(const char *state_dir, const char *key, int *ret_fd, char **ret_error);

#endif
