/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A vhost-user back end with two queues: the channel to the front end (QEMU), the guest's memory, the queues'
 * set-up, kicks. What the queues carry is the business of the device above.
 */
#ifndef QEMU_VHOST_USER_H
#define QEMU_VHOST_USER_H

#include "base/log.h"
#include "base/loop.h"
#include "vhost_user_msg.h"
#include "virtqueue.h"

#define VHOST_USER_QUEUES 2
#define VHOST_USER_DEVICE_CONFIG_MAX 16

struct vhost_user;

struct vhost_user_ops {
	/*
	 * Both queues run (on 1), or no longer do (on 0). resumed: they go on where they stood, so the guest's
	 * driver has not noticed that they were stopped (the VM was paused).
	 */
	void (*running)(int on, int resumed, void *user_data);
	/* The guest kicked; not called while the queues do not run. */
	void (*kicked)(unsigned int queue, void *user_data);
	/* The front end is gone, or talks nonsense: nothing will come any more. */
	void (*closed)(const char *why, void *user_data);
};

struct vhost_user_queue {
	struct virtqueue vq;
	struct vhost_user *owner;
	struct loop_source *kick_source;
	int kick_fd, err_fd;       /* -1: none */
	int started, enabled;      /* as the front end said; running when both are set */
	uint16_t base;             /* where it begins when it is started */
	int carried;               /* base is where an earlier front end left it, whatever this one says */
	struct {                   /* where it stood when it was stopped, to know a resumption */
		int valid;
		uint16_t base;
		uint64_t desc_user;
	} stop;
};

struct vhost_user {
	struct loop *loop;
	const struct log_sink *log;
	const struct vhost_user_ops *ops;
	void *user_data;
	int fd;                    /* our end of the channel; -1 when closed */
	struct loop_source *source;
	struct vhost_user_msg msg;
	uint64_t features, offered;
	uint64_t protocol_features;
	struct guest_mem mem;
	struct vhost_user_queue queues[VHOST_USER_QUEUES];
	int running;
	uint8_t config[VHOST_USER_DEVICE_CONFIG_MAX];
	size_t config_size;
};

/*
 * Takes fd over, also when it fails. features: of the device, beyond those of the transport. The struct must stay
 * where it is.
 */
int vhost_user_init(struct vhost_user *vu, struct loop *loop, int fd, uint64_t features, const void *config,
                    size_t config_size, const struct vhost_user_ops *ops, void *user_data,
                    const struct log_sink *log, cchv_error **err);
void vhost_user_release(struct vhost_user *vu);

/*
 * Before the front end starts the queues for the first time: they go on at these entries, since the guest has seen
 * nothing of the change of front ends. The device is told that they resume.
 */
void vhost_user_carry(struct vhost_user *vu, const uint16_t bases[VHOST_USER_QUEUES]);
/* The guest is reset: when the queues run again, they do not go on from where they stood. */
void vhost_user_forget(struct vhost_user *vu);
/* Tell the front end that a queue is broken. */
void vhost_user_signal_error(struct vhost_user *vu, unsigned int queue);
/* Be called for this queue again, after whatever else is ready: the rest of a long piece of work. */
void vhost_user_kick_self(struct vhost_user *vu, unsigned int queue);

#endif
