/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: see vsock_device.h. Enters: the guest's packets, the state of the host's socket. Leaves: bytes to
 * that socket, and what is pending for the guest.
 */
#include "vsock_device.h"

#include <errno.h>
#include <linux/virtio_vsock.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#define SHUTDOWN_BOTH (VIRTIO_VSOCK_SHUTDOWN_RCV | VIRTIO_VSOCK_SHUTDOWN_SEND)
#define FIRST_READ_SIZE 4096

static void on_event(uint32_t events, void *user_data);

static void set_expiry(struct vsock_conn *conn, struct vsock_conn_queue *queue, int ms)
{
	if (conn->expires)
		return;
	conn->expires = 1;
	conn->deadline = clock_deadline(ms);
	TAILQ_INSERT_TAIL(queue, conn, expiry_link);
	vsock_arm_timer(conn->vsock);
}

static void clear_expiry(struct vsock_conn *conn)
{
	struct vsock *vs = conn->vsock;

	if (!conn->expires)
		return;
	conn->expires = 0;
	TAILQ_REMOVE(conn->state == VSOCK_STATE_HOST_WAIT ? &vs->waiting : &vs->expiring, conn, expiry_link);
	vsock_arm_timer(vs);
}

static int set_fd(struct vsock_conn *conn, int fd)
{
	conn->fd = fd;
	return loop_add(conn->vsock->loop, fd, 0, on_event, conn, &conn->source, NULL);
}

struct vsock_conn *vsock_conn_new(struct vsock *vs, uint32_t guest_port, uint32_t host_port, int fd,
                                  enum vsock_state state)
{
	struct vsock_conn *conn = mem_zalloc(sizeof(*conn));

	if (!conn) {
		fd_close(&fd);
		return NULL;
	}
	conn->vsock = vs;
	conn->guest_port = guest_port;
	conn->host_port = host_port;
	conn->state = state;
	conn->fd = -1;
	conn->window = VSOCK_WINDOW_SMALL;
	conn->read_size = FIRST_READ_SIZE;
	vsock_table_insert(vs, conn);
	vs->conn_count++;
	if (fd >= 0 && set_fd(conn, fd) < 0) {
		vsock_conn_free(conn);
		return NULL;
	}
	if (state == VSOCK_STATE_HOST_WAIT)
		set_expiry(conn, &vs->waiting, VSOCK_HOST_WAIT_MS);
	return conn;
}


/* The host's program sees the end of the connection now. */
static void close_host(struct vsock_conn *conn)
{
	loop_source_free(conn->source);
	conn->source = NULL;
	if (conn->state == VSOCK_STATE_REQUESTED)
		vsock_host_refuse(&conn->fd);
	fd_close(&conn->fd);
	vsock_buf_free(&conn->buf);
}

void vsock_conn_free(struct vsock_conn *conn)
{
	struct vsock *vs = conn->vsock;

	close_host(conn);
	clear_expiry(conn);
	if (conn->has_turn)
		TAILQ_REMOVE(&vs->turns, conn, turn_link);
	if (conn->window == VSOCK_WINDOW_LARGE)
		vs->large_count--;
	LIST_REMOVE(conn, table_link);
	vs->conn_count--;
	free(conn);
}

void vsock_conn_kill(struct vsock_conn *conn)
{
	clear_expiry(conn);
	close_host(conn);
	conn->state = VSOCK_STATE_DEAD;
	conn->pending = VSOCK_PENDING_RESET;
}

void vsock_conn_connected(struct vsock_conn *conn, int fd)
{
	clear_expiry(conn);
	conn->state = VSOCK_STATE_OPEN;
	conn->pending = VSOCK_PENDING_RESPONSE;
	if (set_fd(conn, fd) < 0)
		vsock_conn_kill(conn);
	vsock_conn_settle(conn);
}

uint32_t vsock_conn_credit(const struct vsock_conn *conn)
{
	uint32_t on_the_way = conn->sent - conn->guest_forwarded;

	/* A guest that claims to have forwarded more than it got has no credit, not an endless one. */
	return on_the_way < conn->guest_window ? conn->guest_window - on_the_way : 0;
}

void vsock_conn_fill(struct vsock_conn *conn, struct vsock_packet *packet, uint16_t op)
{
	conn->told_window = conn->window;
	conn->told_forwarded = conn->forwarded;
	conn->pending &= ~(unsigned int)VSOCK_PENDING_CREDIT;
	*packet = (struct vsock_packet){
		.src_cid = VSOCK_HOST_CID,
		.dst_cid = conn->vsock->cid,
		.src_port = conn->host_port,
		.dst_port = conn->guest_port,
		.type = VIRTIO_VSOCK_TYPE_STREAM,
		.op = op,
		.buf_alloc = conn->window,
		.fwd_cnt = conn->forwarded,
	};
}

/* Can the guest be told something just now? Data must wait for the guest's credit. */
static int can_send(const struct vsock_conn *conn)
{
	return (conn->pending & ~(unsigned int)VSOCK_PENDING_DATA) ||
	       (conn->pending & VSOCK_PENDING_DATA && vsock_conn_credit(conn));
}

void vsock_conn_settle(struct vsock_conn *conn)
{
	uint32_t events = 0;

	if (conn->state == VSOCK_STATE_OPEN && !conn->host_eof && !(conn->pending & VSOCK_PENDING_DATA) &&
	    !(conn->guest_shutdown & VIRTIO_VSOCK_SHUTDOWN_RCV))
		events |= EPOLLIN;
	if (conn->buf.len)
		events |= EPOLLOUT;
	if (conn->source && loop_source_set_events(conn->source, events) < 0)
		vsock_conn_kill(conn);
	/* Asked once: a guest whose program does not read says the same each time, and tells us when it goes on. */
	if (conn->pending & VSOCK_PENDING_DATA && !vsock_conn_credit(conn) && !conn->credit_asked) {
		conn->credit_asked = 1;
		conn->pending |= VSOCK_PENDING_CREDIT_REQUEST;
	}
	if (!conn->has_turn && can_send(conn)) {
		conn->has_turn = 1;
		TAILQ_INSERT_TAIL(&conn->vsock->turns, conn, turn_link);
	}
}

/* Nothing more can flow in either direction: end it as soon as the host has what the guest sent. */
static int end_if_done(struct vsock_conn *conn)
{
	int to_host = !(conn->guest_shutdown & VIRTIO_VSOCK_SHUTDOWN_SEND) && !conn->host_gone;
	int to_guest = !(conn->guest_shutdown & VIRTIO_VSOCK_SHUTDOWN_RCV) && !conn->host_eof;

	if (to_host || to_guest || conn->host_gone)
		return 0;
	if (!conn->buf.len) {
		vsock_conn_kill(conn);
		return 1;
	}
	set_expiry(conn, &conn->vsock->expiring, VSOCK_CLOSE_MS);
	return 0;
}

/* All that the guest will ever send is with the host: let it see the end. */
static void shut_host(struct vsock_conn *conn)
{
	if (conn->host_write_shut || conn->buf.len || conn->fd < 0 ||
	    !(conn->guest_shutdown & VIRTIO_VSOCK_SHUTDOWN_SEND))
		return;
	conn->host_write_shut = 1;
	/* It can fail only when the host is gone, which its events tell. */
	(void)shutdown(conn->fd, SHUT_WR);
}

/* The host's socket gave its last byte, or the host closed it altogether. */
void vsock_conn_host_ended(struct vsock_conn *conn)
{
	uint32_t say = VIRTIO_VSOCK_SHUTDOWN_SEND | (conn->host_gone ? VIRTIO_VSOCK_SHUTDOWN_RCV : 0);

	conn->host_eof = 1;
	conn->pending &= ~(unsigned int)VSOCK_PENDING_DATA;
	if (end_if_done(conn))
		return;
	if (conn->told_shutdown == say)
		return;
	conn->told_shutdown = say;
	conn->pending |= VSOCK_PENDING_SHUTDOWN;
	if (conn->host_gone)
		set_expiry(conn, &conn->vsock->expiring, VSOCK_CLOSE_MS);
}

static void host_hung_up(struct vsock_conn *conn)
{
	/* Its events would come for ever; what can still be read is read without them. */
	loop_source_free(conn->source);
	conn->source = NULL;
	conn->host_gone = 1;
	vsock_buf_free(&conn->buf);
	if (conn->state == VSOCK_STATE_REQUESTED) {
		/* The guest need not learn of a caller who gave up before it was asked. */
		if (conn->pending & VSOCK_PENDING_REQUEST)
			vsock_conn_free(conn);
		else
			vsock_conn_kill(conn);
	} else if (conn->host_eof || conn->guest_shutdown & VIRTIO_VSOCK_SHUTDOWN_RCV) {
		vsock_conn_host_ended(conn);
	} else {
		conn->pending |= VSOCK_PENDING_DATA;
	}
}

/* The guest sees less room than there is: tell it before it has to wait. */
static void offer_credit(struct vsock_conn *conn)
{
	if (conn->forwarded - conn->told_forwarded + (conn->window - conn->told_window) >= conn->window / 2)
		conn->pending |= VSOCK_PENDING_CREDIT;
}

static void count_forwarded(struct vsock_conn *conn, size_t n)
{
	conn->forwarded += (uint32_t)n;
	offer_credit(conn);
}

static void flush(struct vsock_conn *conn)
{
	ssize_t n = vsock_buf_flush(&conn->buf, conn->fd);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n < 0) {
		vsock_conn_kill(conn);
		return;
	}
	count_forwarded(conn, (size_t)n);
	shut_host(conn);
	end_if_done(conn);
}

static void on_event(uint32_t events, void *user_data)
{
	struct vsock_conn *conn = user_data;
	struct vsock *vs = conn->vsock;

	if (events & EPOLLOUT && conn->buf.len)
		flush(conn);
	if (events & EPOLLIN && conn->state == VSOCK_STATE_OPEN && !conn->host_eof)
		conn->pending |= VSOCK_PENDING_DATA;
	if (events & (EPOLLHUP | EPOLLERR) && conn->source) {
		uint32_t guest_port = conn->guest_port, host_port = conn->host_port;

		host_hung_up(conn);
		conn = vsock_table_find(vs, guest_port, host_port);
	}
	if (conn)
		vsock_conn_settle(conn);
	vsock_send_pump(vs);
}

/* A connection that moves much gets a window in which the guest can send while we write. */
static void widen(struct vsock_conn *conn)
{
	struct vsock *vs = conn->vsock;

	if (conn->window == VSOCK_WINDOW_LARGE || conn->forwarded < VSOCK_LARGE_AFTER ||
	    vs->large_count >= VSOCK_LARGE_MAX)
		return;
	conn->window = VSOCK_WINDOW_LARGE;
	vs->large_count++;
	conn->pending |= VSOCK_PENDING_CREDIT;
}

static void receive_data(struct vsock_conn *conn, const struct vsock_packet *packet, struct iovec *iov, size_t count)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = count };
	ssize_t n = 0;

	if (!packet->len || conn->guest_shutdown & VIRTIO_VSOCK_SHUTDOWN_SEND ||
	    conn->told_shutdown & VIRTIO_VSOCK_SHUTDOWN_RCV)
		return;
	if (!conn->buf.len) {
		do
			n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		while (n < 0 && errno == EINTR);
		if (n < 0 && errno != EAGAIN) {
			vsock_conn_kill(conn);
			return;
		}
		if (n < 0)
			n = 0;
		count_forwarded(conn, (size_t)n);
		widen(conn);
	}
	if ((size_t)n == packet->len)
		return;
	vsock_iov_skip(&iov, &count, (size_t)n);
	/* A guest that sends more than it was given room for cannot be trusted with its bytes. */
	if (conn->buf.len + vsock_iov_len(iov, count) > conn->window || vsock_buf_push(&conn->buf, iov, count) < 0)
		vsock_conn_kill(conn);
}

static void receive_response(struct vsock_conn *conn)
{
	char line[24];
	int len = snprintf(line, sizeof(line), "OK %u\n", conn->host_port);

	if (conn->state != VSOCK_STATE_REQUESTED)
		return;
	conn->state = VSOCK_STATE_OPEN;
	/* Nothing was written to this socket before, so the line fits unless the caller is gone. */
	if (send(conn->fd, line, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT) != len)
		vsock_conn_kill(conn);
}

static void receive_shutdown(struct vsock_conn *conn, uint32_t flags)
{
	if (conn->state != VSOCK_STATE_OPEN)
		return;
	conn->guest_shutdown |= flags & SHUTDOWN_BOTH;
	if (conn->guest_shutdown & VIRTIO_VSOCK_SHUTDOWN_RCV)
		conn->pending &= ~(unsigned int)VSOCK_PENDING_DATA;
	/* The host is gone and the guest has nothing more to say or to hear. */
	if (conn->guest_shutdown == SHUTDOWN_BOTH && conn->host_gone) {
		vsock_conn_kill(conn);
		return;
	}
	shut_host(conn);
	end_if_done(conn);
}

void vsock_conn_receive(struct vsock_conn *conn, const struct vsock_packet *packet, struct iovec *iov, size_t count)
{
	if (packet->op == VIRTIO_VSOCK_OP_RST) {
		vsock_conn_free(conn);
		return;
	}
	if (conn->state == VSOCK_STATE_DEAD)
		return;
	conn->guest_window = packet->buf_alloc;
	conn->guest_forwarded = packet->fwd_cnt;
	if (vsock_conn_credit(conn))
		conn->credit_asked = 0;
	switch (packet->op) {
	case VIRTIO_VSOCK_OP_RW:
		if (conn->state == VSOCK_STATE_OPEN)
			receive_data(conn, packet, iov, count);
		break;
	case VIRTIO_VSOCK_OP_RESPONSE:
		receive_response(conn);
		break;
	case VIRTIO_VSOCK_OP_SHUTDOWN:
		receive_shutdown(conn, packet->flags);
		break;
	case VIRTIO_VSOCK_OP_CREDIT_REQUEST:
		conn->pending |= VSOCK_PENDING_CREDIT;
		break;
	case VIRTIO_VSOCK_OP_CREDIT_UPDATE:
		break;
	default:
		/* A second request for ports in use, or nothing that exists. */
		vsock_conn_kill(conn);
	}
	vsock_conn_settle(conn);
}
