/* SPDX-License-Identifier: Apache-2.0 */
/* A split virtqueue: see virtqueue.h. Enters: rings written by the guest. Leaves: checked chains of buffers. */
#include "virtqueue.h"

#include <endian.h>
#include <string.h>
#include <unistd.h>

#define LOAD(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define STORE(p, value) __atomic_store_n(p, value, __ATOMIC_RELAXED)

void virtqueue_init(struct virtqueue *vq)
{
	memset(vq, 0, sizeof(*vq));
	vq->call_fd = -1;
}

int virtqueue_break(struct virtqueue *vq, const char *why)
{
	if (!vq->broken)
		vq->broken = why;
	return CCHV_ERR_PROTOCOL;
}

/* The entries after the rings that carry the event indexes. */
static uint16_t *used_event(struct virtqueue *vq)
{
	return (uint16_t *)&vq->avail->ring[vq->num];
}

static uint16_t *avail_event(struct virtqueue *vq)
{
	return (uint16_t *)&vq->used->ring[vq->num];
}

int virtqueue_relocate(struct virtqueue *vq, const struct guest_mem *mem, cchv_error **err)
{
	const size_t n = vq->num;
	/* Both rings end with an event index. */
	const size_t avail_size = sizeof(struct vring_avail) + n * sizeof(uint16_t) + sizeof(uint16_t);
	const size_t used_size = sizeof(struct vring_used) + n * sizeof(struct vring_used_elem) + sizeof(uint16_t);
	void *desc = guest_mem_at_user(mem, vq->desc_user, n * sizeof(struct vring_desc));
	void *avail = guest_mem_at_user(mem, vq->avail_user, avail_size);
	void *used = guest_mem_at_user(mem, vq->used_user, used_size);

	if (!desc || !avail || !used)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "virtqueue: the ring is not in the guest's memory");
	if ((uintptr_t)desc % 16 || (uintptr_t)avail % 2 || (uintptr_t)used % 4)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "virtqueue: the ring is not aligned");
	vq->desc = desc;
	vq->avail = avail;
	vq->used = used;
	return CCHV_OK;
}

int virtqueue_start(struct virtqueue *vq, const struct guest_mem *mem, uint16_t base, cchv_error **err)
{
	int r;

	if (!vq->num || vq->num > VIRTQUEUE_SIZE_MAX || (vq->num & (vq->num - 1)))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "virtqueue: impossible size %u", vq->num);
	r = virtqueue_relocate(vq, mem, err);
	if (r < 0)
		return r;
	vq->next_avail = base;
	vq->next_used = base;
	vq->published = base;
	vq->broken = NULL;
	STORE(&vq->used->flags, htole16(0));
	return CCHV_OK;
}

void virtqueue_stop(struct virtqueue *vq)
{
	vq->desc = NULL;
	vq->avail = NULL;
	vq->used = NULL;
}

/* Chains that wait, 0 to num; negative: broken. */
static int waiting(struct virtqueue *vq)
{
	uint16_t n;

	if (vq->broken)
		return CCHV_ERR_PROTOCOL;
	if (!vq->desc)
		return 0;
	/* Acquire: the entries and descriptors were written before the index. */
	n = (uint16_t)(le16toh(__atomic_load_n(&vq->avail->idx, __ATOMIC_ACQUIRE)) - vq->next_avail);
	if (n > vq->num)
		return virtqueue_break(vq, "the available index ran ahead");
	return n;
}

/* A chain while it is walked. */
struct walk {
	struct virtqueue *vq;
	struct guest_mem *mem;
	struct virtqueue_chain *chain;
	size_t max;
	unsigned int seen;
	const struct vring_desc *table;
	uint32_t table_len;
	uint16_t at;
	int indirect;
};

/* Step into a table that the descriptor points at; it is the last one of its chain. */
static int enter_table(struct walk *w, uint64_t addr, uint32_t len)
{
	struct iovec table;

	if (w->indirect)
		return virtqueue_break(w->vq, "an indirect table inside an indirect table");
	if (!len || len % sizeof(struct vring_desc) || len / sizeof(struct vring_desc) > w->vq->num)
		return virtqueue_break(w->vq, "an indirect table of impossible size");
	if (guest_mem_iov(w->mem, addr, len, 0, &table, 1) != 1)
		return virtqueue_break(w->vq, "an indirect table outside the guest's memory");
	if ((uintptr_t)table.iov_base % 16)
		return virtqueue_break(w->vq, "an indirect table that is not aligned");
	w->indirect = 1;
	w->table = table.iov_base;
	w->table_len = len / sizeof(struct vring_desc);
	w->at = 0;
	return CCHV_OK;
}

static int add_buffer(struct walk *w, uint64_t addr, uint32_t len, int write)
{
	struct virtqueue_chain *c = w->chain;
	size_t have = c->out_count + c->in_count;
	int n;

	if (!write && c->in_count)
		return virtqueue_break(w->vq, "a readable buffer after a writable one");
	n = guest_mem_iov(w->mem, addr, len, write, c->iov + have, w->max - have);
	if (n == CCHV_ERR_LIMIT)
		return n;
	if (n < 0)
		return virtqueue_break(w->vq, len ? "a buffer outside the guest's memory" : "an empty buffer");
	if (write) {
		c->in_count += (size_t)n;
		c->in_len += len;
	} else {
		c->out_count += (size_t)n;
		c->out_len += len;
	}
	return CCHV_OK;
}

static int walk_chain(struct walk *w)
{
	for (;;) {
		const struct vring_desc *d = &w->table[w->at];
		uint64_t addr = le64toh(LOAD(&d->addr));
		uint32_t len = le32toh(LOAD(&d->len));
		uint16_t flags = le16toh(LOAD(&d->flags)), next = le16toh(LOAD(&d->next));
		int r;

		/* No chain is longer than the queue, and so a loop ends here. */
		if (++w->seen > w->vq->num + 1u)
			return virtqueue_break(w->vq, "a chain that does not end");
		if (flags & VRING_DESC_F_INDIRECT) {
			if (flags & VRING_DESC_F_NEXT)
				return virtqueue_break(w->vq, "an indirect table that is not the last of its chain");
			r = enter_table(w, addr, len);
			if (r < 0)
				return r;
			continue;
		}
		r = add_buffer(w, addr, len, flags & VRING_DESC_F_WRITE);
		if (r < 0)
			return r;
		if (!(flags & VRING_DESC_F_NEXT))
			return CCHV_OK;
		if (next >= w->table_len)
			return virtqueue_break(w->vq, "a descriptor beyond its table");
		w->at = next;
	}
}

int virtqueue_pop(struct virtqueue *vq, struct guest_mem *mem, struct iovec *iov, size_t max,
                  struct virtqueue_chain *chain)
{
	struct walk w = { .vq = vq, .mem = mem, .chain = chain, .max = max };
	int r = waiting(vq);

	if (r <= 0)
		return r;
	memset(chain, 0, sizeof(*chain));
	chain->iov = iov;
	chain->head = le16toh(LOAD(&vq->avail->ring[vq->next_avail & (vq->num - 1)]));
	if (chain->head >= vq->num)
		return virtqueue_break(vq, "a head beyond the table");
	w.table = vq->desc;
	w.table_len = vq->num;
	w.at = chain->head;
	r = walk_chain(&w);
	if (r < 0)
		return r;
	vq->next_avail++;
	return 1;
}

void virtqueue_unpop(struct virtqueue *vq, uint16_t count)
{
	vq->next_avail = (uint16_t)(vq->next_avail - count);
}

void virtqueue_push(struct virtqueue *vq, uint16_t head, uint32_t len)
{
	struct vring_used_elem *e = &vq->used->ring[vq->next_used & (vq->num - 1)];

	STORE(&e->id, htole32(head));
	STORE(&e->len, htole32(len));
	vq->next_used++;
}

int virtqueue_publish(struct virtqueue *vq)
{
	uint16_t old = vq->published;

	if (!vq->desc || vq->next_used == old)
		return 0;
	__atomic_store_n(&vq->used->idx, htole16(vq->next_used), __ATOMIC_RELEASE);
	vq->published = vq->next_used;
	/* The guest writes its wish, then looks at used->idx; we the other way round. One of us sees the other. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!vq->event_idx)
		return !(le16toh(LOAD(&vq->avail->flags)) & VRING_AVAIL_F_NO_INTERRUPT);
	return vring_need_event(le16toh(LOAD(used_event(vq))), vq->next_used, old);
}

void virtqueue_interrupt(struct virtqueue *vq)
{
	uint64_t one = 1;

	/* A full counter (EAGAIN) is an interrupt that is pending already. */
	if (vq->call_fd >= 0 && write(vq->call_fd, &one, sizeof(one)) < 0)
		return;
}

int virtqueue_want_kicks(struct virtqueue *vq)
{
	if (!vq->desc || vq->broken)
		return 0;
	if (vq->event_idx)
		STORE(avail_event(vq), htole16(vq->next_avail));
	else
		STORE(&vq->used->flags, htole16(0));
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return waiting(vq) != 0;
}

void virtqueue_refuse_kicks(struct virtqueue *vq)
{
	/* With event indexes the guest kicks only when it passes the one that was set last. */
	if (vq->desc && !vq->event_idx)
		STORE(&vq->used->flags, htole16(VRING_USED_F_NO_NOTIFY));
}
