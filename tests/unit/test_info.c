/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/info.h"

#include "test.h"

static struct json *parse(const char *text)
{
	struct json *json = NULL;

	CHECK_INT(json_parse(text, strlen(text), &json, NULL), 0);
	return json;
}

static int ping(const char *text)
{
	struct json *json = parse(text);
	const char *version;
	int r = vmm_ping_check(json, &version, NULL);

	json_free(json);
	return r;
}

TEST(the_version_gate)
{
	CHECK_INT(ping("{\"build_version\":\"v53.0\",\"version\":\"53.0.0\",\"pid\":1,\"features\":[]}"), 0);
	CHECK_INT(ping("{\"version\":\"v60.1-rc\"}"), 0);
	CHECK_INT(ping("{\"version\":\"52.9.9\"}"), CCHV_ERR_UNSUPPORTED);
	CHECK_INT(ping("{\"version\":\"x\"}"), CCHV_ERR_PROTOCOL);
	CHECK_INT(ping("{\"version\":99}"), CCHV_ERR_PROTOCOL);
	CHECK_INT(ping("[]"), CCHV_ERR_PROTOCOL);
	CHECK_INT(ping("{\"version\":\"53000000000000000000000\"}"), 0);
}

static const char info_text[] =
	"{\"config\":{\"cpus\":{\"boot_vcpus\":2,\"max_vcpus\":4},"
	"\"console\":{\"file\":\"/dev/pts/7\",\"mode\":\"Pty\"}},"
	"\"state\":\"Running\",\"memory_actual_size\":18446744073709551615,\"device_tree\":{"
	"\"disk0\":{\"id\":\"disk0\",\"resources\":[],"
	"\"parent\":\"_virtio-pci-disk0\",\"children\":[],\"pci_bdf\":null},"
	"\"_virtio-pci-disk0\":{\"id\":\"_virtio-pci-disk0\",\"children\":[\"disk0\"],\"pci_bdf\":\"0000:00:08.0\"},"
	"\"direct\":{\"pci_bdf\":\"0000:00:1f.0\"},\"orphan\":{\"parent\":\"gone\"},\"none\":{},"
	"\"evil\":{\"pci_bdf\":\"../../../x\"}}}";

TEST(info_is_read)
{
	struct json *json = parse(info_text);
	struct vmm_info info;

	CHECK_INT(vmm_info_parse(json, &info, NULL), 0);
	CHECK_STR(info.state, "Running");
	CHECK_INT(info.vcpus, 2);
	CHECK(info.memory_bytes == UINT64_MAX);
	CHECK_STR(info.console_path, "/dev/pts/7");
	json_free(json);
	json = parse("{\"memory_actual_size\":1}");
	CHECK_INT(vmm_info_parse(json, &info, NULL), CCHV_ERR_PROTOCOL);
	json_free(json);
}

TEST(addresses_by_id)
{
	struct json *json = parse(info_text);
	char address[VMM_PCI_ADDRESS_SIZE] = "";

	CHECK_INT(vmm_info_device_address(json, "disk0", address, NULL), 0);
	CHECK_STR(address, "0000:00:08.0");
	CHECK_INT(vmm_info_device_address(json, "direct", address, NULL), 0);
	CHECK_STR(address, "0000:00:1f.0");
	CHECK_INT(vmm_info_device_address(json, "orphan", address, NULL), CCHV_ERR_NOT_FOUND);
	CHECK_INT(vmm_info_device_address(json, "none", address, NULL), CCHV_ERR_NOT_FOUND);
	CHECK_INT(vmm_info_device_address(json, "absent", address, NULL), CCHV_ERR_NOT_FOUND);
	CHECK_INT(vmm_info_device_address(json, "evil", address, NULL), CCHV_ERR_PROTOCOL);
	CHECK_STR(address, "0000:00:1f.0");
	json_free(json);
	json = parse("{\"id\":\"x\",\"bdf\":\"0000:00:09.0\"}");
	CHECK_INT(vmm_added_address(json, address, NULL), 0);
	CHECK_STR(address, "0000:00:09.0");
	json_free(json);
	CHECK_INT(vmm_added_address(NULL, address, NULL), CCHV_ERR_NOT_FOUND);
}
