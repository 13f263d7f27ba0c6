/* SPDX-License-Identifier: Apache-2.0 */
/* A front end and a guest driver in one: see fake_guest.h. */
#include "fake_guest.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "test.h"

#define RING_AT(q) (0x10000u * ((unsigned int)(q) + 1))
#define AVAIL_AT 0x4000u
#define USED_AT 0x8000u
#define RX_AT (1u << 20)
#define TX_AT (4u << 20)
#define TX_SLOT 0x10000u
#define WAIT_MS 10000

void fake_init(struct fake_guest *g, struct loop *loop, int channel)
{
	memset(g, 0, sizeof(*g));
	g->loop = loop;
	g->channel = channel;
	g->rx_pieces = 1;
	g->guest_window = 256 * 1024;
	g->memory_fd = memfd_create("ram", MFD_CLOEXEC);
	CHECK_INT(ftruncate(g->memory_fd, FAKE_RAM), 0);
	g->ram = mmap(NULL, FAKE_RAM, PROT_READ | PROT_WRITE, MAP_SHARED, g->memory_fd, 0);
	CHECK(g->ram != MAP_FAILED);
	for (int q = 0; q < 2; q++) {
		struct fake_ring *r = &g->rings[q];

		r->desc = (void *)(g->ram + RING_AT(q));
		r->avail = (void *)(g->ram + RING_AT(q) + AVAIL_AT);
		r->used = (void *)(g->ram + RING_AT(q) + USED_AT);
		r->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		r->call = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		r->err = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	}
}

void fake_release(struct fake_guest *g)
{
	for (int q = 0; q < 2; q++) {
		fd_close(&g->rings[q].kick);
		fd_close(&g->rings[q].call);
		fd_close(&g->rings[q].err);
	}
	fd_close(&g->channel);
	fd_close(&g->memory_fd);
	munmap(g->ram, FAKE_RAM);
}

static void run_loop(struct fake_guest *g)
{
	CHECK(loop_run_once(g->loop, clock_deadline(100), NULL) >= 0);
}

/* Run the loop until the descriptor is readable. */
static void await(struct fake_guest *g, int fd)
{
	uint64_t deadline = clock_deadline(WAIT_MS);
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (poll(&p, 1, 0) == 0) {
		CHECK(!clock_passed(deadline));
		run_loop(g);
	}
}

int fake_settle(struct fake_guest *g)
{
	int n, total = 0;

	/* One thread does everything, so what is to come is there already. */
	while ((n = loop_run_once(g->loop, clock_deadline(0), NULL)) > 0) {
		total += n;
		CHECK(total < 100000);
	}
	CHECK_INT(n, 0);
	return total;
}

int fake_talk(struct fake_guest *g, uint32_t request, const void *payload, uint32_t size, const int *fds,
              size_t fd_count, int answered, void *reply)
{
	struct vhost_user_header h = { request, VHOST_USER_FLAG_VERSION, size };
	int acknowledged = !answered && g->acknowledges;
	uint64_t ack;
	char message[sizeof(h) + sizeof(union vhost_user_payload)];

	if (acknowledged)
		h.flags |= VHOST_USER_FLAG_NEED_REPLY;
	memcpy(message, &h, sizeof(h));
	if (size)
		memcpy(message + sizeof(h), payload, size);
	CHECK_INT(fd_send_with_fds(g->channel, message, sizeof(h) + size, fds, fd_count), sizeof(h) + size);
	if (!answered && !acknowledged)
		return 0;
	await(g, g->channel);
	if (read(g->channel, &h, sizeof(h)) != sizeof(h))
		return -1;
	CHECK_INT(h.request, request);
	CHECK_INT(h.flags, VHOST_USER_FLAG_VERSION | VHOST_USER_FLAG_REPLY);
	CHECK(h.size <= sizeof(union vhost_user_payload));
	if (!acknowledged) {
		CHECK_INT(read(g->channel, reply, h.size), h.size);
		return (int)h.size;
	}
	CHECK_INT(read(g->channel, &ack, h.size), sizeof(ack));
	return ack ? FAKE_REFUSED : 0;
}

uint64_t fake_ask(struct fake_guest *g, uint32_t request)
{
	union vhost_user_payload reply;

	CHECK_INT(fake_talk(g, request, NULL, 0, NULL, 0, 1, &reply), 8);
	return reply.u64;
}

void fake_negotiate(struct fake_guest *g, uint64_t features)
{
	uint64_t offered = fake_ask(g, VHOST_USER_GET_FEATURES), protocol;

	g->features = features | 1ull << VHOST_USER_F_PROTOCOL_FEATURES;
	CHECK((offered & g->features) == g->features);
	protocol = fake_ask(g, VHOST_USER_GET_PROTOCOL_FEATURES);
	fake_talk(g, VHOST_USER_SET_PROTOCOL_FEATURES, &protocol, 8, NULL, 0, 0, NULL);
	g->acknowledges = 1;
	CHECK_INT(fake_talk(g, VHOST_USER_SET_OWNER, NULL, 0, NULL, 0, 0, NULL), 0);
	CHECK_INT(fake_talk(g, VHOST_USER_SET_FEATURES, &g->features, 8, NULL, 0, 0, NULL), 0);
}

void fake_share_memory(struct fake_guest *g)
{
	struct vhost_user_mem_table table = { .count = 1, .regions = { { 0, FAKE_RAM, FAKE_USER, 0 } } };

	CHECK_INT(fake_talk(g, VHOST_USER_SET_MEM_TABLE, &table, 8 + 32, &g->memory_fd, 1, 0, NULL), 0);
}

void fake_clear_rings(struct fake_guest *g)
{
	for (int q = 0; q < 2; q++) {
		memset(g->ram + RING_AT(q), 0, 0x10000);
		g->rings[q].seen = 0;
		g->rings[q].next = 0;
	}
}

static void start_ring(struct fake_guest *g, int q, uint16_t base)
{
	struct vhost_user_vring_state state = { .index = (uint32_t)q, .num = FAKE_NUM };
	struct vhost_user_vring_addr addr = {
		.index = (uint32_t)q,
		.desc = FAKE_USER + RING_AT(q),
		.avail = FAKE_USER + RING_AT(q) + AVAIL_AT,
		.used = FAKE_USER + RING_AT(q) + USED_AT,
	};
	uint64_t index = (uint64_t)q;

	CHECK_INT(fake_talk(g, VHOST_USER_SET_VRING_NUM, &state, 8, NULL, 0, 0, NULL), 0);
	state.num = base;
	CHECK_INT(fake_talk(g, VHOST_USER_SET_VRING_BASE, &state, 8, NULL, 0, 0, NULL), 0);
	CHECK_INT(fake_talk(g, VHOST_USER_SET_VRING_ADDR, &addr, 40, NULL, 0, 0, NULL), 0);
	CHECK_INT(fake_talk(g, VHOST_USER_SET_VRING_KICK, &index, 8, &g->rings[q].kick, 1, 0, NULL), 0);
	CHECK_INT(fake_talk(g, VHOST_USER_SET_VRING_CALL, &index, 8, &g->rings[q].call, 1, 0, NULL), 0);
	CHECK_INT(fake_talk(g, VHOST_USER_SET_VRING_ERR, &index, 8, &g->rings[q].err, 1, 0, NULL), 0);
}

void fake_start(struct fake_guest *g, uint16_t rx_base, uint16_t tx_base)
{
	start_ring(g, FAKE_RX, rx_base);
	start_ring(g, FAKE_TX, tx_base);
	for (uint32_t q = 0; q < 2; q++) {
		struct vhost_user_vring_state state = { .index = q, .num = 1 };

		CHECK_INT(fake_talk(g, VHOST_USER_SET_VRING_ENABLE, &state, 8, NULL, 0, 0, NULL), 0);
	}
}

void fake_stop(struct fake_guest *g, uint16_t *rx_base, uint16_t *tx_base)
{
	uint16_t *bases[2] = { rx_base, tx_base };

	for (uint32_t q = 0; q < 2; q++) {
		struct vhost_user_vring_state state = { .index = q };

		CHECK_INT(fake_talk(g, VHOST_USER_GET_VRING_BASE, &state, 8, NULL, 0, 1, &state), 8);
		CHECK_INT(state.index, q);
		*bases[q] = (uint16_t)state.num;
	}
}

void fake_boot(struct fake_guest *g, unsigned int count)
{
	fake_negotiate(g, 1ull << VIRTIO_RING_F_EVENT_IDX | 1ull << VIRTIO_RING_F_INDIRECT_DESC);
	fake_share_memory(g);
	fake_clear_rings(g);
	fake_start(g, 0, 0);
	fake_offer_rx(g, count);
}

void fake_kick(struct fake_guest *g, int ring)
{
	uint64_t one = 1;

	CHECK_INT(write(g->rings[ring].kick, &one, sizeof(one)), sizeof(one));
}

/* Put buffer number slot out, cut into rx_pieces. */
static void offer_slot(struct fake_guest *g, uint16_t slot)
{
	struct fake_ring *r = &g->rings[FAKE_RX];
	uint64_t addr = RX_AT + (uint64_t)slot * FAKE_RX_BUFFER;
	uint16_t head = (uint16_t)(slot * 2);
	uint32_t first = g->rx_pieces == 2 ? 50 : FAKE_RX_BUFFER;

	r->desc[head] = (struct vring_desc){ addr, first, VRING_DESC_F_WRITE, (uint16_t)(head + 1) };
	if (g->rx_pieces == 2) {
		r->desc[head].flags |= VRING_DESC_F_NEXT;
		r->desc[head + 1] = (struct vring_desc){ addr + first, FAKE_RX_BUFFER - first, VRING_DESC_F_WRITE, 0 };
	}
	r->avail->ring[r->avail->idx % FAKE_NUM] = head;
	__atomic_store_n(&r->avail->idx, (uint16_t)(r->avail->idx + 1), __ATOMIC_RELEASE);
}

void fake_offer_rx(struct fake_guest *g, unsigned int count)
{
	CHECK(count <= FAKE_NUM / 2);
	for (uint16_t i = 0; i < count; i++)
		offer_slot(g, i);
	fake_kick(g, FAKE_RX);
	fake_settle(g);
}

void fake_send_pieces(struct fake_guest *g, const struct virtio_vsock_hdr *header, const void *data, size_t len,
                      unsigned int pieces)
{
	struct fake_ring *r = &g->rings[FAKE_TX];
	uint32_t base = TX_AT + (r->next / 32u % 4u) * 0x12000u;
	uint16_t head = (uint16_t)(r->next / 32 % 4 * 32);
	size_t total = sizeof(*header) + len, done = 0;
	uint64_t deadline = clock_deadline(WAIT_MS);

	CHECK(pieces >= 1 && pieces <= 32 && len <= TX_SLOT);
	memcpy(g->ram + base, header, sizeof(*header));
	if (len)
		memcpy(g->ram + base + sizeof(*header), data, len);
	for (unsigned int i = 0; i < pieces; i++) {
		size_t part = i == pieces - 1 ? total - done : i == 0 ? sizeof(*header) : len / pieces;

		r->desc[head + i] = (struct vring_desc){
			.addr = base + done, .len = (uint32_t)part,
			.flags = i == pieces - 1 ? 0 : VRING_DESC_F_NEXT, .next = (uint16_t)(head + i + 1),
		};
		done += part;
	}
	r->next += 32;
	r->avail->ring[r->avail->idx % FAKE_NUM] = head;
	__atomic_store_n(&r->avail->idx, (uint16_t)(r->avail->idx + 1), __ATOMIC_RELEASE);
	fake_kick(g, FAKE_TX);
	while (__atomic_load_n(&r->used->idx, __ATOMIC_ACQUIRE) == r->seen) {
		/* A device that stopped takes nothing more. */
		if (poll(&(struct pollfd){ .fd = r->err, .events = POLLIN }, 1, 0))
			return;
		CHECK(!clock_passed(deadline));
		run_loop(g);
	}
	CHECK_INT(r->used->ring[r->seen % FAKE_NUM].id, head);
	r->seen++;
}

void fake_send(struct fake_guest *g, uint16_t op, uint32_t guest_port, uint32_t host_port, const void *data,
               size_t len, uint32_t flags)
{
	const struct virtio_vsock_hdr h = {
		.src_cid = 3, .dst_cid = 2, .src_port = guest_port, .dst_port = host_port, .len = (uint32_t)len,
		.type = VIRTIO_VSOCK_TYPE_STREAM, .op = op, .flags = flags, .buf_alloc = g->guest_window,
		.fwd_cnt = g->guest_forwarded,
	};

	fake_send_pieces(g, &h, data, len, len ? 2 : 1);
}

void fake_receive(struct fake_guest *g, struct virtio_vsock_hdr *header, void *data)
{
	struct fake_ring *r = &g->rings[FAKE_RX];
	uint64_t deadline = clock_deadline(WAIT_MS);
	const struct vring_used_elem *e;
	const uint8_t *at;

	while (__atomic_load_n(&r->used->idx, __ATOMIC_ACQUIRE) == r->seen) {
		CHECK(!clock_passed(deadline));
		run_loop(g);
	}
	e = &r->used->ring[r->seen++ % FAKE_NUM];
	at = g->ram + RX_AT + e->id / 2 * FAKE_RX_BUFFER;
	memcpy(header, at, sizeof(*header));
	CHECK_INT(e->len, sizeof(*header) + header->len);
	CHECK(e->len <= FAKE_RX_BUFFER);
	CHECK_INT(header->src_cid, 2);
	CHECK_INT(header->dst_cid, 3);
	if (data)
		memcpy(data, at + sizeof(*header), header->len);
	offer_slot(g, (uint16_t)(e->id / 2));
	fake_kick(g, FAKE_RX);
}

struct virtio_vsock_hdr fake_expect(struct fake_guest *g, uint16_t op, uint32_t host_port, uint32_t guest_port)
{
	struct virtio_vsock_hdr h;

	fake_receive(g, &h, NULL);
	CHECK_INT(h.op, op);
	CHECK_INT(h.src_port, host_port);
	CHECK_INT(h.dst_port, guest_port);
	return h;
}

void fake_expect_silence(struct fake_guest *g)
{
	fake_settle(g);
	CHECK_INT(g->rings[FAKE_RX].used->idx, g->rings[FAKE_RX].seen);
}

int fake_caller(struct fake_guest *g, const char *path, const char *line)
{
	int fd = fd_unix_connect(path, clock_deadline(1000));

	CHECK(fd >= 0);
	CHECK_INT(send(fd, line, strlen(line), MSG_NOSIGNAL), strlen(line));
	fake_settle(g);
	return fd;
}

int fake_open(struct fake_guest *g, const char *path, uint32_t guest_port, uint32_t *host_port)
{
	struct virtio_vsock_hdr h;
	char line[40];
	int fd;

	snprintf(line, sizeof(line), "CONNECT %u\n", guest_port);
	fd = fake_caller(g, path, line);
	fake_receive(g, &h, NULL);
	CHECK_INT(h.op, VIRTIO_VSOCK_OP_REQUEST);
	CHECK_INT(h.dst_port, guest_port);
	*host_port = h.src_port;
	fake_send(g, VIRTIO_VSOCK_OP_RESPONSE, guest_port, h.src_port, NULL, 0, 0);
	snprintf(line, sizeof(line), "OK %u\n", h.src_port);
	fake_expect_text(g, fd, line);
	return fd;
}

void fake_expect_text(struct fake_guest *g, int fd, const char *text)
{
	size_t len = strlen(text), done = 0;
	char data[256];

	CHECK(len < sizeof(data));
	do {
		ssize_t n;

		await(g, fd);
		n = read(fd, data + done, len ? len - done : 1);
		CHECK_INT(n > 0, len > 0);
		done += n > 0 ? (size_t)n : 0;
	} while (done < len);
	CHECK_INT(memcmp(data, text, len), 0);
}
