/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the guest: see vsock_device.h. Enters: the packets in its transmit queue. Leaves: each at its connection, or
 * an answer that there is none.
 */
#include "vsock_device.h"

#include <errno.h>
#include <linux/virtio_vsock.h>
#include <unistd.h>

#include "base/fd.h"

#define PACKETS_MAX 64        /* before others in the loop get their turn */

static struct virtqueue *queue(struct vsock *vs)
{
	return &vs->vu.queues[VSOCK_QUEUE_TX].vq;
}

/* The guest asks for a port of the host: somebody must listen at "<socket>_<port>". */
static void receive_request(struct vsock *vs, const struct vsock_packet *packet)
{
	struct vsock_conn *conn = NULL;
	int fd = -1;

	if (vs->conn_count < VSOCK_CONNECTIONS_MAX) {
		fd = vsock_host_connect(vs, packet->dst_port);
		if (fd >= 0 || errno == EAGAIN)
			conn = vsock_conn_new(vs, packet->src_port, packet->dst_port, fd,
			                      fd >= 0 ? VSOCK_STATE_OPEN : VSOCK_STATE_HOST_WAIT);
	}
	if (!conn) {
		vsock_send_reset(vs, packet);
		return;
	}
	conn->guest_window = packet->buf_alloc;
	conn->guest_forwarded = packet->fwd_cnt;
	if (conn->state == VSOCK_STATE_OPEN)
		conn->pending = VSOCK_PENDING_RESPONSE;
	vsock_conn_settle(conn);
}

static void receive_packet(struct vsock *vs, const struct vsock_packet *packet, struct iovec *iov, size_t count)
{
	struct vsock_conn *conn;

	/* Neither for the host nor from this guest: nobody is there to be answered. */
	if (packet->dst_cid != VSOCK_HOST_CID || packet->src_cid != vs->cid)
		return;
	if (packet->type != VIRTIO_VSOCK_TYPE_STREAM) {
		vsock_send_reset(vs, packet);
		return;
	}
	conn = vsock_table_find(vs, packet->src_port, packet->dst_port);
	if (conn)
		vsock_conn_receive(conn, packet, iov, count);
	else if (packet->op == VIRTIO_VSOCK_OP_REQUEST)
		receive_request(vs, packet);
	else
		vsock_send_reset(vs, packet);
}

/* A packet whose length is a lie costs its connection; a chain without a header breaks the queue. */
static int receive_chain(struct vsock *vs, struct virtqueue_chain *chain)
{
	struct vsock_packet packet;
	struct iovec *iov = chain->iov;
	size_t count = chain->out_count;
	struct vsock_conn *conn;

	if (vsock_packet_parse(&packet, &iov, &count) == 0) {
		receive_packet(vs, &packet, iov, count);
		return CCHV_OK;
	}
	if (!count)
		return virtqueue_break(queue(vs), "a packet without a header");
	conn = vsock_table_find(vs, packet.src_port, packet.dst_port);
	/* Said once: the guest could fill the log with it. */
	if (!vs->told_lie)
		log_warning(vs->log, "vsock: the guest sent a packet that claims %u bytes", packet.len);
	vs->told_lie = 1;
	if (conn) {
		vsock_conn_kill(conn);
		vsock_conn_settle(conn);
	}
	return CCHV_OK;
}

void vsock_receive_pump(struct vsock *vs)
{
	int packets = PACKETS_MAX, r = 1;

	if (!vs->running)
		return;
	virtqueue_refuse_kicks(queue(vs));
	do {
		struct virtqueue_chain chain;

		if (!packets--) {
			vhost_user_kick_self(&vs->vu, VSOCK_QUEUE_TX);
			break;
		}
		r = virtqueue_pop(queue(vs), &vs->vu.mem, vs->iov, VSOCK_IOV_MAX, &chain);
		if (r == CCHV_ERR_LIMIT)
			r = virtqueue_break(queue(vs), "a packet in too many pieces");
		if (r > 0) {
			r = receive_chain(vs, &chain);
			virtqueue_push(queue(vs), chain.head, 0);
			if (r == CCHV_OK)
				r = 1;
		}
		/* Nothing there: ask for a kick, unless something came while we asked. */
		if (r == 0)
			r = virtqueue_want_kicks(queue(vs));
	} while (r > 0);
	if (r < 0) {
		vsock_fail(vs, VSOCK_QUEUE_TX);
		return;
	}
	if (virtqueue_publish(queue(vs)))
		virtqueue_interrupt(queue(vs));
	vsock_send_pump(vs);
}
