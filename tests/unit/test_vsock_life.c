/* SPDX-License-Identifier: Apache-2.0 */
/* The device's life: pause, restart, reset, memory that comes and goes, broken rings, limits. */
#include "test.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "examples/qemu/vsock.h"
#include "fake_guest.h"

#define OP(name) VIRTIO_VSOCK_OP_##name
#define GUEST 1024

static struct loop *loop;
static struct vsock *device;
static struct fake_guest guest;
static char path[128];
static int activations, log_lines;
static uint16_t rx, tx;

static void count_activation(void *user_data)
{
	activations++;
}

static void count_line(int level, const char *message, void *user_data)
{
	log_lines++;
}

static struct log_sink sink = { .max_level = CCHV_LOG_WARNING, .fn = count_line, .fd = -1 };

static void create(void)
{
	int channel;

	snprintf(path, sizeof(path), "%s/vsock.sock", test_dir());
	CHECK_INT(loop_new(&loop, NULL), 0);
	CHECK_INT(vsock_new(loop, path, 3, &sink, &device, NULL), 0);
	vsock_set_activated_fn(device, count_activation, NULL);
	CHECK_INT(vsock_take_frontend_fd(device, &channel), 0);
	fake_init(&guest, loop, channel);
}

static void set_up(void)
{
	create();
	fake_boot(&guest, 60);
}

static void tear_down(void)
{
	vsock_free(device);
	CHECK_INT(access(path, F_OK), -1);
	fake_release(&guest);
	loop_free(loop);
}

TEST(the_front_end_learns_what_the_device_is)
{
	struct vhost_user_config config = { .size = 8 };
	uint64_t cid, features;

	create();
	features = fake_ask(&guest, VHOST_USER_GET_FEATURES);
	CHECK(features & 1ull << 32);
	fake_negotiate(&guest, 0);
	CHECK_INT(fake_talk(&guest, VHOST_USER_GET_CONFIG, &config, 20, NULL, 0, 1, &config), 20);
	memcpy(&cid, config.region, 8);
	CHECK_INT(cid, 3);
	CHECK_INT(fake_ask(&guest, VHOST_USER_GET_MAX_MEM_SLOTS), 509);
	CHECK_INT(fake_ask(&guest, VHOST_USER_GET_QUEUE_NUM), 2);
	tear_down();
}

TEST(requests_that_make_no_sense_are_refused)
{
	uint64_t value = ~0ull;
	struct vhost_user_vring_state state = { .index = 2, .num = 128 };
	struct vhost_user_mem_reg reg = { .region = { 0, 4096, 0, 0 } };
	struct vhost_user_mem_table table = { .count = 2, .regions = { { 0, 4096, 0, 0 } } };
	int fd;

	create();
	fake_negotiate(&guest, 0);
	CHECK_INT(fake_talk(&guest, VHOST_USER_SET_FEATURES, &value, 8, NULL, 0, 0, NULL), FAKE_REFUSED);
	CHECK_INT(fake_talk(&guest, VHOST_USER_SET_VRING_NUM, &state, 8, NULL, 0, 0, NULL), FAKE_REFUSED);
	state = (struct vhost_user_vring_state){ .index = 0, .num = 3 };
	CHECK_INT(fake_talk(&guest, VHOST_USER_SET_VRING_NUM, &state, 8, NULL, 0, 0, NULL), FAKE_REFUSED);
	state.num = 0x10000;
	CHECK_INT(fake_talk(&guest, VHOST_USER_SET_VRING_BASE, &state, 8, NULL, 0, 0, NULL), FAKE_REFUSED);
	CHECK_INT(fake_talk(&guest, VHOST_USER_ADD_MEM_REG, &reg, 40, NULL, 0, 0, NULL), FAKE_REFUSED);
	CHECK_INT(fake_talk(&guest, VHOST_USER_REM_MEM_REG, &reg, 40, NULL, 0, 0, NULL), FAKE_REFUSED);
	CHECK_INT(fake_talk(&guest, VHOST_USER_SET_MEM_TABLE, &table, 40, &guest.memory_fd, 1, 0, NULL), FAKE_REFUSED);
	value = VHOST_USER_VRING_NO_FD;
	CHECK_INT(fake_talk(&guest, VHOST_USER_SET_VRING_KICK, &value, 8, NULL, 0, 0, NULL), FAKE_REFUSED);
	CHECK_INT(fake_talk(&guest, 28, NULL, 0, NULL, 0, 0, NULL), FAKE_REFUSED);
	/* Rings outside the memory are found when they are to run. */
	fake_share_memory(&guest);
	fd = guest.rings[0].kick;
	for (uint64_t q = 0; q < 2; q++) {
		state = (struct vhost_user_vring_state){ .index = (uint32_t)q, .num = 128 };
		CHECK_INT(fake_talk(&guest, VHOST_USER_SET_VRING_NUM, &state, 8, NULL, 0, 0, NULL), 0);
		CHECK_INT(fake_talk(&guest, VHOST_USER_SET_VRING_KICK, &q, 8, &fd, 1, 0, NULL), 0);
		state.num = 1;
		CHECK_INT(fake_talk(&guest, VHOST_USER_SET_VRING_ENABLE, &state, 8, NULL, 0, 0, NULL),
		          q ? FAKE_REFUSED : 0);
	}
	CHECK_INT(activations, 0);
	/* It still works with one who does it right. */
	fake_stop(&guest, &rx, &tx);
	fake_boot(&guest, 8);
	CHECK_INT(activations, 1);
	tear_down();
}

TEST(a_paused_guest_answers_nothing_and_goes_on_afterwards)
{
	uint32_t host;
	int fd, other;

	set_up();
	fd = fake_open(&guest, path, GUEST, &host);
	fake_stop(&guest, &rx, &tx);
	CHECK_INT(send(fd, "meanwhile", 9, 0), 9);
	other = fake_caller(&guest, path, "CONNECT 1025\n");
	fake_expect_silence(&guest);
	CHECK_INT(loop_run_once(loop, clock_deadline(200), NULL), 0);
	fake_start(&guest, rx, tx);
	CHECK_INT(activations, 1);
	fake_expect(&guest, OP(RW), host, GUEST);
	fake_expect(&guest, OP(REQUEST), host + 1, 1025);
	fake_send(&guest, OP(RW), GUEST, host, "alive", 5, 0);
	fake_expect_text(&guest, fd, "alive");
	close(fd);
	close(other);
	tear_down();
}

TEST(a_host_program_that_goes_while_the_guest_is_paused_is_noticed_afterwards)
{
	uint32_t host;
	int fd;

	set_up();
	fd = fake_open(&guest, path, GUEST, &host);
	fake_stop(&guest, &rx, &tx);
	close(fd);
	fake_settle(&guest);
	CHECK_INT(loop_run_once(loop, clock_deadline(200), NULL), 0);
	fake_start(&guest, rx, tx);
	fake_expect(&guest, OP(SHUTDOWN), host, GUEST);
	tear_down();
}

TEST(a_driver_that_starts_anew_ends_the_connections)
{
	uint32_t host;
	int fd;

	set_up();
	fd = fake_open(&guest, path, GUEST, &host);
	fake_stop(&guest, &rx, &tx);
	fake_clear_rings(&guest);
	fake_start(&guest, 0, 0);
	CHECK_INT(activations, 2);
	fake_expect_text(&guest, fd, "");
	fake_offer_rx(&guest, 8);
	close(fd);
	fd = fake_open(&guest, path, GUEST, &host);
	close(fd);
	tear_down();
}

TEST(a_reset_makes_the_socket_anew)
{
	struct stat before, after;
	uint32_t host;
	int fd, caller;

	set_up();
	fd = fake_open(&guest, path, GUEST, &host);
	caller = fake_caller(&guest, path, "CONN");
	CHECK_INT(stat(path, &before), 0);
	fake_stop(&guest, &rx, &tx);
	CHECK_INT(vsock_reset(device, NULL), 0);
	CHECK_INT(stat(path, &after), 0);
	CHECK_INT(after.st_mode & 07777, 0600);
	fake_expect_text(&guest, fd, "");
	fake_expect_text(&guest, caller, "");
	fake_clear_rings(&guest);
	fake_start(&guest, 0, 0);
	CHECK_INT(activations, 2);
	fake_offer_rx(&guest, 8);
	close(fd);
	close(caller);
	fd = fake_open(&guest, path, GUEST, &host);
	close(fd);
	tear_down();
}

TEST(a_reset_of_a_guest_that_never_spoke_is_an_activation_too)
{
	create();
	fake_boot(&guest, 0);
	fake_stop(&guest, &rx, &tx);
	CHECK_INT(rx, 0);
	CHECK_INT(tx, 0);
	CHECK_INT(vsock_reset(device, NULL), 0);
	fake_start(&guest, 0, 0);
	CHECK_INT(activations, 2);
	tear_down();
}

/* Another front end, which knows nothing, for the same guest, which notices nothing. */
static void change_front_end(struct vsock *to, const struct vsock_places *places, int queues)
{
	uint64_t features = 1ull << VIRTIO_RING_F_EVENT_IDX | 1ull << VIRTIO_RING_F_INDIRECT_DESC;

	close(guest.channel);
	guest.acknowledges = 0;
	fake_settle(&guest);
	CHECK_INT(vsock_renew(to, places, queues, NULL), 0);
	CHECK_INT(vsock_take_frontend_fd(to, &guest.channel), 0);
	fake_negotiate(&guest, features);
	fake_share_memory(&guest);
}

TEST(a_snapshot_leaves_connections_as_they_are)
{
	struct vsock_places places;
	uint32_t host, ports[2][2];
	uint64_t count;
	int fd;

	set_up();
	fd = fake_open(&guest, path, GUEST, &host);
	fake_send(&guest, OP(RW), GUEST, host, "before", 6, 0);
	fake_expect_text(&guest, fd, "before");
	fake_stop(&guest, &rx, &tx);
	CHECK_INT(vsock_list(device, ports, 2), 1);
	CHECK_INT(ports[0][0], GUEST);
	CHECK_INT(ports[0][1], host);
	vsock_hold(device, &places);
	CHECK_INT(places.receive, rx);
	CHECK_INT(places.transmit, tx);
	CHECK_INT(send(fd, "meanwhile", 9, 0), 9);
	change_front_end(device, &places, 1);
	CHECK_INT(vsock_list(device, ports, 2), 1);
	while (read(guest.rings[0].call, &count, 8) == 8 || read(guest.rings[1].call, &count, 8) == 8)
		;
	fake_start(&guest, 0, 0);
	CHECK_INT(activations, 1);
	/* An interrupt that was lost with the old front end is not missed. */
	CHECK_INT(read(guest.rings[FAKE_TX].call, &count, 8), 8);
	fake_expect(&guest, OP(RW), host, GUEST);
	fake_send(&guest, OP(RW), GUEST, host, "alive", 5, 0);
	fake_expect_text(&guest, fd, "alive");
	/* A pause after it is one like any other. */
	fake_stop(&guest, &rx, &tx);
	fake_start(&guest, rx, tx);
	CHECK_INT(activations, 1);
	fake_send(&guest, OP(RW), GUEST, host, "again", 5, 0);
	fake_expect_text(&guest, fd, "again");
	/* And a driver that starts anew starts at the beginning. */
	fake_stop(&guest, &rx, &tx);
	vsock_hold(device, &places);
	change_front_end(device, &places, 0);
	fake_clear_rings(&guest);
	fake_start(&guest, 0, 0);
	CHECK_INT(activations, 2);
	fake_expect_text(&guest, fd, "");
	close(fd);
	tear_down();
}

TEST(a_restored_guest_is_told_that_its_connections_are_no_more)
{
	struct vsock_places places;
	struct vsock *clone;
	uint32_t host, next;
	char other[160];
	int fd, unused;

	set_up();
	fd = fake_open(&guest, path, GUEST, &host);
	fake_stop(&guest, &rx, &tx);
	vsock_hold(device, &places);
	snprintf(other, sizeof(other), "%s.2", path);
	CHECK_INT(vsock_new(loop, other, 3, &sink, &clone, NULL), 0);
	CHECK_INT(vsock_take_frontend_fd(clone, &unused), 0);
	close(unused);
	change_front_end(clone, &places, 1);
	CHECK_INT(vsock_forget(clone, GUEST, host), 0);
	CHECK_INT(vsock_forget(clone, GUEST, host), CCHV_ERR_EXISTS);
	fake_start(&guest, 0, 0);
	fake_expect(&guest, OP(RST), host, GUEST);
	fake_expect_silence(&guest);
	close(fd);
	/* The guest may not have closed its end yet: new ones have ports that it has not seen. */
	fd = fake_open(&guest, other, GUEST, &next);
	CHECK_INT(next, host + 1);
	close(fd);
	vsock_free(clone);
	CHECK_INT(access(other, F_OK), -1);
	tear_down();
}

TEST(memory_may_be_plugged_and_unplugged_while_data_flows)
{
	struct vhost_user_mem_reg reg = { .region = { 1ull << 32, 1 << 20, 1ull << 40, 0 } };
	struct virtio_vsock_hdr h = { .src_cid = 3, .dst_cid = 2, .src_port = GUEST, .type = 1, .op = OP(RW), .len = 5,
	                              .buf_alloc = 65536 };
	struct fake_ring *ring = &guest.rings[FAKE_TX];
	struct vhost_user_mem_table halves = {
		.count = 2,
		.regions = { { 0, FAKE_RAM / 2, FAKE_USER, 0 },
		             { FAKE_RAM / 2, FAKE_RAM / 2, FAKE_USER + FAKE_RAM / 2, FAKE_RAM / 2 } },
	};
	int more = memfd_create("more", MFD_CLOEXEC), fd, files[2];
	uint32_t host;

	set_up();
	files[0] = files[1] = guest.memory_fd;
	fd = fake_open(&guest, path, GUEST, &host);
	h.dst_port = host;
	CHECK_INT(ftruncate(more, 1 << 20), 0);
	CHECK_INT(pwrite(more, &h, sizeof(h), 0), sizeof(h));
	CHECK_INT(pwrite(more, "fresh", 5, sizeof(h)), 5);
	CHECK_INT(fake_talk(&guest, VHOST_USER_ADD_MEM_REG, &reg, 40, &more, 1, 0, NULL), 0);
	ring->desc[127] = (struct vring_desc){ .addr = 1ull << 32, .len = sizeof(h) + 5 };
	ring->avail->ring[ring->avail->idx % FAKE_NUM] = 127;
	ring->avail->idx++;
	fake_kick(&guest, FAKE_TX);
	fake_expect_text(&guest, fd, "fresh");
	ring->seen++;
	CHECK_INT(fake_talk(&guest, VHOST_USER_REM_MEM_REG, &reg, 40, NULL, 0, 0, NULL), 0);
	fake_send(&guest, OP(RW), GUEST, host, "still here", 10, 0);
	fake_expect_text(&guest, fd, "still here");
	/* The whole table anew, in two halves, so that they lie elsewhere: the rings are found again. */
	CHECK_INT(fake_talk(&guest, VHOST_USER_SET_MEM_TABLE, &halves, 8 + 64, files, 2, 0, NULL), 0);
	fake_send(&guest, OP(RW), GUEST, host, "and here", 8, 0);
	fake_expect_text(&guest, fd, "and here");
	/* Without the half that holds the rings the device stops, and touches nothing. */
	reg.region = halves.regions[0];
	CHECK_INT(fake_talk(&guest, VHOST_USER_REM_MEM_REG, &reg, 40, NULL, 0, 0, NULL), FAKE_REFUSED);
	fake_kick(&guest, FAKE_TX);
	CHECK_INT(send(fd, "x", 1, 0), 1);
	fake_settle(&guest);
	fake_expect_text(&guest, fd, "");
	close(more);
	close(fd);
	tear_down();
}

/* The device stopped: its connections are gone, nothing is taken, one line was logged, until it is set up anew. */
static void check_stopped(int fd)
{
	uint64_t count;
	uint32_t host;
	int caller;

	fake_settle(&guest);
	fake_expect_text(&guest, fd, "");
	close(fd);
	CHECK_INT(log_lines, 1);
	CHECK(read(guest.rings[0].err, &count, 8) == 8 || read(guest.rings[1].err, &count, 8) == 8);
	caller = fake_caller(&guest, path, "CONNECT 1024\n");
	fake_kick(&guest, FAKE_TX);
	fake_kick(&guest, FAKE_RX);
	fake_settle(&guest);
	CHECK_INT(recv(caller, &count, 1, MSG_DONTWAIT), -1);
	CHECK_INT(errno, EAGAIN);
	close(caller);
	fake_stop(&guest, &rx, &tx);
	fake_clear_rings(&guest);
	fake_start(&guest, 0, 0);
	fake_offer_rx(&guest, 8);
	CHECK_INT(activations, 2);
	/* The caller that left while it stood was accepted and asked for; then the reset. */
	while (guest.rings[FAKE_RX].used->idx != guest.rings[FAKE_RX].seen)
		fake_receive(&guest, &(struct virtio_vsock_hdr){ 0 }, NULL);
	fd = fake_open(&guest, path, GUEST, &host);
	close(fd);
	CHECK_INT(log_lines, 1);
	tear_down();
}

TEST(a_broken_transmit_ring_stops_the_device)
{
	uint32_t host;
	int fd;

	set_up();
	fd = fake_open(&guest, path, GUEST, &host);
	guest.rings[FAKE_TX].avail->idx += 200;
	fake_kick(&guest, FAKE_TX);
	check_stopped(fd);
}

TEST(a_broken_receive_ring_stops_the_device)
{
	uint32_t host;
	int fd;

	set_up();
	fd = fake_open(&guest, path, GUEST, &host);
	guest.rings[FAKE_RX].desc[0].next = 500;
	for (int i = 0; i < FAKE_NUM; i++)
		guest.rings[FAKE_RX].desc[i].addr = 1ull << 60;
	CHECK_INT(send(fd, "x", 1, 0), 1);
	check_stopped(fd);
}

TEST(buffers_without_room_for_a_packet_stop_the_device)
{
	uint32_t host;
	int fd;

	set_up();
	fd = fake_open(&guest, path, GUEST, &host);
	for (int i = 0; i < FAKE_NUM; i++)
		guest.rings[FAKE_RX].desc[i].len = VSOCK_HEADER_SIZE;
	CHECK_INT(send(fd, "x", 1, 0), 1);
	check_stopped(fd);
}

TEST(a_packet_without_a_header_stops_the_device)
{
	struct fake_ring *ring = &guest.rings[FAKE_TX];
	uint32_t host;
	int fd;

	set_up();
	fd = fake_open(&guest, path, GUEST, &host);
	ring->desc[0] = (struct vring_desc){ .addr = 0, .len = VSOCK_HEADER_SIZE - 1 };
	ring->avail->ring[ring->avail->idx % FAKE_NUM] = 0;
	ring->avail->idx++;
	fake_kick(&guest, FAKE_TX);
	check_stopped(fd);
}

TEST(the_1024th_connection_is_turned_away)
{
	static int fds[1024];
	struct rlimit limit;
	char name[160];
	int listener;
	uint32_t host;

	CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
	CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
	set_up();
	for (int i = 0; i < 1023; i++)
		fds[i] = fake_open(&guest, path, 2000, &host);
	fds[1023] = fd_unix_connect(path, 0);
	fake_expect_text(&guest, fds[1023], "");
	/* Nor may the guest make one, though somebody listens. */
	snprintf(name, sizeof(name), "%s_%u", path, 6u);
	listener = fd_unix_listen(name, 1);
	fake_send(&guest, OP(REQUEST), 5, 6, NULL, 0, 0);
	fake_expect(&guest, OP(RST), 6, 5);
	close(listener);
	unlink(name);
	/* One goes, one may come. */
	fake_send(&guest, OP(RST), 2000, host, NULL, 0, 0);
	close(fds[1023]);
	fds[1023] = fake_open(&guest, path, 2000, &host);
	for (int i = 0; i < 1024; i++)
		close(fds[i]);
	tear_down();
}

TEST(without_descriptors_callers_are_turned_away_and_the_loop_rests)
{
	struct rlimit limit, low;
	int fds[3], n = 0;
	uint32_t host;

	set_up();
	CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int i = 0; i < 3; i++)
		fds[i] = fd_unix_connect(path, 0);
	low = limit;
	low.rlim_cur = (rlim_t)fds[2] + 1;
	CHECK_INT(setrlimit(RLIMIT_NOFILE, &low), 0);
	for (int i = 0; i < 3; i++)
		fake_expect_text(&guest, fds[i], "");
	n = fake_settle(&guest);
	CHECK(n < 10);
	CHECK_INT(log_lines, 1);
	CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	fds[0] = fake_open(&guest, path, GUEST, &host);
	close(fds[0]);
	tear_down();
}

TEST(a_guest_that_takes_no_answers_gets_bounded_ones)
{
	create();
	fake_boot(&guest, 0);
	for (uint32_t i = 0; i < 1000; i++)
		fake_send(&guest, OP(RW), i, 1, NULL, 0, 0);
	fake_offer_rx(&guest, 60);
	for (uint32_t i = 0; i < 256; i++)
		fake_expect(&guest, OP(RST), 1, i);
	fake_expect_silence(&guest);
	tear_down();
}

TEST(a_front_end_that_goes_leaves_a_quiet_device)
{
	uint32_t host;
	int fd;

	set_up();
	fd = fake_open(&guest, path, GUEST, &host);
	fd_close(&guest.channel);
	fake_settle(&guest);
	fake_expect_text(&guest, fd, "");
	close(fd);
	fake_kick(&guest, FAKE_TX);
	CHECK_INT(loop_run_once(loop, clock_deadline(200), NULL), 0);
	tear_down();
}

TEST(without_memory_there_is_no_device_and_nothing_left)
{
	int channel, r;

	snprintf(path, sizeof(path), "%s/vsock.sock", test_dir());
	CHECK_INT(loop_new(&loop, NULL), 0);
	for (uint64_t n = 1;; n++) {
		mem_fail_from(n);
		r = vsock_new(loop, path, 3, NULL, &device, NULL);
		mem_fail_from(0);
		if (r == 0)
			break;
		CHECK_INT(r, CCHV_ERR_NOMEM);
		CHECK_INT(access(path, F_OK), -1);
		CHECK(n < 100);
	}
	CHECK_INT(vsock_take_frontend_fd(device, &channel), 0);
	close(channel);
	vsock_free(device);
	loop_free(loop);
}
