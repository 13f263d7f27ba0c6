/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vsock device of a VM, as the rest of cchv-qemu sees it: a vhost-user back end for QEMU's
 * vhost-user-vsock-pci on one side, Cloud Hypervisor's hybrid vsock (a Unix socket) on the other.
 *
 * Life: vsock_new() binds the Unix socket; vsock_take_frontend_fd() gives the end of a socketpair that QEMU is to
 * use; vsock_free() closes all connections and unlinks the socket. All of it runs in the thread of the loop.
 *
 * At start, QEMU inherits the descriptor (not close-on-exec in the child alone) as number N:
 *   -chardev socket,id=vsock0,fd=N -device vhost-user-vsock-pci,id=ID,chardev=vsock0,addr=SLOT
 * In a running QEMU, by QMP: getfd {"fdname": "vsock0"} with the descriptor in SCM_RIGHTS, then
 *   chardev-add {"id": "vsock0", "backend": {"type": "socket", "data": {"server": false,
 *                "addr": {"type": "fd", "data": {"str": "vsock0"}}}}}
 *   device_add {"driver": "vhost-user-vsock-pci", "id": ID, "chardev": "vsock0", "bus": "pci.0", "addr": "0x10"}
 * Guest memory must be shared (memory-backend-memfd or -file, share=on).
 *
 * QEMU waits for this back end's answers in its main loop: whoever sends a QMP command must let the loop run
 * while the reply is awaited (device_add, device_del, stop, cont, system_reset, and any other that happens to be
 * carried out after them).
 */
#ifndef QEMU_VSOCK_H
#define QEMU_VSOCK_H

#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"

struct vsock;

/*
 * socket_path may be relative to the working directory, which must then stay the same; EADDRINUSE when it exists.
 * The loop and the sink outlive the object; log may be NULL. guest_cid: 3 to 2^32 - 2.
 */
int vsock_new(struct loop *loop, const char *socket_path, uint64_t guest_cid, const struct log_sink *log,
              struct vsock **ret_vsock, cchv_error **err);

/* QEMU's end of the channel, close-on-exec; the caller owns it. CCHV_ERR_STATE the second time. */
int vsock_take_frontend_fd(struct vsock *vsock, int *ret_fd);

/* Called each time when the guest's driver has set up the queues; not when a paused VM goes on. */
void vsock_set_activated_fn(struct vsock *vsock, void (*fn)(void *user_data), void *user_data);

/*
 * The VM is rebooted in place: open connections die and the socket is made anew, as Cloud Hypervisor does it.
 * A reset that nobody announces here is noticed when the guest's driver starts again.
 */
int vsock_reset(struct vsock *vsock, cchv_error **err);

/*
 * A paused VM is saved: QEMU's device goes and comes back, and the guest sees nothing of it. vsock_hold() before it
 * goes: connections stay, and are as they were. vsock_renew() when it is gone: a new end for QEMU is to be taken, and
 * the queues will go on where they stood. The places are for a snapshot; queues 0: no driver had set them up.
 */
struct vsock_places {
	uint16_t receive, transmit;
	uint32_t next_port;             /* of the host; the guest may still hold all before it */
};

void vsock_hold(struct vsock *vsock, struct vsock_places *ret_places);
void vsock_unhold(struct vsock *vsock);         /* it did not go */
int vsock_renew(struct vsock *vsock, const struct vsock_places *places, int queues, cchv_error **err);
/* The connections' ports, the guest's and the host's, for a snapshot; at most max. How many there are. */
size_t vsock_list(const struct vsock *vsock, uint32_t (*ports)[2], size_t max);
/* In a restored VM: the guest has a connection that nobody else knows: it is told that it is no more. */
int vsock_forget(struct vsock *vsock, uint32_t guest_port, uint32_t host_port);

/* Also after unplugging. NULL is fine. */
void vsock_free(struct vsock *vsock);

DEFINE_CLEANUP(vsock, struct vsock, vsock_free)
#define cleanup_vsock __attribute__((cleanup(vsock_cleanup)))

#endif
