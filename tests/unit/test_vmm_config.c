/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/config.h"

#include "test.h"

static const char *text_of(struct json *json)
{
	static char text[8192];
	struct buf b = BUF_INIT(sizeof(text) - 1);

	CHECK_INT(json_print(json, 0, &b), 0);
	memcpy(text, buf_string(&b), b.len + 1);
	buf_free(&b);
	json_free(json);
	return text;
}

static struct json *parse(const char *text)
{
	struct json *json = NULL;

	CHECK_INT(json_parse(text, strlen(text), &json, NULL), 0);
	return json;
}

TEST(a_vm_with_plugged_memory)
{
	struct vmm_settings s = {
		.vcpus = 2, .max_vcpus = 4, .base = 128 << 20, .plugged = 64 << 20, .region = 1ULL << 40,
		.kernel = "/k", .initramfs = "/i", .cmdline = "loglevel=7",
	};
	struct json *c = vmm_config_json(&s);
	uint64_t n = 0;

	CHECK_STR(json_as_string(json_find(c, "payload.kernel")), "/k");
	CHECK_CONTAINS(json_as_string(json_find(c, "payload.cmdline")), " loglevel=7");
	CHECK_CONTAINS(json_as_string(json_find(c, "payload.cmdline")), "panic=0");
	CHECK_INT(json_as_u64(json_find(c, "memory.size"), &n), 0);
	CHECK_INT(n, 0);
	CHECK_STR(json_as_string(json_find(c, "memory.hotplug_method")), "VirtioMem");
	CHECK_INT(json_as_u64(json_get(json_at(json_find(c, "memory.zones"), 0), "hotplugged_size"), &n), 0);
	CHECK_INT(n, 64 << 20);
	CHECK_STR(json_as_string(json_find(c, "console.mode")), "Pty");
	CHECK_STR(json_as_string(json_find(c, "serial.mode")), "Null");
	CHECK_STR(json_as_string(json_find(c, "vsock.socket")), "vsock.sock");
	CHECK_CONTAINS(text_of(c), "\"pvpanic\":true");
}

TEST(no_region_no_hotplug)
{
	struct vmm_settings s = { .vcpus = 1, .max_vcpus = 1, .base = 128 << 20 };

	CHECK(!strstr(text_of(vmm_config_json(&s)), "hotplug_size"));
}

TEST(devices)
{
	char path[] = "/d", serial[] = "s", tap[] = "tap0", tag[] = "t";
	struct cchv_disk_config disk = { .path = path, .serial = serial, .bytes_per_s = 5, .ops_per_s = 7 };
	struct cchv_net_config net = { .tap = tap };
	struct cchv_pmem_config pmem = { .path = path };
	struct cchv_fs_config fs = { .tag = tag };

	CHECK_STR(text_of(vmm_disk_json(&disk, "a", 9, 3)),
	          "{\"id\":\"a\",\"pci_device_id\":9,\"path\":\"/d\",\"image_type\":\"Raw\",\"readonly\":false,"
	          "\"direct\":false,\"num_queues\":3,\"serial\":\"s\",\"rate_limiter_config\":{\"bandwidth\":"
	          "{\"size\":5,\"refill_time\":1000},\"ops\":{\"size\":7,\"refill_time\":1000}}}");
	CHECK_STR(text_of(vmm_net_json(&net, "n", 0, "02:00:00:00:00:01", 1400, 2)),
	          "{\"id\":\"n\",\"tap\":\"tap0\",\"mac\":\"02:00:00:00:00:01\",\"mtu\":1400,\"num_queues\":4}");
	CHECK_STR(text_of(vmm_pmem_json(&pmem, "p", 8)),
	          "{\"id\":\"p\",\"pci_device_id\":8,\"file\":\"/d\",\"discard_writes\":true}");
	CHECK_STR(text_of(vmm_fs_json(&fs, "f", 8, "fs.sock")),
	          "{\"id\":\"f\",\"pci_device_id\":8,\"tag\":\"t\",\"socket\":\"fs.sock\",\"num_queues\":1,"
	          "\"queue_size\":1024}");
}

TEST(words_that_we_rely_on)
{
	static const char *const good[] = { NULL, "", "loglevel=7", "x.panic=1", "panics=1 consoled", "a=\"panic=1\"" };
	static const char *const bad[] = { "panic=1", "a  console=ttyS0", "a=\"b c\" init=/x", "rdinit=/x", "a -- b" };
	char *word;

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		CHECK_INT(vmm_cmdline_check(good[i], &word), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		CHECK_INT(vmm_cmdline_check(bad[i], &word), CCHV_ERR_INVALID);
		CHECK(strstr(bad[i], word));
		free(word);
	}
}

TEST(merging_as_the_rfc_says)
{
	static const char *const cases[][3] = {
		{ "{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}" },
		{ "{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}" },
		{ "{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}" },
		{ "{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}" },
		{ "{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}" },
		{ "{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}" },
		{ "[\"a\"]", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}" },
		{ "{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct json *target = parse(cases[i][0]), *patch = parse(cases[i][1]);

		CHECK_STR(text_of(vmm_json_merge(target, patch)), cases[i][2]);
		json_free(target);
		json_free(patch);
	}
}

TEST(out_of_memory_never_prints)
{
	struct vmm_settings s = { .vcpus = 1, .max_vcpus = 1, .base = 1 << 27, .region = 1 << 27, .kernel = "/k" };
	uint64_t before = mem_count(), total;
	struct json *c = vmm_config_json(&s);

	total = mem_count() - before;
	json_free(c);
	for (uint64_t n = 1; n <= total; n++) {
		struct buf b = BUF_INIT(8192);

		mem_fail_from(n);
		c = vmm_config_json(&s);
		mem_fail_from(0);
		CHECK(!c || json_print(c, 0, &b) < 0);
		json_free(c);
		buf_free(&b);
	}
}
