/* SPDX-License-Identifier: Apache-2.0 */
/* A vhost-user back end: see vhost_user.h. Enters: the front end's messages, kicks. Leaves: running queues. */
#include "vhost_user.h"

#include <errno.h>
#include <linux/virtio_config.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

#define BIT(n) (1ULL << (n))
#define TRANSPORT_FEATURES                                                                            \
	(BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_RING_F_INDIRECT_DESC) | BIT(VIRTIO_RING_F_EVENT_IDX) | \
	 BIT(VHOST_USER_F_PROTOCOL_FEATURES))
#define PROTOCOL_FEATURES                                                   \
	(BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK) | BIT(VHOST_USER_PROTOCOL_F_CONFIG) | \
	 BIT(VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS))
/* Messages handled in one go, so that a front end that talks without end does not hold the loop. */
#define BURST 32

/* Handlers answer with one of these, or with a negative CCHV_ERR_* for a request that is refused. */
#define DONE 0
#define REPLIED 1

static void on_kick(uint32_t events, void *user_data)
{
	struct vhost_user_queue *q = user_data;
	uint64_t count;

	if (read(q->kick_fd, &count, sizeof(count)) < 0 && errno != EAGAIN && errno != EINTR) {
		loop_source_free(q->kick_source);
		q->kick_source = NULL;
		return;
	}
	if (q->owner->running)
		q->owner->ops->kicked((unsigned int)(q - q->owner->queues), q->owner->user_data);
}

void vhost_user_kick_self(struct vhost_user *vu, unsigned int queue)
{
	uint64_t one = 1;

	/* A full counter (EAGAIN) is a kick that is pending already. */
	if (vu->queues[queue].kick_fd >= 0 && write(vu->queues[queue].kick_fd, &one, sizeof(one)) < 0)
		return;
}

void vhost_user_signal_error(struct vhost_user *vu, unsigned int queue)
{
	uint64_t one = 1;

	if (vu->queues[queue].err_fd >= 0 && write(vu->queues[queue].err_fd, &one, sizeof(one)) < 0)
		log_debug(vu->log, "vhost-user: queue %u: cannot signal an error: %s", queue, strerror(errno));
}

void vhost_user_forget(struct vhost_user *vu)
{
	for (int i = 0; i < VHOST_USER_QUEUES; i++) {
		vu->queues[i].stop.valid = 0;
		vu->queues[i].carried = 0;
	}
}

void vhost_user_carry(struct vhost_user *vu, const uint16_t bases[VHOST_USER_QUEUES])
{
	for (int i = 0; i < VHOST_USER_QUEUES; i++) {
		vu->queues[i].base = bases[i];
		vu->queues[i].carried = 1;
	}
}

/* Bring the device in line with what the front end said of its queues. */
static int update_running(struct vhost_user *vu, cchv_error **err)
{
	int on = 1, resumed = 1, r;

	for (int i = 0; i < VHOST_USER_QUEUES; i++)
		on = on && vu->queues[i].started && vu->queues[i].enabled;
	if (on == vu->running)
		return CCHV_OK;
	for (int i = 0; on && i < VHOST_USER_QUEUES; i++) {
		struct vhost_user_queue *q = &vu->queues[i];

		resumed = resumed && (q->carried || (q->stop.valid && q->stop.base == q->base &&
		                                     q->stop.desc_user == q->vq.desc_user));
		q->vq.event_idx = !!(vu->features & BIT(VIRTIO_RING_F_EVENT_IDX));
		r = virtqueue_start(&q->vq, &vu->mem, q->base, err);
		if (r < 0)
			return r;
	}
	for (int i = 0; on && i < VHOST_USER_QUEUES; i++)
		vu->queues[i].carried = 0;
	vu->running = on;
	vu->ops->running(on, resumed, vu->user_data);
	for (int i = 0; !on && i < VHOST_USER_QUEUES; i++) {
		struct vhost_user_queue *q = &vu->queues[i];

		q->base = q->vq.next_avail;
		q->stop.valid = 1;
		q->stop.base = q->base;
		q->stop.desc_user = q->vq.desc_user;
		virtqueue_stop(&q->vq);
	}
	return CCHV_OK;
}

static int reply(struct vhost_user *vu, const void *payload, size_t size)
{
	struct {
		struct vhost_user_header header;
		union vhost_user_payload payload;
	} __attribute__((packed)) out = {
		.header = { vu->msg.header.request, VHOST_USER_FLAG_VERSION | VHOST_USER_FLAG_REPLY, (uint32_t)size },
	};
	size_t len = sizeof(out.header) + size;

	memcpy(&out.payload, payload, size);
	/* The front end waits for each answer, so the socket has room unless it is gone. */
	if (send(vu->fd, &out, len, MSG_NOSIGNAL) != (ssize_t)len)
		return CCHV_ERR_VMM_GONE;
	return REPLIED;
}

static int reply_u64(struct vhost_user *vu, uint64_t value)
{
	return reply(vu, &value, sizeof(value));
}

static struct vhost_user_queue *queue_of(struct vhost_user *vu, uint64_t index, cchv_error **err)
{
	if (index < VHOST_USER_QUEUES)
		return &vu->queues[index];
	err_set(err, CCHV_ERR_PROTOCOL, 0, "no queue %llu", (unsigned long long)index);
	return NULL;
}

static int do_get_features(struct vhost_user *vu, cchv_error **err)
{
	return reply_u64(vu, vu->offered);
}

static int do_set_features(struct vhost_user *vu, cchv_error **err)
{
	uint64_t features = vu->msg.payload.u64;

	if (features & ~vu->offered)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "features 0x%llx were not offered",
		               (unsigned long long)(features & ~vu->offered));
	vu->features = features;
	/* Without the protocol features there is no SET_VRING_ENABLE. */
	for (int i = 0; i < VHOST_USER_QUEUES; i++)
		if (!(features & BIT(VHOST_USER_F_PROTOCOL_FEATURES)))
			vu->queues[i].enabled = 1;
	return DONE;
}

static int do_nothing(struct vhost_user *vu, cchv_error **err)
{
	return DONE;
}

static int do_get_protocol_features(struct vhost_user *vu, cchv_error **err)
{
	return reply_u64(vu, PROTOCOL_FEATURES);
}

static int do_set_protocol_features(struct vhost_user *vu, cchv_error **err)
{
	if (vu->msg.payload.u64 & ~PROTOCOL_FEATURES)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "protocol features 0x%llx were not offered",
		               (unsigned long long)(vu->msg.payload.u64 & ~PROTOCOL_FEATURES));
	vu->protocol_features = vu->msg.payload.u64;
	return DONE;
}

static int do_get_queue_num(struct vhost_user *vu, cchv_error **err)
{
	return reply_u64(vu, VHOST_USER_QUEUES);
}

static int do_get_max_mem_slots(struct vhost_user *vu, cchv_error **err)
{
	return reply_u64(vu, GUEST_MEM_REGIONS_MAX);
}

static int do_get_config(struct vhost_user *vu, cchv_error **err)
{
	struct vhost_user_config *c = &vu->msg.payload.config;
	const size_t head = offsetof(struct vhost_user_config, region);

	if (c->size > VHOST_USER_CONFIG_MAX || vu->msg.header.size != head + c->size || c->offset > vu->config_size ||
	    c->size > vu->config_size - c->offset)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "no %u bytes of configuration at %u", c->size, c->offset);
	memcpy(c->region, vu->config + c->offset, c->size);
	return reply(vu, c, head + c->size);
}

/* The rings may lie elsewhere now, each of them, or nowhere. */
static int relocate(struct vhost_user *vu, cchv_error **err)
{
	int result = CCHV_OK;

	for (int i = 0; vu->running && i < VHOST_USER_QUEUES; i++) {
		struct virtqueue *vq = &vu->queues[i].vq;

		if (virtqueue_relocate(vq, &vu->mem, result < 0 ? NULL : err) < 0) {
			virtqueue_stop(vq);
			virtqueue_break(vq, "its memory was taken away");
			result = CCHV_ERR_PROTOCOL;
		}
	}
	return result;
}

static int add_region(struct vhost_user *vu, const struct vhost_user_region *r, size_t fd_at, cchv_error **err)
{
	const struct guest_range range = { .guest = r->guest, .size = r->size, .user = r->user };

	if (fd_at >= vu->msg.fd_count)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "guest memory at 0x%llx: no descriptor came with it",
		               (unsigned long long)r->guest);
	return guest_mem_add(&vu->mem, &range, vu->msg.fds[fd_at], r->offset, err);
}

static int do_set_mem_table(struct vhost_user *vu, cchv_error **err)
{
	const struct vhost_user_mem_table *t = &vu->msg.payload.table;
	const size_t head = offsetof(struct vhost_user_mem_table, regions);

	if (t->count > VHOST_USER_TABLE_REGIONS || vu->msg.header.size != head + t->count * sizeof(t->regions[0]))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "%u regions in %u bytes", t->count, vu->msg.header.size);
	guest_mem_clear(&vu->mem);
	for (uint32_t i = 0; i < t->count; i++) {
		int r = add_region(vu, &t->regions[i], i, err);

		if (r < 0) {
			/* Half a memory is none; the queues find that out too. */
			guest_mem_clear(&vu->mem);
			relocate(vu, NULL);
			return r;
		}
	}
	return relocate(vu, err);
}

static int do_add_mem_reg(struct vhost_user *vu, cchv_error **err)
{
	return add_region(vu, &vu->msg.payload.reg.region, 0, err);
}

static int do_rem_mem_reg(struct vhost_user *vu, cchv_error **err)
{
	const struct vhost_user_region *region = &vu->msg.payload.reg.region;
	const struct guest_range range = { .guest = region->guest, .size = region->size, .user = region->user };
	int r = guest_mem_remove(&vu->mem, &range, err);

	return r < 0 ? r : relocate(vu, err);
}

static int do_set_vring_num(struct vhost_user *vu, cchv_error **err)
{
	struct vhost_user_queue *q = queue_of(vu, vu->msg.payload.state.index, err);
	uint32_t num = vu->msg.payload.state.num;

	if (!q)
		return CCHV_ERR_PROTOCOL;
	if (vu->running || !num || num > VIRTQUEUE_SIZE_MAX || (num & (num - 1)))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "queue size %u", num);
	q->vq.num = (uint16_t)num;
	return DONE;
}

static int do_set_vring_addr(struct vhost_user *vu, cchv_error **err)
{
	const struct vhost_user_vring_addr *a = &vu->msg.payload.addr;
	struct vhost_user_queue *q = queue_of(vu, a->index, err);

	if (!q)
		return CCHV_ERR_PROTOCOL;
	q->vq.desc_user = a->desc;
	q->vq.avail_user = a->avail;
	q->vq.used_user = a->used;
	return relocate(vu, err);
}

static int do_set_vring_base(struct vhost_user *vu, cchv_error **err)
{
	struct vhost_user_queue *q = queue_of(vu, vu->msg.payload.state.index, err);

	if (!q)
		return CCHV_ERR_PROTOCOL;
	if (vu->running || vu->msg.payload.state.num > UINT16_MAX)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "queue base %u", vu->msg.payload.state.num);
	if (!q->carried)
		q->base = (uint16_t)vu->msg.payload.state.num;
	return DONE;
}

static void drop_kick(struct vhost_user_queue *q)
{
	loop_source_free(q->kick_source);
	q->kick_source = NULL;
	fd_close(&q->kick_fd);
}

/* Stops the queue, and with it the device. */
static int do_get_vring_base(struct vhost_user *vu, cchv_error **err)
{
	struct vhost_user_queue *q = queue_of(vu, vu->msg.payload.state.index, err);
	struct vhost_user_vring_state state = { .index = vu->msg.payload.state.index };
	int r;

	if (!q)
		return CCHV_ERR_PROTOCOL;
	q->started = 0;
	r = update_running(vu, err);
	if (r < 0)
		return r;
	drop_kick(q);
	state.num = q->base;
	return reply(vu, &state, sizeof(state));
}

static int do_set_vring_kick(struct vhost_user *vu, cchv_error **err)
{
	struct vhost_user_queue *q = queue_of(vu, vu->msg.payload.u64 & VHOST_USER_VRING_INDEX_MASK, err);
	int r;

	if (!q)
		return CCHV_ERR_PROTOCOL;
	if (vu->msg.payload.u64 & VHOST_USER_VRING_NO_FD || !vu->msg.fd_count)
		return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "a queue without kicks would have to be polled");
	drop_kick(q);
	q->kick_fd = vhost_user_msg_take_fd(&vu->msg, 0);
	if (fd_set_nonblock(q->kick_fd, 1) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "kick descriptor");
	r = loop_add(vu->loop, q->kick_fd, EPOLLIN, on_kick, q, &q->kick_source, err);
	if (r < 0)
		return r;
	q->started = 1;
	return update_running(vu, err);
}

static int do_set_vring_call(struct vhost_user *vu, cchv_error **err)
{
	struct vhost_user_queue *q = queue_of(vu, vu->msg.payload.u64 & VHOST_USER_VRING_INDEX_MASK, err);

	if (!q)
		return CCHV_ERR_PROTOCOL;
	fd_close(&q->vq.call_fd);
	q->vq.call_fd = vhost_user_msg_take_fd(&vu->msg, 0);
	if (q->vq.call_fd >= 0 && fd_set_nonblock(q->vq.call_fd, 1) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "call descriptor");
	return DONE;
}

static int do_set_vring_err(struct vhost_user *vu, cchv_error **err)
{
	struct vhost_user_queue *q = queue_of(vu, vu->msg.payload.u64 & VHOST_USER_VRING_INDEX_MASK, err);

	if (!q)
		return CCHV_ERR_PROTOCOL;
	fd_close(&q->err_fd);
	q->err_fd = vhost_user_msg_take_fd(&vu->msg, 0);
	if (q->err_fd >= 0 && fd_set_nonblock(q->err_fd, 1) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "error descriptor");
	return DONE;
}

static int do_set_vring_enable(struct vhost_user *vu, cchv_error **err)
{
	struct vhost_user_queue *q = queue_of(vu, vu->msg.payload.state.index, err);

	if (!q)
		return CCHV_ERR_PROTOCOL;
	q->enabled = !!vu->msg.payload.state.num;
	return update_running(vu, err);
}

static int (*const handlers[VHOST_USER_REQUEST_COUNT])(struct vhost_user *vu, cchv_error **err) = {
	[VHOST_USER_GET_FEATURES] = do_get_features,
	[VHOST_USER_SET_FEATURES] = do_set_features,
	[VHOST_USER_SET_OWNER] = do_nothing,
	[VHOST_USER_RESET_OWNER] = do_nothing,
	[VHOST_USER_SET_MEM_TABLE] = do_set_mem_table,
	[VHOST_USER_SET_VRING_NUM] = do_set_vring_num,
	[VHOST_USER_SET_VRING_ADDR] = do_set_vring_addr,
	[VHOST_USER_SET_VRING_BASE] = do_set_vring_base,
	[VHOST_USER_GET_VRING_BASE] = do_get_vring_base,
	[VHOST_USER_SET_VRING_KICK] = do_set_vring_kick,
	[VHOST_USER_SET_VRING_CALL] = do_set_vring_call,
	[VHOST_USER_SET_VRING_ERR] = do_set_vring_err,
	[VHOST_USER_GET_PROTOCOL_FEATURES] = do_get_protocol_features,
	[VHOST_USER_SET_PROTOCOL_FEATURES] = do_set_protocol_features,
	[VHOST_USER_GET_QUEUE_NUM] = do_get_queue_num,
	[VHOST_USER_SET_VRING_ENABLE] = do_set_vring_enable,
	[VHOST_USER_GET_CONFIG] = do_get_config,
	[VHOST_USER_GET_MAX_MEM_SLOTS] = do_get_max_mem_slots,
	[VHOST_USER_ADD_MEM_REG] = do_add_mem_reg,
	[VHOST_USER_REM_MEM_REG] = do_rem_mem_reg,
};

/* Negative: the channel can be used no longer. */
static int dispatch(struct vhost_user *vu)
{
	const struct vhost_user_header h = vu->msg.header;
	cleanup_err cchv_error *err = NULL;
	int r;

	if (h.request < VHOST_USER_REQUEST_COUNT && handlers[h.request])
		r = handlers[h.request](vu, &err);
	else
		r = err_set(&err, CCHV_ERR_UNSUPPORTED, 0, "unknown request");
	if (r < 0 && r != CCHV_ERR_VMM_GONE)
		log_error(vu->log, "vhost-user: request %u (%s) refused: %s", h.request, vhost_user_msg_name(h.request),
		          cchv_error_message(err));
	if (r == CCHV_ERR_VMM_GONE || r == REPLIED)
		return r;
	/*
	 * A refusal can only be told where an acknowledgement was asked for. Where an answer with a value is due
	 * there is none to give, and a front end that waits for one would wait for ever: end the channel.
	 */
	if (h.flags & VHOST_USER_FLAG_NEED_REPLY && vu->protocol_features & BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK))
		return reply_u64(vu, r < 0);
	return r == CCHV_ERR_UNSUPPORTED ? DONE : r;
}

static void close_channel(struct vhost_user *vu, const char *why)
{
	vhost_user_msg_clear(&vu->msg);
	loop_source_free(vu->source);
	vu->source = NULL;
	fd_close(&vu->fd);
	for (int i = 0; i < VHOST_USER_QUEUES; i++)
		vu->queues[i].started = 0;
	update_running(vu, NULL);
	for (int i = 0; i < VHOST_USER_QUEUES; i++)
		drop_kick(&vu->queues[i]);
	guest_mem_clear(&vu->mem);
	vu->ops->closed(why, vu->user_data);
}

static void on_message(uint32_t events, void *user_data)
{
	struct vhost_user *vu = user_data;

	for (int i = 0; i < BURST; i++) {
		cleanup_err cchv_error *err = NULL;
		int r = vhost_user_msg_receive(&vu->msg, vu->fd, &err);

		if (r == 0)
			return;
		if (r > 0) {
			r = dispatch(vu);
			vhost_user_msg_clear(&vu->msg);
		}
		if (r < 0) {
			close_channel(vu, err ? cchv_error_message(err) : "vhost-user: the channel broke off");
			return;
		}
	}
}

int vhost_user_init(struct vhost_user *vu, struct loop *loop, int fd, uint64_t features, const void *config,
                    size_t config_size, const struct vhost_user_ops *ops, void *user_data,
                    const struct log_sink *log, cchv_error **err)
{
	memset(vu, 0, sizeof(*vu));
	vu->loop = loop;
	vu->log = log;
	vu->ops = ops;
	vu->user_data = user_data;
	vu->fd = fd;
	vu->offered = features | TRANSPORT_FEATURES;
	for (int i = 0; i < VHOST_USER_QUEUES; i++) {
		virtqueue_init(&vu->queues[i].vq);
		vu->queues[i].owner = vu;
		vu->queues[i].kick_fd = -1;
		vu->queues[i].err_fd = -1;
	}
	if (config_size > sizeof(vu->config))
		return err_set(err, CCHV_ERR_INVALID, 0, "vhost-user: %zu bytes of configuration", config_size);
	memcpy(vu->config, config, config_size);
	vu->config_size = config_size;
	if (fd_set_nonblock(fd, 1) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "vhost-user: channel");
	return loop_add(loop, fd, EPOLLIN, on_message, vu, &vu->source, err);
}

void vhost_user_release(struct vhost_user *vu)
{
	vhost_user_msg_clear(&vu->msg);
	loop_source_free(vu->source);
	vu->source = NULL;
	fd_close(&vu->fd);
	for (int i = 0; i < VHOST_USER_QUEUES; i++) {
		drop_kick(&vu->queues[i]);
		virtqueue_stop(&vu->queues[i].vq);
		fd_close(&vu->queues[i].vq.call_fd);
		fd_close(&vu->queues[i].err_fd);
	}
	guest_mem_clear(&vu->mem);
	vu->running = 0;
}
