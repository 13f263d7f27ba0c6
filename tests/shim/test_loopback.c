/* SPDX-License-Identifier: Apache-2.0 */
/* 127.0.0.1 of a mirrored namespace, which is the guest's: who gets there, who does not, and that it comes back. */
#include "netns_box.h"

#include <errno.h>

static uint16_t sum_of(const uint8_t *data, size_t length)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < length; i += 2)
		sum += (uint32_t)(data[i] << 8 | data[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

/* A socket of the namespace that has begun to connect. */
static int begin_connect(const char *ip, uint16_t port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), fd;

	CHECK_INT(inet_pton(AF_INET, ip, &to.sin_addr), 1);
	CHECK_INT(setns(pod.netns_fd, CLONE_NEWNET), 0);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK_INT(connect(fd, (struct sockaddr *)&to, sizeof(to)), -1);
	CHECK(errno == EINPROGRESS || errno == ECONNREFUSED);
	CHECK_INT(setns(own, CLONE_NEWNET), 0);
	close(own);
	return fd;
}

/* The TCP segment to that port that comes to the guest, with its vnet header. */
static void expect_segment(int tap, uint16_t port, uint8_t *frame)
{
	struct pollfd p = { tap, POLLIN, 0 };
	static uint8_t data[70000];

	for (;;) {
		ssize_t n;

		CHECK_INT(poll(&p, 1, 10000), 1);
		n = read(tap, data, sizeof(data));
		if (n >= VNET_HDR + 54 && memcmp(data + VNET_HDR + 12, "\x08\0", 2) == 0 && data[VNET_HDR + 23] == 6 &&
		    (data[VNET_HDR + 36] << 8 | data[VNET_HDR + 37]) == port)
			break;
	}
	memcpy(frame, data, VNET_HDR + 54);
}

/* As a guest on which nobody listens: a reset for the frame, by the way it came. */
static void refuse_segment(int tap, uint8_t *frame)
{
	uint8_t *eth = frame + VNET_HDR, *ip = eth + 14, *tcp = ip + 20, kept[6];

	memset(frame, 0, VNET_HDR);
	/* VIRTIO_NET_HDR_F_NEEDS_CSUM, from where, to where: nobody looks at the sum of TCP. */
	frame[0] = 1;
	frame[6] = 34;
	frame[8] = 16;
	memcpy(kept, eth, 6);
	memcpy(eth, eth + 6, 6);
	memcpy(eth + 6, kept, 6);
	memcpy(kept, ip + 12, 4);
	memcpy(ip + 12, ip + 16, 4);
	memcpy(ip + 16, kept, 4);
	ip[2] = 0;
	ip[3] = 40;
	ip[10] = ip[11] = 0;
	memcpy(ip + 10, &(uint16_t){ sum_of(ip, 20) }, 2);
	memcpy(kept, tcp, 2);
	memcpy(tcp, tcp + 2, 2);
	memcpy(tcp + 2, kept, 2);
	/* Its acknowledgement is the sequence number, and one. */
	memcpy(tcp + 8, &(uint32_t){ htonl(ntohl(*(uint32_t *)memcpy(kept, tcp + 4, 4)) + 1) }, 4);
	memset(tcp + 4, 0, 4);
	tcp[12] = 5 << 4;
	tcp[13] = 0x14;
	CHECK_INT(write(tap, frame, VNET_HDR + 54), VNET_HDR + 54);
}

static int end_connect(int fd)
{
	struct pollfd p = { fd, POLLOUT, 0 };
	socklen_t size = sizeof(int);
	int reason = 0;

	CHECK_INT(poll(&p, 1, 10000), 1);
	CHECK_INT(getsockopt(fd, SOL_SOCKET, SO_ERROR, &reason, &size), 0);
	close(fd);
	return reason;
}

TEST(the_loopback_is_the_guests)
{
	static const uint8_t guest_mac[] = { 2, 0, 0, 0, 0, 2 };
	uint8_t frame[VNET_HDR + 54];
	int fd;

	begin();
	add_veth();
	sh("$POD ip link set eth0 up");
	open_mirror(1);
	CHECK_INT(update(a_config, NULL), 1);
	CHECK_CONTAINS(given[0].text, "route 169.254.254.254/32 via - metric 0\n");
	CHECK_CONTAINS(given[0].text, "localnet 1\n");
	fd = begin_connect("127.0.0.1", 8080);
	expect_segment(given[0].fds[0], 8080, frame);
	CHECK(memcmp(frame + VNET_HDR, guest_mac, 6) == 0);
	CHECK(memcmp(frame + VNET_HDR + 26, "\xa9\xfe\xfe\xfe\x7f\0\0\1", 8) == 0);
	refuse_segment(given[0].fds[0], frame);
	CHECK_INT(end_connect(fd), ECONNREFUSED);
	/* Another look changes nothing. */
	CHECK_INT(update(NULL, a_vm), 0);
	sh("$POD ip route get 127.0.0.1 | grep -q cchv0; $POD ip route get 127.0.0.11 | grep -q 'dev lo'");
	end();
}

TEST(strangers_do_not_get_to_the_loopback)
{
	static const uint8_t addresses[2][8] = { { 10, 1, 2, 1, 127, 0, 0, 1 }, { 169, 254, 254, 254, 10, 1, 2, 3 } };
	uint8_t data[VNET_HDR + 64] = { 0 }, *frame = data + VNET_HDR;
	int wire;

	begin();
	add_veth();
	sh("$POD ip link set eth0 up; $POD ip addr add 10.1.2.3/24 dev eth0");
	open_mirror(1);
	CHECK_INT(update(a_config, NULL), 1);
	wire = open_wire("veth-out");
	for (size_t i = 0; i < 3; i++) {
		static const uint8_t head[] = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 50 };
		static uint8_t came[70000];

		memset(frame, 0, 64);
		memcpy(frame, head, sizeof(head));
		frame[22] = 64;
		frame[23] = 17;
		memcpy(frame + 26, i < 2 ? addresses[i] : (const uint8_t *)"\x0a\1\2\1\x0a\1\2\3", 8);
		memcpy(frame + 24, &(uint16_t){ sum_of(frame + 14, 20) }, 2);
		CHECK_INT(send(wire, frame, 64, 0), 64);
		/* The third comes, and so the others would have, before it. */
		for (; i == 2;) {
			ssize_t n = read(given[0].fds[0], came, sizeof(came));

			if (n < 0) {
				struct pollfd p = { given[0].fds[0], POLLIN, 0 };

				CHECK_INT(poll(&p, 1, 10000), 1);
				continue;
			}
			if (n < VNET_HDR + 34 || memcmp(came + VNET_HDR + 12, "\x08\0", 2) != 0 ||
			    came[VNET_HDR + 23] != 17)
				continue;
			CHECK(memcmp(came + VNET_HDR, frame, 34) == 0);
			break;
		}
	}
	close(wire);
	end();
}

TEST(the_loopback_comes_back)
{
	begin();
	add_veth();
	sh("$POD ip link set eth0 up");
	open_mirror(1);
	CHECK_INT(update(a_config, NULL), 1);
	sh("$POD ip route get 127.0.0.1 | grep -q cchv0");
	/* The interface goes, and the next one has it. */
	sh("$OUT ip link del veth-out; $OUT ip link add vb type veth peer name eth1 netns $PODPID;"
	   "$OUT ip link set vb up; $POD ip link set eth1 up");
	while (update(NULL, a_vm) > 0)
		continue;
	CHECK_INT(given_count, 1);
	CHECK_CONTAINS(given[0].text, "name eth1\n");
	CHECK_CONTAINS(given[0].text, "localnet 1\n");
	sh("$POD ip route get 127.0.0.1 | grep -q cchv");
	/* After a crash, the route that is left does. */
	take_away(0);
	sh("$POD ip route get 127.0.0.1 | grep -q 'dev lo'");
	netns_mirror_free(mirror);
	mirror = NULL;
	sh("$POD ip route show table local 127.0.0.1 |"
	   "grep -q '^local 127.0.0.1 dev lo proto kernel scope host src 127.0.0.1'");
	end();
}
