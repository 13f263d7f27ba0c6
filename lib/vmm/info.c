/* SPDX-License-Identifier: Apache-2.0 */
/* Replies about the VM: see info.h. Enters: parsed JSON of the VMM. Leaves: what we rely on, checked. */
#include "vmm/info.h"

#include <ctype.h>
#include <string.h>

int vmm_ping_check(const struct json *reply, const char **ret_version, cchv_error **err)
{
	const char *version = NULL, *p;
	unsigned long major = 0;
	int r;

	r = json_get_string(reply, "version", &version, err);
	if (r < 0)
		return r;
	p = version;
	if (p && *p == 'v')
		p++;
	if (!p || !isdigit((unsigned char)*p))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "vmm.ping: no version in the reply");
	for (; isdigit((unsigned char)*p) && major < 100000; p++)
		major = major * 10 + (unsigned long)(*p - '0');
	if (major < VMM_MIN_VERSION)
		return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "the VMM is version %.32s, %d is needed", version,
		               VMM_MIN_VERSION);
	*ret_version = version;
	return CCHV_OK;
}

int vmm_info_parse(const struct json *info, struct vmm_info *ret_info, cchv_error **err)
{
	const struct json *config = json_get(info, "config"), *console = json_find(info, "config.console");
	struct vmm_info i = { 0 };
	uint64_t vcpus = 0;
	int r;

	r = json_get_string(info, "state", &i.state, err);
	if (r >= 0)
		r = json_get_u64(info, "memory_actual_size", &i.memory_bytes, err);
	if (r >= 0)
		r = json_get_u64(json_get(config, "cpus"), "boot_vcpus", &vcpus, err);
	if (r >= 0 && console)
		r = json_get_string(console, "file", &i.console_path, err);
	if (r < 0)
		return r;
	if (!i.state || vcpus > 100000)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "vm.info: the reply makes no sense");
	i.vcpus = (uint32_t)vcpus;
	*ret_info = i;
	return CCHV_OK;
}

/* "SSSS:BB:DD.F" in lower case hex; nothing else goes to the agent. */
static int is_address(const char *text)
{
	static const char pattern[] = "xxxx:xx:xx.x";

	if (strlen(text) != sizeof(pattern) - 1)
		return 0;
	for (size_t i = 0; i < sizeof(pattern) - 1; i++) {
		if (pattern[i] == 'x' ? !strchr("0123456789abcdef", text[i]) : text[i] != pattern[i])
			return 0;
	}
	return 1;
}

static int take_address(const struct json *object, const char *key, const char *what,
                        char ret_address[VMM_PCI_ADDRESS_SIZE], cchv_error **err)
{
	const char *text = NULL;
	int r;

	r = json_get_string(object, key, &text, err);
	if (r < 0)
		return r;
	if (!text)
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "%s: the VMM reports no PCI address", what);
	if (!is_address(text))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "%s: '%.32s' is no PCI address", what, text);
	memcpy(ret_address, text, strlen(text) + 1);
	return CCHV_OK;
}

int vmm_info_device_address(const struct json *info, const char *id, char ret_address[VMM_PCI_ADDRESS_SIZE],
                            cchv_error **err)
{
	const struct json *tree = json_get(info, "device_tree"), *node = json_get(tree, id);
	const char *parent = NULL;
	cleanup_free char *what = mem_printf("device '%s'", id);
	int r;

	if (!what)
		return err_nomem(err);
	if (!node)
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "%s: not in the VMM's device tree", what);
	/* A virtio device hangs below the PCI device that carries it, which has the address. */
	if (json_get_type(json_get(node, "pci_bdf")) != JSON_STRING) {
		r = json_get_string(node, "parent", &parent, err);
		if (r < 0)
			return r;
		node = parent ? json_get(tree, parent) : NULL;
	}
	return take_address(node, "pci_bdf", what, ret_address, err);
}

int vmm_added_address(const struct json *reply, char ret_address[VMM_PCI_ADDRESS_SIZE], cchv_error **err)
{
	return take_address(reply, "bdf", "device", ret_address, err);
}
