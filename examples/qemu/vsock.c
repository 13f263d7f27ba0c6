/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the vsock device: see vsock.h and vsock_device.h. Enters: paths, the front end. Leaves: a device. */
#include "vsock_device.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

void vsock_drop_all(struct vsock *vs)
{
	struct vsock_conn *conn;

	while ((conn = vsock_table_any(vs)))
		vsock_conn_free(conn);
	vs->reset_first = 0;
	vs->reset_count = 0;
}

/* The guest broke a queue: the device does nothing more until the driver sets it up anew. */
void vsock_fail(struct vsock *vs, unsigned int queue)
{
	log_error(vs->log, "vsock: the guest's %s queue is broken, the device stops: %s",
	          queue == VSOCK_QUEUE_RX ? "receive" : "transmit", vs->vu.queues[queue].vq.broken);
	vs->running = 0;
	vsock_host_mute(vs, 1);
	vsock_drop_all(vs);
	vhost_user_signal_error(&vs->vu, queue);
}

void vsock_arm_timer(struct vsock *vs)
{
	uint64_t next = CLOCK_NEVER;

	if (!TAILQ_EMPTY(&vs->expiring))
		next = TAILQ_FIRST(&vs->expiring)->deadline;
	if (TAILQ_EMPTY(&vs->waiting))
		vs->next_retry = CLOCK_NEVER;
	else if (vs->next_retry == CLOCK_NEVER)
		vs->next_retry = clock_deadline(VSOCK_HOST_RETRY_MS);
	loop_timer_set(vs->timer, next < vs->next_retry ? next : vs->next_retry);
}

/* Listeners whose backlog was full may have room now. */
static void retry_waiting(struct vsock *vs)
{
	struct vsock_conn *conn = TAILQ_FIRST(&vs->waiting), *next;

	for (; conn; conn = next) {
		int fd = vsock_host_connect(vs, conn->host_port);

		next = TAILQ_NEXT(conn, expiry_link);
		if (fd >= 0) {
			vsock_conn_connected(conn, fd);
		} else if (errno != EAGAIN || clock_passed(conn->deadline)) {
			vsock_conn_kill(conn);
			vsock_conn_settle(conn);
		}
	}
}

static void on_timer(void *user_data)
{
	struct vsock *vs = user_data;
	struct vsock_conn *conn;

	while ((conn = TAILQ_FIRST(&vs->expiring)) && clock_passed(conn->deadline)) {
		vsock_conn_kill(conn);
		vsock_conn_settle(conn);
	}
	if (clock_passed(vs->next_retry)) {
		retry_waiting(vs);
		vs->next_retry = CLOCK_NEVER;
	}
	vsock_arm_timer(vs);
	vsock_send_pump(vs);
}

static void on_running(int on, int resumed, void *user_data)
{
	struct vsock *vs = user_data;

	vs->running = on;
	vsock_host_mute(vs, !on);
	if (!on)
		return;
	/* A driver that starts anew knows nothing of the connections of the one before. */
	if (!resumed)
		vsock_drop_all(vs);
	if (!resumed && vs->activated)
		vs->activated(vs->activated_data);
	/* The interrupts that the device which is gone was to bring the guest may have gone with it. */
	for (int i = 0; vs->renewed && i < VHOST_USER_QUEUES; i++)
		virtqueue_interrupt(&vs->vu.queues[i].vq);
	vs->renewed = 0;
	/* What was put into the queues while they stood came without a kick that we saw. */
	vsock_receive_pump(vs);
}

static void on_kicked(unsigned int queue, void *user_data)
{
	struct vsock *vs = user_data;

	if (queue == VSOCK_QUEUE_TX)
		vsock_receive_pump(vs);
	else
		vsock_send_pump(vs);
}

static void on_closed(const char *why, void *user_data)
{
	struct vsock *vs = user_data;

	log_info(vs->log, "vsock: %s", why);
	if (!vs->held)
		vsock_drop_all(vs);
}

static const struct vhost_user_ops ops = {
	.running = on_running,
	.kicked = on_kicked,
	.closed = on_closed,
};

static int open_channel(struct vsock *vs, cchv_error **err)
{
	const uint64_t config = vs->cid;
	int fds[2];

	if (fd_socketpair(fds) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "vsock: socketpair");
	vs->frontend_fd = fds[1];
	/* The configuration space holds the guest's CID, little-endian; so is every host that this runs on. */
	return vhost_user_init(&vs->vu, vs->loop, fds[0], 0, &config, sizeof(config), &ops, vs, vs->log, err);
}

int vsock_new(struct loop *loop, const char *socket_path, uint64_t guest_cid, const struct log_sink *log,
              struct vsock **ret_vsock, cchv_error **err)
{
	cleanup_vsock struct vsock *vs = NULL;
	int r;

	if (guest_cid <= VSOCK_HOST_CID || guest_cid >= UINT32_MAX)
		return err_set(err, CCHV_ERR_INVALID, 0, "vsock: %llu is no guest's CID",
		               (unsigned long long)guest_cid);
	vs = mem_zalloc(sizeof(*vs));
	if (!vs)
		return err_nomem(err);
	vs->loop = loop;
	vs->log = log;
	vs->cid = guest_cid;
	vs->listen_fd = -1;
	vs->frontend_fd = -1;
	vs->vu.fd = -1;
	vs->next_host_port = VSOCK_FIRST_HOST_PORT;
	vs->next_retry = CLOCK_NEVER;
	TAILQ_INIT(&vs->turns);
	TAILQ_INIT(&vs->expiring);
	TAILQ_INIT(&vs->waiting);
	vs->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	vs->path = mem_strdup(socket_path);
	if (!vs->path || vsock_table_new(vs) < 0)
		return err_nomem(err);
	r = loop_timer_new(loop, on_timer, vs, &vs->timer, err);
	if (r < 0)
		return r;
	r = open_channel(vs, err);
	if (r < 0)
		return r;
	r = vsock_host_listen(vs, err);
	if (r < 0)
		return r;
	*ret_vsock = steal(&vs);
	return CCHV_OK;
}

int vsock_take_frontend_fd(struct vsock *vsock, int *ret_fd)
{
	if (vsock->frontend_fd < 0)
		return CCHV_ERR_STATE;
	*ret_fd = fd_steal(&vsock->frontend_fd);
	return CCHV_OK;
}

void vsock_set_activated_fn(struct vsock *vsock, void (*fn)(void *user_data), void *user_data)
{
	vsock->activated = fn;
	vsock->activated_data = user_data;
}

int vsock_reset(struct vsock *vsock, cchv_error **err)
{
	vsock_drop_all(vsock);
	vsock_host_close(vsock);
	vhost_user_forget(&vsock->vu);
	return vsock_host_listen(vsock, err);
}

void vsock_hold(struct vsock *vsock, struct vsock_places *ret_places)
{
	vsock->held = 1;
	ret_places->receive = vsock->vu.queues[VSOCK_QUEUE_RX].base;
	ret_places->transmit = vsock->vu.queues[VSOCK_QUEUE_TX].base;
	ret_places->next_port = vsock->next_host_port;
}

void vsock_unhold(struct vsock *vsock)
{
	vsock->held = 0;
}

int vsock_renew(struct vsock *vsock, const struct vsock_places *places, int queues, cchv_error **err)
{
	uint16_t bases[VHOST_USER_QUEUES];
	int r;

	vhost_user_release(&vsock->vu);
	fd_close(&vsock->frontend_fd);
	r = open_channel(vsock, err);
	vsock->held = 0;
	/* A port that the guest has not let go of yet would be refused by it. */
	if (places->next_port >= VSOCK_FIRST_HOST_PORT && places->next_port < VSOCK_FIRST_HOST_PORT * 2)
		vsock->next_host_port = places->next_port;
	if (r < 0 || !queues)
		return r;
	bases[VSOCK_QUEUE_RX] = places->receive;
	bases[VSOCK_QUEUE_TX] = places->transmit;
	vhost_user_carry(&vsock->vu, bases);
	vsock->renewed = 1;
	return CCHV_OK;
}

size_t vsock_list(const struct vsock *vsock, uint32_t (*ports)[2], size_t max)
{
	return vsock_table_list(vsock, ports, max);
}

int vsock_forget(struct vsock *vsock, uint32_t guest_port, uint32_t host_port)
{
	struct vsock_conn *conn;

	if (vsock_table_find(vsock, guest_port, host_port))
		return CCHV_ERR_EXISTS;
	if (vsock->conn_count >= VSOCK_CONNECTIONS_MAX)
		return CCHV_ERR_LIMIT;
	conn = vsock_conn_new(vsock, guest_port, host_port, -1, VSOCK_STATE_DEAD);
	if (!conn)
		return CCHV_ERR_NOMEM;
	conn->pending = VSOCK_PENDING_RESET;
	vsock_conn_settle(conn);
	return CCHV_OK;
}

void vsock_free(struct vsock *vsock)
{
	if (!vsock)
		return;
	if (vsock->table)
		vsock_drop_all(vsock);
	vsock_host_close(vsock);
	if (vsock->vu.loop)
		vhost_user_release(&vsock->vu);
	fd_close(&vsock->frontend_fd);
	fd_close(&vsock->spare_fd);
	loop_timer_free(vsock->timer);
	free(vsock->table);
	free(vsock->path);
	free(vsock);
}
