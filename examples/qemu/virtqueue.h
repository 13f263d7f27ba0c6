/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's side of a split virtqueue. The ring lies in the guest's memory, so each value in it is read once
 * and believed never. A ring that makes no sense is broken: nothing is taken from it until it is started again.
 */
#ifndef QEMU_VIRTQUEUE_H
#define QEMU_VIRTQUEUE_H

#include <linux/virtio_ring.h>

#include "virtqueue_mem.h"

#define VIRTQUEUE_SIZE_MAX 1024

struct virtqueue {
	/* As set by the front end. */
	uint16_t num;
	uint64_t desc_user, avail_user, used_user;
	int event_idx;
	int call_fd;              /* -1: the guest is never interrupted */

	/* While it runs. */
	struct vring_desc *desc;  /* NULL: stopped */
	struct vring_avail *avail;
	struct vring_used *used;
	uint16_t next_avail;      /* the next entry to take */
	uint16_t next_used;       /* the next entry to fill; entries before it may not be published yet */
	uint16_t published;       /* what the guest sees as used->idx */
	const char *broken;       /* why, or NULL */
};

/* One chain of buffers: first those that the guest filled, then those that it wants filled. */
struct virtqueue_chain {
	uint16_t head;
	size_t out_count, in_count;  /* pieces */
	size_t out_len, in_len;      /* bytes */
	struct iovec *iov;           /* out_count + in_count of them */
};

void virtqueue_init(struct virtqueue *vq);

/*
 * Begin at entry base of the available ring. Nothing is in flight when a queue stops (all that was taken was
 * returned), so the used ring stands at the same entry.
 */
int virtqueue_start(struct virtqueue *vq, const struct guest_mem *mem, uint16_t base, cchv_error **err);
/* Find the ring again after the guest's memory was mapped anew. */
int virtqueue_relocate(struct virtqueue *vq, const struct guest_mem *mem, cchv_error **err);
void virtqueue_stop(struct virtqueue *vq);

/*
 * Take the next chain; its pieces go to iov, at most max. 1; 0: there is none; CCHV_ERR_LIMIT: more pieces than
 * max (nothing was taken); CCHV_ERR_PROTOCOL: broken.
 */
int virtqueue_pop(struct virtqueue *vq, struct guest_mem *mem, struct iovec *iov, size_t max,
                  struct virtqueue_chain *chain);
/* Put the last count chains back that were taken and not returned. */
void virtqueue_unpop(struct virtqueue *vq, uint16_t count);
/* Return a chain of which len bytes were filled. The guest sees it after virtqueue_publish(). */
void virtqueue_push(struct virtqueue *vq, uint16_t head, uint32_t len);
/* Show the guest what was returned; 1: it asks to be interrupted. */
int virtqueue_publish(struct virtqueue *vq);
void virtqueue_interrupt(struct virtqueue *vq);

/* Ask for kicks; 1: chains came in the meantime, so do not wait for one. */
int virtqueue_want_kicks(struct virtqueue *vq);
void virtqueue_refuse_kicks(struct virtqueue *vq);

/* For the owner that finds nonsense inside the buffers. Returns CCHV_ERR_PROTOCOL. */
int virtqueue_break(struct virtqueue *vq, const char *why);

#endif
