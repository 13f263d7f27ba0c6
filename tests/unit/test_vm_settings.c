/* SPDX-License-Identifier: Apache-2.0 */
/* The setters of a VM and its devices: what they refuse, what a copy holds. */
#include "vm_config.h"

#include "test.h"

#include <sys/resource.h>

static cchv_vm_config *new_config(void)
{
	cchv_vm_config *c = NULL;

	CHECK_INT(cchv_vm_config_new(&c), 0);
	return c;
}

TEST(the_memory_formula)
{
	cchv_vm_config *c = new_config();
	uint64_t n = 0;

	CHECK_INT(cchv_vm_config_get_vm_memory(c, &n), 0);
	CHECK(n == (2ULL << 30) + (32ULL << 20) + CCHV_MEMORY_OVERHEAD_BYTES);
	CHECK_INT(cchv_vm_config_set_memory(c, 1U << 20), 0);
	CHECK_INT(cchv_vm_config_get_vm_memory(c, &n), 0);
	CHECK(n >= CCHV_MEMORY_BASE_BYTES && n % CCHV_MEMORY_BLOCK_BYTES == 0);
	CHECK_INT(cchv_vm_config_set_memory(c, 100000001), 0);
	CHECK_INT(cchv_vm_config_get_vm_memory(c, &n), 0);
	CHECK_INT(n % CCHV_MEMORY_BLOCK_BYTES, 0);
	CHECK(n >= 100000001 + 100000001 / 64 + CCHV_MEMORY_OVERHEAD_BYTES);
	CHECK(n < 100000001 + 100000001 / 64 + CCHV_MEMORY_OVERHEAD_BYTES + CCHV_MEMORY_BLOCK_BYTES);
	CHECK_INT(cchv_vm_config_set_memory(c, (1U << 20) - 1), CCHV_ERR_INVALID);
	CHECK_INT(cchv_vm_config_set_memory(c, UINT64_MAX), CCHV_ERR_INVALID);
	cchv_vm_config_free(c);
}

TEST(setters_refuse_what_makes_no_sense)
{
	cchv_vm_config *c = new_config();

	CHECK_INT(cchv_vm_config_set_id(c, ""), CCHV_ERR_INVALID);
	CHECK_INT(cchv_vm_config_set_id(c, "../x"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_vm_config_set_id(c, "-x"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_vm_config_set_id(NULL, "x"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_vm_config_set_vcpus(c, 0, 1), CCHV_ERR_INVALID);
	CHECK_INT(cchv_vm_config_set_vcpus(c, 2, 1), CCHV_ERR_INVALID);
	CHECK_INT(cchv_vm_config_set_vcpus(c, 1, 255), CCHV_ERR_INVALID);
	CHECK_INT(cchv_vm_config_set_kernel(c, "rel"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_vm_config_set_cmdline(c, "a\nb"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_vm_config_set_netns_fd(c, 999), CCHV_ERR_INVALID);
	CHECK_INT(cchv_vm_config_set_cgroup(c, "/a/../b"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_vm_config_set_cgroup(c, "/.."), CCHV_ERR_INVALID);
	CHECK_INT(cchv_vm_config_set_cgroup(c, "/a/..b"), 0);
	CHECK_INT(cchv_vm_config_set_rlimit(c, 9999, 1, 1), CCHV_ERR_UNSUPPORTED);
	CHECK_INT(cchv_vm_config_set_rlimit(c, RLIMIT_NOFILE, 2, 1), CCHV_ERR_INVALID);
	CHECK_INT(cchv_vm_config_set_start(c, 3), CCHV_ERR_UNSUPPORTED);
	CHECK_INT(cchv_vm_config_merge_json(c, "[]"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_vm_config_merge_json(c, "{"), CCHV_ERR_INVALID);
	cchv_vm_config_free(c);
}

TEST(setters_of_network_devices)
{
	cchv_net_config *n = NULL;

	CHECK_INT(cchv_net_config_new(&n), 0);
	CHECK_INT(cchv_net_config_set_mac(n, "02:00:00:00:00:01"), 0);
	CHECK_INT(cchv_net_config_set_mac(n, "03:00:00:00:00:01"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_net_config_set_mac(n, "02:00:00:00:00"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_net_config_set_mac(n, "02-00:00:00:00:01"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_net_config_add_address(n, "10.0.0.2/24"), 0);
	CHECK_INT(cchv_net_config_add_address(n, "fd00::2/128"), 0);
	CHECK_INT(cchv_net_config_add_address(n, "10.0.0.2/33"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_net_config_add_address(n, "10.0.0.2"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_net_config_add_address(n, "10.0.0.2/-1"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_net_config_add_route(n, "0.0.0.0/0", "10.0.0.1", 0), 0);
	CHECK_INT(cchv_net_config_add_route(n, "::/0", "x", 0), CCHV_ERR_INVALID);
	CHECK_INT(cchv_net_config_add_dns_option(n, "a b"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_net_config_set_tap(n, "a/b"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_net_config_set_tap(n, "0123456789abcdef"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_net_config_add_tap_fd(n, 999), CCHV_ERR_INVALID);
	CHECK_INT(json_count(n->addresses), 2);
	CHECK_INT(json_count(n->routes), 1);
	cchv_net_config_free(n);
}

TEST(the_last_route_has_settings)
{
	cchv_net_config *n = NULL;

	CHECK_INT(cchv_net_config_new(&n), 0);
	CHECK_INT(cchv_net_config_set_route_mtu(n, 1400), CCHV_ERR_STATE);
	CHECK_INT(cchv_net_config_set_route_onlink(n, 1), CCHV_ERR_STATE);
	CHECK_INT(cchv_net_config_set_route_source(n, "10.0.0.2"), CCHV_ERR_STATE);
	CHECK_INT(cchv_net_config_add_route(n, "10.1.0.0/16", "10.0.0.1", 5), 0);
	CHECK_INT(cchv_net_config_add_route(n, "0.0.0.0/0", "169.254.1.1", 0), 0);
	CHECK_INT(cchv_net_config_set_route_mtu(n, 67), CCHV_ERR_INVALID);
	CHECK_INT(cchv_net_config_set_route_mtu(n, 1400), 0);
	CHECK_INT(cchv_net_config_set_route_onlink(n, 2), CCHV_ERR_INVALID);
	CHECK_INT(cchv_net_config_set_route_onlink(n, 1), 0);
	CHECK_INT(cchv_net_config_set_route_source(n, "fd00::1"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_net_config_set_route_source(n, "10.0.0.2"), 0);
	CHECK(!json_get(json_at(n->routes, 0), "mtu"));
	CHECK_STR(json_as_string(json_get(json_at(n->routes, 1), "source")), "10.0.0.2");
	CHECK(json_get(json_at(n->routes, 1), "mtu") && json_get(json_at(n->routes, 1), "onlink"));
	cchv_net_config_free(n);
}

TEST(the_loopback_is_carried_when_asked_for)
{
	cchv_net_config *n = NULL, *copy = NULL;

	CHECK_INT(cchv_net_config_new(&n), 0);
	CHECK_INT(cchv_net_config_set_route_localnet(NULL, 1), CCHV_ERR_INVALID);
	CHECK_INT(cchv_net_config_set_route_localnet(n, 2), CCHV_ERR_INVALID);
	CHECK_INT(n->route_localnet, 0);
	CHECK_INT(cchv_net_config_set_route_localnet(n, 1), 0);
	CHECK_INT(net_config_copy(n, &copy), 0);
	CHECK_INT(copy->route_localnet, 1);
	cchv_net_config_free(copy);
	cchv_net_config_free(n);
}

TEST(a_copy_is_whole_and_its_own)
{
	cchv_vm_config *c = new_config(), *copy = NULL;
	cchv_disk_config *d = NULL;
	cchv_net_config *n = NULL;
	cchv_fs_config *f = NULL;
	int fds[2];

	CHECK_INT(pipe(fds), 0);
	CHECK_INT(cchv_disk_config_new("/d", CCHV_DISK_RAW, &d), 0);
	CHECK_INT(cchv_disk_config_new("/d", 7, &d), CCHV_ERR_UNSUPPORTED);
	CHECK_INT(cchv_disk_config_set_id(d, "a"), 0);
	CHECK_INT(cchv_net_config_new(&n), 0);
	CHECK_INT(cchv_net_config_add_tap_fd(n, fds[0]), 0);
	CHECK_INT(cchv_fs_config_new("t", "/x", &f), 0);
	CHECK_INT(cchv_vm_config_add_disk(c, d), 0);
	CHECK_INT(cchv_vm_config_add_disk(c, d), CCHV_ERR_EXISTS);
	CHECK_INT(cchv_vm_config_add_net(c, n), 0);
	CHECK_INT(cchv_vm_config_add_fs(c, f), 0);
	CHECK_INT(cchv_vm_config_add_fs(c, f), CCHV_ERR_EXISTS);
	CHECK_INT(cchv_vm_config_set_netns_fd(c, fds[1]), 0);
	CHECK_INT(cchv_vm_config_set_rlimit(c, RLIMIT_NOFILE, 1, 2), 0);
	CHECK_INT(cchv_vm_config_set_rlimit(c, RLIMIT_NOFILE, 3, 4), 0);
	CHECK_INT(cchv_vm_config_merge_json(c, "{\"a\":1}"), 0);
	CHECK_INT(cchv_vm_config_set_id(c, "vm1"), 0);
	CHECK_INT(cchv_vm_config_set_vcpus(c, 2, 3), 0);
	cchv_disk_config_free(d);
	cchv_net_config_free(n);
	cchv_fs_config_free(f);
	CHECK_INT(cchv_vm_config_copy(c, &copy), 0);
	cchv_vm_config_free(c);
	close(fds[0]);
	close(fds[1]);
	CHECK_STR(copy->id, "vm1");
	CHECK_INT(copy->disks.count, 1);
	CHECK_STR(((cchv_disk_config *)copy->disks.items[0])->path, "/d");
	CHECK_INT(((cchv_net_config *)copy->nets.items[0])->fd_count, 1);
	CHECK(((cchv_net_config *)copy->nets.items[0])->fds[0] >= 0);
	CHECK(copy->netns_fd >= 0);
	CHECK_INT(copy->rlimit_count, 1);
	CHECK_INT(copy->rlimits[0].soft, 3);
	CHECK_INT(copy->max_vcpus, 3);
	cchv_vm_config_free(copy);
}

TEST(the_whole_is_checked)
{
	cchv_vm_config *c = new_config();
	cchv_net_config *n = NULL;
	cchv_error *err = NULL;
	char *json = NULL;

	CHECK_INT(cchv_vm_config_set_cmdline(c, "quiet panic=5"), 0);
	CHECK_INT(cchv_vm_config_to_json(c, &json, &err), CCHV_ERR_INVALID);
	CHECK_CONTAINS(cchv_error_message(err), "panic=5");
	cchv_error_free(err);
	CHECK_INT(cchv_vm_config_set_cmdline(c, NULL), 0);
	CHECK_INT(cchv_vm_config_set_memory_max(c, 1U << 20), 0);
	CHECK_INT(cchv_vm_config_to_json(c, &json, &err), CCHV_ERR_INVALID);
	CHECK_CONTAINS(cchv_error_message(err), "memory_max");
	cchv_error_free(err);
	CHECK_INT(cchv_vm_config_set_memory_max(c, 4ULL << 30), 0);
	CHECK_INT(cchv_net_config_new(&n), 0);
	CHECK_INT(cchv_vm_config_add_net(c, n), 0);
	CHECK_INT(cchv_vm_config_to_json(c, &json, &err), CCHV_ERR_INVALID);
	CHECK_CONTAINS(cchv_error_message(err), "no tap");
	cchv_error_free(err);
	cchv_net_config_free(n);
	cchv_vm_config_free(c);
}

TEST(merged_json_comes_last)
{
	cchv_vm_config *c = new_config();
	char *json = NULL;

	CHECK_INT(cchv_vm_config_merge_json(c, "{\"watchdog\":true,\"rng\":null}"), 0);
	CHECK_INT(cchv_vm_config_merge_json(c, "{\"watchdog\":false}"), 0);
	CHECK_INT(cchv_vm_config_to_json(c, &json, NULL), 0);
	CHECK_CONTAINS(json, "\"watchdog\": false");
	CHECK(!strstr(json, "\"rng\""));
	cchv_free(json);
	cchv_vm_config_free(c);
}
