/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shim's own files in a bundle. They vanish with it.
 *
 *   address     of the server, for the daemon
 *   cchv.state  what is to be cleaned up after this container; removed when nothing is (state_file.h)
 *   cchv.exit   how init ended
 *   cchv.options  the runtime's options as they came to "start"
 */
#ifndef SHIM_BUNDLE_H
#define SHIM_BUNDLE_H

#include <stddef.h>
#include <stdint.h>

#define BUNDLE_ADDRESS "address"
#define BUNDLE_STATE   "cchv.state"
#define BUNDLE_EXIT    "cchv.exit"
#define BUNDLE_OPTIONS "cchv.options"
#define BUNDLE_CONFIG  "config.json"

struct exit_note {
	uint32_t pid, status;
	uint64_t time_ns;
};

/* Whole or not at all: by a temporary name. 0, or -1 with errno. */
int bundle_write(const char *bundle, const char *name, const void *data, size_t len);
/* 0 with an allocated text, ended by a NUL; -1 with errno (EFBIG above max). */
int bundle_read(const char *bundle, const char *name, size_t max, char **ret_data, size_t *ret_len);
int bundle_write_exit(const char *bundle, const struct exit_note *note);
/* 1; 0 where there is none, or none that can be read. */
int bundle_read_exit(const char *bundle, struct exit_note *ret);

#endif
