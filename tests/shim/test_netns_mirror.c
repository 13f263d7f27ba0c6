/* SPDX-License-Identifier: Apache-2.0 */
/* Mirrored namespaces: what is copied, what crosses, what comes, changes and goes. See netns_box.h. */
#include "netns_box.h"

TEST(frames_cross_in_both_directions)
{
	begin();
	add_veth();
	sh("$POD ip link set eth0 up");
	open_mirror(1);
	CHECK_INT(update(a_config, NULL), 1);
	CHECK_INT(given_count, 1);
	check_both_ways(given[0].fds[0], "veth-out", 64);
	check_both_ways(given[0].fds[0], "veth-out", 1514);
	/* A second look finds nothing new. */
	CHECK_INT(update(a_config, NULL), 0);
	CHECK_INT(given_count, 1);
	end();
}

TEST(all_that_the_host_knows_is_copied)
{
	begin();
	add_veth();
	sh("$OUT ip link set veth-out mtu 1450; $POD ip link set eth0 mtu 1450; $POD ip link set eth0 up;"
	   "$POD ip addr add 10.1.2.3/24 dev eth0; $POD ip addr add fd00:1::3/64 dev eth0 nodad;"
	   "$POD ip route add 169.254.1.1 dev eth0 scope link;"
	   "$POD ip route add default via 169.254.1.1 dev eth0 mtu 1400 onlink;"
	   "$POD ip route add 10.9.0.0/16 via 10.1.2.1 src 10.1.2.3 metric 77;"
	   "$POD ip -6 route add default via fd00:1::1 metric 5; $POD ip route add 10.8.0.0/16 via 10.1.2.1 table 100;"
	   "$POD ip route add blackhole 10.7.0.0/16;"
	   "$POD ip neigh add 169.254.1.1 lladdr ee:ee:ee:ee:ee:ee dev eth0 nud permanent;"
	   "$POD ip neigh add 10.1.2.9 lladdr 02:02:02:02:02:02 dev eth0 nud reachable");
	open_mirror(1);
	CHECK_INT(update(a_config, NULL), 1);
	CHECK_CONTAINS(given[0].text, "mac 02:00:00:00:00:02\nmtu 1450\nname eth0\n");
	CHECK_CONTAINS(given[0].text, "address 10.1.2.3/24\n");
	CHECK_CONTAINS(given[0].text, "address fd00:1::3/64\n");
	CHECK_CONTAINS(given[0].text, "route 169.254.1.1/32 via - metric 0\n");
	CHECK_CONTAINS(given[0].text, "route 0.0.0.0/0 via 169.254.1.1 metric 0\n mtu 1400\n onlink\n");
	CHECK_CONTAINS(given[0].text, "route 10.9.0.0/16 via 10.1.2.1 metric 77\n source 10.1.2.3\n");
	CHECK_CONTAINS(given[0].text, "route ::/0 via fd00:1::1 metric 5\n");
	CHECK_CONTAINS(given[0].text, "neighbour 169.254.1.1 ee:ee:ee:ee:ee:ee\n");
	/* What the guest's kernel makes by itself, what has no way out, other tables, and what ARP has learned. */
	CHECK(!strstr(given[0].text, "route 10.1.2.0"));
	CHECK(!strstr(given[0].text, "10.8.0.0") && !strstr(given[0].text, "10.7.0.0"));
	CHECK(!strstr(given[0].text, "fe80::/64") && !strstr(given[0].text, "10.1.2.9"));
	/* The tap can carry as much. */
	sh("$POD ip -o link | grep cchv0 | grep -q 'mtu 1450'; ! $POD ip addr show cchv0 | grep -q inet6;"
	   "[ \"$($POD ip -o addr show cchv0 | awk '{print $4}')\" = 169.254.254.254/32 ]");
	end();
}

TEST(a_peer_is_reached_directly)
{
	begin();
	add_veth();
	sh("$POD ip link set eth0 up; $POD ip addr add 10.1.2.3 peer 10.1.2.1/32 dev eth0;"
	   "$POD ip route add default via 10.1.2.1");
	open_mirror(1);
	CHECK_INT(update(a_config, NULL), 1);
	CHECK_CONTAINS(given[0].text, "address 10.1.2.3/32\nroute 10.1.2.1/32 via - metric 0\n");
	CHECK_CONTAINS(given[0].text, "route 0.0.0.0/0 via 10.1.2.1 metric 0\n");
	end();
}

TEST(several_queues_and_several_interfaces)
{
	begin();
	add_veth();
	sh("$OUT ip link add two-out type veth peer name eth1 netns $PODPID; $OUT ip link set two-out up;"
	   "$POD ip link set eth0 up; $POD ip link set eth1 up; $POD ip link add br0 type bridge;"
	   "$POD ip link add p0 type veth peer name p1; $POD ip link set p0 master br0; $POD ip link set p0 up");
	open_mirror(2);
	CHECK_INT(update(a_config, NULL), 2);
	CHECK_INT(given[0].fd_count, 2);
	CHECK_INT(given[1].fd_count, 2);
	CHECK(strstr(given[0].text, "name eth0") || strstr(given[1].text, "name eth0"));
	CHECK(strstr(given[0].text, "name eth1") || strstr(given[1].text, "name eth1"));
	end();
}

/* Wait for the watch, then look: until something has been done. */
static void update_on_news(int changes)
{
	int done = 0;

	while (done < changes) {
		struct pollfd p = { netns_mirror_get_fd(mirror), POLLIN, 0 };
		int r;

		CHECK_INT(poll(&p, 1, 10000), 1);
		r = update(NULL, a_vm);
		CHECK(r >= 0);
		done += r;
	}
	CHECK_INT(done, changes);
}

TEST(interfaces_come_change_and_go)
{
	begin();
	open_mirror(1);
	CHECK_INT(update(a_config, NULL), 0);
	/* As Docker does it: between Create and Start, one thing after the other. */
	add_veth();
	CHECK_INT(update(NULL, a_vm), 0);
	sh("$POD ip addr add 172.17.0.2/16 dev eth0; $POD ip link set eth0 up;"
	   "$POD ip route add default via 172.17.0.1");
	update_on_news(1);
	CHECK_CONTAINS(given[0].text, "address 172.17.0.2/16\n");
	CHECK_CONTAINS(given[0].text, "route 0.0.0.0/0 via 172.17.0.1 metric 0\n");
	check_both_ways(given[0].fds[0], "veth-out", 64);
	/* An address more: the device is taken out and put in again. */
	sh("$POD ip addr add 172.18.0.2/16 dev eth0");
	update_on_news(2);
	CHECK_INT(given_count, 1);
	CHECK_CONTAINS(given[0].text, "address 172.18.0.2/16\n");
	check_both_ways(given[0].fds[0], "veth-out", 64);
	sh("$POD ip link del eth0");
	update_on_news(1);
	CHECK_INT(given_count, 0);
	end();
}

TEST(nothing_is_left_behind)
{
	char path[64];

	begin();
	add_veth();
	sh("$POD ip link set eth0 up");
	open_mirror(1);
	CHECK_INT(update(a_config, NULL), 1);
	sh("$POD tc qdisc show dev eth0 | grep -q clsact");
	netns_mirror_free(mirror);
	take_away(0);
	mirror = NULL;
	sh("! $POD tc qdisc show dev eth0 | grep -q clsact; [ $($POD ip -o link | wc -l) = 2 ]");
	/* The same once more, and a crash of the shim and the VMM: rules stay where the taps went. */
	open_mirror(1);
	CHECK_INT(update(a_config, NULL), 1);
	take_away(0);
	sh("! $POD ip -o link | grep -q cchv; $POD tc filter show dev eth0 ingress | grep -q u32");
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pod.pid);
	CHECK_INT(netns_clean(path, &error), CCHV_OK);
	sh("! $POD tc qdisc show dev eth0 | grep -q clsact");
	CHECK_INT(netns_clean(path, &error), CCHV_OK);
	CHECK_INT(netns_clean("/nonexistent", &error), CCHV_OK);
	CHECK_INT(netns_clean("/dev/null", &error), CCHV_OK);
	CHECK_INT(netns_clean(NULL, &error), CCHV_OK);
	end();
}

TEST(what_others_have_there_stays)
{
	begin();
	add_veth();
	sh("$POD ip link set eth0 up; $POD tc qdisc add dev eth0 clsact;"
	   "$POD tc filter add dev eth0 egress prio 1 protocol all u32 match u32 0 0");
	open_mirror(1);
	CHECK_INT(update(a_config, NULL), 1);
	check_both_ways(given[0].fds[0], "veth-out", 64);
	netns_mirror_free(mirror);
	mirror = NULL;
	sh("$POD tc filter show dev eth0 egress | grep -q u32; ! $POD tc filter show dev eth0 ingress | grep -q u32");
	end();
}

TEST(rules_that_a_dead_shim_left_are_replaced)
{
	struct netns_mirror *dead;

	begin();
	add_veth();
	sh("$POD ip link set eth0 up");
	open_mirror(1);
	CHECK_INT(update(a_config, NULL), 1);
	take_away(0);
	/* Not freed: as if the process had been killed. */
	dead = mirror;
	open_mirror(1);
	CHECK_INT(update(a_config, NULL), 1);
	check_both_ways(given[0].fds[0], "veth-out", 64);
	netns_mirror_free(dead);
	end();
}

TEST(a_namespace_is_one_vms)
{
	struct netns_mirror *first;

	begin();
	add_veth();
	sh("$POD ip link set eth0 up");
	open_mirror(1);
	CHECK_INT(update(a_config, NULL), 1);
	first = mirror;
	open_mirror(1);
	refuse_next = 1;
	CHECK_INT(update(a_config, NULL), CCHV_ERR_EXISTS);
	CHECK_CONTAINS(error, "another VM");
	netns_mirror_free(mirror);
	mirror = first;
	check_both_ways(given[0].fds[0], "veth-out", 64);
	end();
}

TEST(a_refusal_is_named_and_undone)
{
	begin();
	add_veth();
	sh("$POD ip link set eth0 up");
	open_mirror(1);
	refuse_next = 1;
	CHECK_INT(update(a_config, NULL), CCHV_ERR_EXISTS);
	CHECK_CONTAINS(error, "interface 'eth0'");
	sh("! $POD tc qdisc show dev eth0 | grep -q clsact; ! $POD ip -o link | grep -q cchv");
	refuse_next = 0;
	CHECK_INT(update(a_config, NULL), 1);
	end();
}
