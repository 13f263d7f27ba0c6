/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.json of a snapshot: what cchv-qemu needs beside the configuration. It belongs to one version of it, one QEMU,
 * one kind of processor; on any other it is refused with the difference.
 *
 *   {"format", "version", "qemu", "accelerator", "cpu", "host_cpu",
 *    "memory": {"disguise", "base", "most", "dimms": [{"size", "address", "slot"}],
 *               "blocks": [{"name", "size", "offset", "stored"}] (without the last two: in the client's file)},
 *    "devices": [{"id", "name", "slot", "activated", "requested", "address", "registers", "receive", "transmit",
 *                 "next_port", "connections"}],
 *    "next_name", "next_device", "ranges" (the size of memory-ranges), "digest", "state": {"b64"}}
 */
#ifndef QEMU_SNAPSHOT_STATE_H
#define QEMU_SNAPSHOT_STATE_H

#include "base/buf.h"
#include "config.h"

#define SNAPSHOT_CONFIG "config.json"
#define SNAPSHOT_STATE "state.json"
#define SNAPSHOT_MEMORY "memory-ranges"
#define SNAPSHOT_FILE_MAX (64u << 20)

/* What a snapshot can be restored on. All strings. */
struct snapshot_host {
	const char *qemu;               /* its version and package */
	const char *accelerator;        /* "tcg", "kvm" */
	const char *cpu;                /* QEMU's model */
	const char *host_cpu;           /* under KVM: what the processor is and can do; else "" */
};

/* A tree to add to; NULL: out of memory. */
struct json *snapshot_state_new(const struct snapshot_host *host);
/* Put QEMU's bytes in. */
int snapshot_state_seal(struct json *state, const struct buf *bytes);

/* The text of the file, its shape checked. The reason is in fault. */
int snapshot_state_parse(const char *text, size_t len, struct json **ret_state, struct fault *fault);
int snapshot_state_check_host(const struct json *state, const struct snapshot_host *host, struct fault *fault);
/* QEMU's bytes, checked. */
int snapshot_state_bytes(const struct json *state, char **ret_bytes, size_t *ret_len, struct fault *fault);

/* A device's entry, a memory block's; NULL: none. */
const struct json *snapshot_state_device(const struct json *state, const char *id);
const struct json *snapshot_state_block(const struct json *state, const char *name);

#endif
