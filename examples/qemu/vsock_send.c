/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To the guest: see vsock_device.h. Enters: connections that have something for the guest, buffers that it has put
 * out. Leaves: packets in them. Connections take turns; a turn is one packet without data, or one read of the
 * host's socket straight into the guest's buffers.
 */
#include "vsock_device.h"

#include <errno.h>
#include <linux/virtio_vsock.h>
#include <string.h>
#include <unistd.h>

#define CHAINS_MAX 32         /* buffers filled by one read */
#define TURNS_MAX 64          /* before others in the loop get theirs */
#define READ_SIZE_MIN 4096
#define READ_SIZE_MAX (64 * 1024)

/* What a turn came to, when it is not a negative CCHV_ERR_*: the queue is broken. */
#define NO_BUFFER 0
#define TAKEN 1

static struct virtqueue *queue(struct vsock *vs)
{
	return &vs->vu.queues[VSOCK_QUEUE_RX].vq;
}

/* The next buffer that the guest put out, with room for a header and need bytes more. */
static int take_buffer(struct vsock *vs, struct iovec *iov, size_t max, size_t need, struct virtqueue_chain *chain)
{
	int r = virtqueue_pop(queue(vs), &vs->vu.mem, iov, max, chain);

	if (r == CCHV_ERR_LIMIT && max == VSOCK_IOV_MAX)
		return virtqueue_break(queue(vs), "a buffer in too many pieces");
	if (r > 0 && chain->in_len < VSOCK_HEADER_SIZE + need)
		return virtqueue_break(queue(vs), "a buffer too small for a packet");
	return r;
}

static void give_buffer(struct vsock *vs, const struct virtqueue_chain *chain, const struct vsock_packet *packet)
{
	struct iovec *in = chain->iov + chain->out_count;
	size_t count = chain->in_count;

	vsock_packet_write(packet, &in, &count);
	virtqueue_push(queue(vs), chain->head, VSOCK_HEADER_SIZE + packet->len);
}

static int send_packet(struct vsock *vs, const struct vsock_packet *packet)
{
	struct virtqueue_chain chain;
	int r = take_buffer(vs, vs->iov, VSOCK_IOV_MAX, 0, &chain);

	if (r > 0)
		give_buffer(vs, &chain, packet);
	return r;
}

/* Buffers for a read of up to want bytes. */
struct batch {
	struct virtqueue_chain chains[CHAINS_MAX];
	uint16_t count;
	size_t pieces;   /* in vs->payload */
	size_t room;
};

static int take_batch(struct vsock *vs, size_t want, struct batch *b)
{
	size_t used = 0;
	int r = TAKEN;

	b->count = 0;
	b->pieces = 0;
	b->room = 0;
	while (b->count < CHAINS_MAX && b->room < want) {
		struct virtqueue_chain *c = &b->chains[b->count];
		struct iovec *to = vs->payload + b->pieces;
		size_t pieces;

		/* A smaller rest of the array is no reason to stop a queue: then this batch is what it is. */
		r = take_buffer(vs, vs->iov + used, VSOCK_IOV_MAX - used, 1, c);
		if (r <= 0)
			break;
		pieces = c->in_count;
		memcpy(to, c->iov + c->out_count, pieces * sizeof(*to));
		vsock_iov_skip(&to, &pieces, VSOCK_HEADER_SIZE);
		memmove(vs->payload + b->pieces, to, pieces * sizeof(*to));
		used += c->out_count + c->in_count;
		b->pieces += pieces;
		b->room += c->in_len - VSOCK_HEADER_SIZE;
		b->count++;
	}
	if (r < 0 && r != CCHV_ERR_LIMIT)
		return r;
	if (b->room > want) {
		b->pieces = vsock_iov_cut(vs->payload, b->pieces, want);
		b->room = want;
	}
	return b->count ? TAKEN : NO_BUFFER;
}

/* len bytes lie in the buffers: make packets of them, in order. Returns how many buffers that took. */
static uint16_t give_batch(struct vsock_conn *conn, const struct batch *b, size_t len)
{
	uint16_t i;

	for (i = 0; i < b->count && len; i++) {
		size_t part = b->chains[i].in_len - VSOCK_HEADER_SIZE;
		struct vsock_packet packet;

		if (part > len)
			part = len;
		vsock_conn_fill(conn, &packet, VIRTIO_VSOCK_OP_RW);
		packet.len = (uint32_t)part;
		give_buffer(conn->vsock, &b->chains[i], &packet);
		len -= part;
	}
	return i;
}

/* Expect as much next time as came this time. */
static void learn_read_size(struct vsock_conn *conn, size_t got, size_t asked)
{
	if (got == asked && asked >= conn->read_size && conn->read_size < READ_SIZE_MAX)
		conn->read_size *= 2;
	else if (got < conn->read_size / 4 && conn->read_size > READ_SIZE_MIN)
		conn->read_size /= 2;
}

static int send_data(struct vsock_conn *conn)
{
	struct vsock *vs = conn->vsock;
	uint32_t want = vsock_conn_credit(conn);
	struct batch b;
	ssize_t n;
	int r;

	if (want > conn->read_size)
		want = conn->read_size;
	r = take_batch(vs, want, &b);
	if (r <= 0)
		return r;
	do
		n = readv(conn->fd, vs->payload, (int)b.pieces);
	while (n < 0 && errno == EINTR);
	virtqueue_unpop(queue(vs), (uint16_t)(b.count - (n > 0 ? give_batch(conn, &b, (size_t)n) : 0)));
	if (n < 0 && errno == EFAULT)
		return virtqueue_break(queue(vs), "a buffer that cannot be written");
	if (n < 0 && errno != EAGAIN) {
		vsock_conn_kill(conn);
	} else if (n == 0) {
		vsock_conn_host_ended(conn);
	} else {
		size_t got = n > 0 ? (size_t)n : 0;

		conn->sent += (uint32_t)got;
		learn_read_size(conn, got, b.room);
		if (got < b.room && !conn->host_gone)
			conn->pending &= ~(unsigned int)VSOCK_PENDING_DATA;
	}
	return TAKEN;
}

/* The lowest of the pending things that can go now. */
static unsigned int next_pending(const struct vsock_conn *conn)
{
	unsigned int pending = conn->pending;

	if (!vsock_conn_credit(conn))
		pending &= ~(unsigned int)VSOCK_PENDING_DATA;
	return pending & -pending;
}

static int send_turn(struct vsock_conn *conn)
{
	static const struct {
		enum vsock_pending pending;
		uint16_t op;
	} ops[] = {
		{ VSOCK_PENDING_RESET, VIRTIO_VSOCK_OP_RST },
		{ VSOCK_PENDING_REQUEST, VIRTIO_VSOCK_OP_REQUEST },
		{ VSOCK_PENDING_RESPONSE, VIRTIO_VSOCK_OP_RESPONSE },
		{ VSOCK_PENDING_CREDIT_REQUEST, VIRTIO_VSOCK_OP_CREDIT_REQUEST },
		{ VSOCK_PENDING_SHUTDOWN, VIRTIO_VSOCK_OP_SHUTDOWN },
		{ VSOCK_PENDING_CREDIT, VIRTIO_VSOCK_OP_CREDIT_UPDATE },
	};
	unsigned int pending = next_pending(conn);
	struct vsock_packet packet;
	size_t i = 0;
	int r;

	if (!pending)
		return TAKEN;
	if (pending == VSOCK_PENDING_DATA)
		return send_data(conn);
	while (ops[i].pending != pending)
		i++;
	vsock_conn_fill(conn, &packet, ops[i].op);
	if (pending == VSOCK_PENDING_SHUTDOWN)
		packet.flags = conn->told_shutdown;
	r = send_packet(conn->vsock, &packet);
	if (r > 0)
		conn->pending &= ~pending;
	else
		conn->pending |= pending;
	return r;
}

void vsock_send_reset(struct vsock *vs, const struct vsock_packet *cause)
{
	/*
	 * A guest that makes us answer faster than it takes the answers loses them, as under Cloud Hypervisor: to
	 * hold its packets back instead could leave both sides waiting for each other.
	 */
	if (cause->op == VIRTIO_VSOCK_OP_RST || vs->reset_count == VSOCK_RESETS_MAX)
		return;
	vs->resets[(vs->reset_first + vs->reset_count++) % VSOCK_RESETS_MAX] = (struct vsock_packet){
		.src_cid = VSOCK_HOST_CID,
		.dst_cid = vs->cid,
		.src_port = cause->dst_port,
		.dst_port = cause->src_port,
		.type = cause->type,
		.op = VIRTIO_VSOCK_OP_RST,
	};
}

/* One packet or one read. */
static int step(struct vsock *vs)
{
	struct vsock_conn *conn = TAILQ_FIRST(&vs->turns);
	int r;

	if (vs->reset_count) {
		r = send_packet(vs, &vs->resets[vs->reset_first]);
		if (r > 0) {
			vs->reset_first = (vs->reset_first + 1) % VSOCK_RESETS_MAX;
			vs->reset_count--;
		}
		return r;
	}
	r = send_turn(conn);
	if (r <= 0)
		return r;
	if (conn->state == VSOCK_STATE_DEAD && !conn->pending) {
		vsock_conn_free(conn);
		return r;
	}
	TAILQ_REMOVE(&vs->turns, conn, turn_link);
	conn->has_turn = 0;
	vsock_conn_settle(conn);
	return r;
}

void vsock_send_pump(struct vsock *vs)
{
	int turns = TURNS_MAX;

	if (!vs->running)
		return;
	virtqueue_refuse_kicks(queue(vs));
	while (vs->reset_count || !TAILQ_EMPTY(&vs->turns)) {
		int r;

		if (!turns--) {
			vhost_user_kick_self(&vs->vu, VSOCK_QUEUE_RX);
			break;
		}
		r = step(vs);
		if (r < 0) {
			vsock_fail(vs, VSOCK_QUEUE_RX);
			return;
		}
		if (virtqueue_publish(queue(vs)))
			virtqueue_interrupt(queue(vs));
		/* Without buffers, wait for the guest to put some out. */
		if (r == NO_BUFFER && !virtqueue_want_kicks(queue(vs)))
			break;
	}
}
