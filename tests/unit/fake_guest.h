/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other side of the vsock device, for its tests: a front end that speaks vhost-user, and a guest driver that
 * drives the rings in a memory of its own. All in the test's thread: whoever waits runs the device's loop.
 */
#ifndef TESTS_UNIT_FAKE_GUEST_H
#define TESTS_UNIT_FAKE_GUEST_H

#include <linux/virtio_ring.h>
#include <linux/virtio_vsock.h>

#include "base/loop.h"
#include "examples/qemu/vhost_user_msg.h"
#include "examples/qemu/vsock_packet.h"

#define FAKE_RAM (8u << 20)
#define FAKE_USER 0x7f0000000000ull
#define FAKE_NUM 128
#define FAKE_RX 0
#define FAKE_TX 1
#define FAKE_RX_BUFFER 4096

struct fake_ring {
	struct vring_desc *desc;
	struct vring_avail *avail;
	struct vring_used *used;
	int kick, call, err;
	uint16_t seen;             /* of the used ring */
	uint16_t next;             /* descriptor to use next (transmit) */
};

struct fake_guest {
	struct loop *loop;
	int channel;
	int memory_fd;
	uint8_t *ram;
	struct fake_ring rings[2];
	unsigned int rx_pieces;    /* into how many descriptors a receive buffer is cut: 1 or 2 */
	uint64_t features;
	int acknowledges;          /* requests without an answer of their own ask for an acknowledgement */
	uint32_t guest_window;     /* buf_alloc that the guest announces */
	uint32_t guest_forwarded;
};

/* Takes the channel over. No message is sent yet. */
void fake_init(struct fake_guest *g, struct loop *loop, int channel);
void fake_release(struct fake_guest *g);

#define FAKE_REFUSED 1

/*
 * A message to the device. When an answer is due, its payload goes to *reply, and its size is returned. Otherwise 0
 * or FAKE_REFUSED. -1: the device closed the channel.
 */
int fake_talk(struct fake_guest *g, uint32_t request, const void *payload, uint32_t size, const int *fds,
              size_t fd_count, int answered, void *reply);
uint64_t fake_ask(struct fake_guest *g, uint32_t request);   /* a request that is answered with a number */

void fake_negotiate(struct fake_guest *g, uint64_t features);
void fake_share_memory(struct fake_guest *g);
void fake_clear_rings(struct fake_guest *g);                 /* as a driver that starts anew */
void fake_start(struct fake_guest *g, uint16_t rx_base, uint16_t tx_base);
void fake_stop(struct fake_guest *g, uint16_t *rx_base, uint16_t *tx_base);
/* All of the above: a guest whose driver is up, with count receive buffers put out. */
void fake_boot(struct fake_guest *g, unsigned int count);

void fake_offer_rx(struct fake_guest *g, unsigned int count);
void fake_kick(struct fake_guest *g, int ring);
/* A packet in a chain of pieces descriptors (the header is the first); kicks. */
void fake_send_pieces(struct fake_guest *g, const struct virtio_vsock_hdr *header, const void *data, size_t len,
                      unsigned int pieces);
/* From guest_port to host_port, with the guest's present credit. */
void fake_send(struct fake_guest *g, uint16_t op, uint32_t guest_port, uint32_t host_port, const void *data,
               size_t len, uint32_t flags);

/* The next packet for the guest, within 10 s; data (room for 64 KiB) gets its payload. Its buffer is offered anew. */
void fake_receive(struct fake_guest *g, struct virtio_vsock_hdr *header, void *data);
/* Expect one of this kind; returns its header. */
struct virtio_vsock_hdr fake_expect(struct fake_guest *g, uint16_t op, uint32_t host_port, uint32_t guest_port);
/* Nothing more comes: the loop has nothing to do. */
void fake_expect_silence(struct fake_guest *g);
/* Run the loop until it has nothing to do. How many callbacks ran. */
int fake_settle(struct fake_guest *g);

/* A host program: connected and the line sent; the REQUEST comes to *header. */
int fake_caller(struct fake_guest *g, const char *path, const char *line);
/* And answered: an open connection. */
int fake_open(struct fake_guest *g, const char *path, uint32_t guest_port, uint32_t *host_port);
/* Read exactly text, running the loop; "" means the end of file. */
void fake_expect_text(struct fake_guest *g, int fd, const char *text);

#endif
