/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the vsock device, shared by its files:
 *   vsock.c          its life: start, reset, failure, timers
 *   vsock_host.c     host programs: accept, CONNECT, connect to their sockets
 *   vsock_conn.c     one connection: its state, the host's socket, the guest's packets for it
 *   vsock_table.c    finding a connection by its two ports
 *   vsock_receive.c  the guest's transmit queue: packets to connections
 *   vsock_send.c     the guest's receive queue: who may send, in turn
 * "Send" and "receive" are ours: what we send, the guest receives.
 */
#ifndef QEMU_VSOCK_DEVICE_H
#define QEMU_VSOCK_DEVICE_H

#include <sys/queue.h>

#include "vhost_user.h"
#include "vsock.h"
#include "vsock_buf.h"
#include "vsock_command.h"
#include "vsock_packet.h"

/* The queues as virtio numbers them, seen from the guest. */
#define VSOCK_QUEUE_RX 0
#define VSOCK_QUEUE_TX 1

#define VSOCK_CONNECTIONS_MAX 1023
#define VSOCK_RESETS_MAX 256
#define VSOCK_FIRST_HOST_PORT (1u << 30)

/*
 * What a guest may send ahead of the host's reader. Each connection starts with the small window; those that move
 * much get the large one while less than VSOCK_LARGE_MAX connections have it, so that all windows together stay
 * below 1023 * 64 KiB + 64 * 192 KiB. With the small one alone the guest waits for us after each packet.
 */
#define VSOCK_WINDOW_SMALL (64u * 1024)
#define VSOCK_WINDOW_LARGE (256u * 1024)
#define VSOCK_LARGE_AFTER (256u * 1024)
#define VSOCK_LARGE_MAX 64

/* Pieces of memory handled at a time; the kernel takes no more in one call either. */
#define VSOCK_IOV_MAX 1024

#define VSOCK_CLOSE_MS 2000       /* what a peer gets to agree to the end of a connection */
#define VSOCK_HOST_WAIT_MS 2000   /* what a host's listener gets to make room in its backlog */
#define VSOCK_HOST_RETRY_MS 5

enum vsock_state {
	VSOCK_STATE_HOST_WAIT, /* the guest asked; the host's listener has no room just now */
	VSOCK_STATE_REQUESTED, /* a host program asked; the guest has not answered */
	VSOCK_STATE_OPEN,
	VSOCK_STATE_DEAD,      /* only the guest must still be told */
};

/* What is to be sent to the guest; the lowest bit goes first. */
enum vsock_pending {
	VSOCK_PENDING_RESET = 1,
	VSOCK_PENDING_REQUEST = 2,
	VSOCK_PENDING_RESPONSE = 4,
	VSOCK_PENDING_CREDIT_REQUEST = 8,
	VSOCK_PENDING_DATA = 16,      /* the host's socket has something, or its end */
	VSOCK_PENDING_SHUTDOWN = 32,
	VSOCK_PENDING_CREDIT = 64,
};

struct vsock_conn {
	struct vsock *vsock;
	LIST_ENTRY(vsock_conn) table_link;
	TAILQ_ENTRY(vsock_conn) turn_link;    /* vsock->turns */
	TAILQ_ENTRY(vsock_conn) expiry_link;  /* vsock->expiring, or vsock->waiting */
	uint32_t guest_port, host_port;
	enum vsock_state state;
	int fd;                               /* -1 when there is none (any more) */
	struct loop_source *source;
	unsigned int pending;
	int has_turn, expires;
	uint64_t deadline;

	/* Guest to host. */
	struct vsock_buf buf;
	uint32_t window, told_window;         /* buf_alloc, now and as last sent */
	uint32_t forwarded, told_forwarded;   /* fwd_cnt, likewise */
	uint32_t guest_shutdown;              /* VIRTIO_VSOCK_SHUTDOWN_*, as the guest said */
	int host_write_shut;

	/* Host to guest. */
	uint32_t sent;                        /* bytes */
	uint32_t guest_window, guest_forwarded;
	uint32_t told_shutdown;               /* as we said */
	int host_eof, host_gone, credit_asked;
	uint32_t read_size;                   /* what a read is likely to bring */
};

/* A host program that has not yet said what it wants. */
struct vsock_caller {
	LIST_ENTRY(vsock_caller) link;
	struct vsock *vsock;
	int fd;
	struct loop_source *source;
	char command[VSOCK_COMMAND_MAX];
	size_t len;
};

LIST_HEAD(vsock_conn_list, vsock_conn);
TAILQ_HEAD(vsock_conn_queue, vsock_conn);

struct vsock {
	struct loop *loop;
	const struct log_sink *log;
	uint64_t cid;
	char *path;
	void (*activated)(void *user_data);
	void *activated_data;

	struct vhost_user vu;
	int frontend_fd;
	int running;                          /* the queues can be used */
	int held;                             /* the front end is going to be another */
	int renewed;                          /* it is, and has not started yet */
	int told_lie, told_full;              /* these lines are in the log already */

	int listen_fd;
	struct loop_source *listen_source;
	int spare_fd;                         /* given up to turn a caller away when there is no other */
	LIST_HEAD(, vsock_caller) callers;
	uint32_t next_host_port;

	struct vsock_conn_list *table;
	unsigned int conn_count, large_count;
	struct vsock_conn_queue turns;
	struct vsock_conn_queue expiring;     /* by deadline */
	struct vsock_conn_queue waiting;      /* VSOCK_STATE_HOST_WAIT, by deadline */
	struct loop_timer *timer;
	uint64_t next_retry;                  /* for those that wait */

	/* Answers to packets that belong to no connection. */
	struct vsock_packet resets[VSOCK_RESETS_MAX];
	unsigned int reset_first, reset_count;

	struct iovec iov[VSOCK_IOV_MAX], payload[VSOCK_IOV_MAX]; /* of the packets in hand */
};

/* vsock.c */
void vsock_fail(struct vsock *vs, unsigned int queue);
void vsock_drop_all(struct vsock *vs);
void vsock_arm_timer(struct vsock *vs);

/* vsock_table.c */
int vsock_table_new(struct vsock *vs);
struct vsock_conn *vsock_table_find(const struct vsock *vs, uint32_t guest_port, uint32_t host_port);
void vsock_table_insert(struct vsock *vs, struct vsock_conn *conn);
struct vsock_conn *vsock_table_any(const struct vsock *vs);
/* Their ports, at most max; how many there are. */
size_t vsock_table_list(const struct vsock *vs, uint32_t (*ports)[2], size_t max);

/* vsock_host.c */
int vsock_host_listen(struct vsock *vs, cchv_error **err);
void vsock_host_close(struct vsock *vs);
void vsock_host_mute(struct vsock *vs, int mute);
void vsock_host_refuse(int *fd);
int vsock_host_connect(struct vsock *vs, uint32_t port); /* a non-blocking socket, or -1 with errno */

/* vsock_conn.c. new takes fd over (-1: none yet), also when it fails; NULL: out of memory or descriptors. */
struct vsock_conn *vsock_conn_new(struct vsock *vs, uint32_t guest_port, uint32_t host_port, int fd,
                                  enum vsock_state state);
void vsock_conn_connected(struct vsock_conn *conn, int fd); /* takes fd over; ends VSOCK_STATE_HOST_WAIT */
void vsock_conn_free(struct vsock_conn *conn);
void vsock_conn_kill(struct vsock_conn *conn);   /* the host's side ends now, the guest's with a reset */
void vsock_conn_receive(struct vsock_conn *conn, const struct vsock_packet *packet, struct iovec *iov, size_t count);
void vsock_conn_settle(struct vsock_conn *conn); /* after any change: watch the right events, get a turn */
uint32_t vsock_conn_credit(const struct vsock_conn *conn);
void vsock_conn_fill(struct vsock_conn *conn, struct vsock_packet *packet, uint16_t op);
void vsock_conn_host_ended(struct vsock_conn *conn); /* its socket was read to the end */

/* vsock_receive.c */
void vsock_receive_pump(struct vsock *vs);

/* vsock_send.c */
void vsock_send_pump(struct vsock *vs);
void vsock_send_reset(struct vsock *vs, const struct vsock_packet *cause);

#endif
