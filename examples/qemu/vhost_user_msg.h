/* SPDX-License-Identifier: Apache-2.0 */
/* The words of the vhost-user protocol that a vsock back end needs, and the reader of its messages. */
#ifndef QEMU_VHOST_USER_MSG_H
#define QEMU_VHOST_USER_MSG_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum vhost_user_request {
	VHOST_USER_GET_FEATURES = 1,
	VHOST_USER_SET_FEATURES = 2,
	VHOST_USER_SET_OWNER = 3,
	VHOST_USER_RESET_OWNER = 4,
	VHOST_USER_SET_MEM_TABLE = 5,
	VHOST_USER_SET_VRING_NUM = 8,
	VHOST_USER_SET_VRING_ADDR = 9,
	VHOST_USER_SET_VRING_BASE = 10,
	VHOST_USER_GET_VRING_BASE = 11,
	VHOST_USER_SET_VRING_KICK = 12,
	VHOST_USER_SET_VRING_CALL = 13,
	VHOST_USER_SET_VRING_ERR = 14,
	VHOST_USER_GET_PROTOCOL_FEATURES = 15,
	VHOST_USER_SET_PROTOCOL_FEATURES = 16,
	VHOST_USER_GET_QUEUE_NUM = 17,
	VHOST_USER_SET_VRING_ENABLE = 18,
	VHOST_USER_GET_CONFIG = 24,
	VHOST_USER_GET_MAX_MEM_SLOTS = 36,
	VHOST_USER_ADD_MEM_REG = 37,
	VHOST_USER_REM_MEM_REG = 38,
	VHOST_USER_REQUEST_COUNT
};

#define VHOST_USER_FLAG_VERSION_MASK 0x3u
#define VHOST_USER_FLAG_VERSION 0x1u
#define VHOST_USER_FLAG_REPLY 0x4u
#define VHOST_USER_FLAG_NEED_REPLY 0x8u

#define VHOST_USER_F_PROTOCOL_FEATURES 30
#define VHOST_USER_PROTOCOL_F_REPLY_ACK 3
#define VHOST_USER_PROTOCOL_F_CONFIG 9
#define VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS 15

#define VHOST_USER_VRING_INDEX_MASK 0xffu
#define VHOST_USER_VRING_NO_FD 0x100u

#define VHOST_USER_TABLE_REGIONS 8 /* in one SET_MEM_TABLE */
#define VHOST_USER_CONFIG_MAX 256
#define VHOST_USER_FDS_MAX 8

struct vhost_user_header {
	uint32_t request, flags, size;
};

struct vhost_user_region {
	uint64_t guest, size, user, offset;
};

struct vhost_user_mem_table {
	uint32_t count, padding;
	struct vhost_user_region regions[VHOST_USER_TABLE_REGIONS];
};

struct vhost_user_mem_reg {
	uint64_t padding;
	struct vhost_user_region region;
};

struct vhost_user_vring_state {
	uint32_t index, num;
};

struct vhost_user_vring_addr {
	uint32_t index, flags;
	uint64_t desc, used, avail, log;
};

struct vhost_user_config {
	uint32_t offset, size, flags;
	uint8_t region[VHOST_USER_CONFIG_MAX];
};

union vhost_user_payload {
	uint64_t u64;
	struct vhost_user_mem_table table;
	struct vhost_user_mem_reg reg;
	struct vhost_user_vring_state state;
	struct vhost_user_vring_addr addr;
	struct vhost_user_config config;
};

/* A message that is being received, or is there in whole. It owns its descriptors. */
struct vhost_user_msg {
	struct vhost_user_header header;
	union vhost_user_payload payload;
	size_t have;                     /* bytes of header and payload so far */
	int fds[VHOST_USER_FDS_MAX];
	size_t fd_count;
};

/*
 * Receive from a non-blocking socket. 1: a whole message, of a size that fits its request; 0: more must come;
 * CCHV_ERR_VMM_GONE: the front end closed; CCHV_ERR_PROTOCOL.
 */
int vhost_user_msg_receive(struct vhost_user_msg *msg, int sock, cchv_error **err);
/* Close descriptors that nobody took; empty the message. */
void vhost_user_msg_clear(struct vhost_user_msg *msg);
int vhost_user_msg_take_fd(struct vhost_user_msg *msg, size_t at);
/* "SET_MEM_TABLE", or "?" for a request that this back end does not know. */
const char *vhost_user_msg_name(uint32_t request);

#endif
