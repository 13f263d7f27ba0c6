/* SPDX-License-Identifier: Apache-2.0 */
/* VmConfig as JSON: see config.h. Enters: settings that were checked. Leaves: bodies for the VMM's API. */
#include "vmm/config.h"

#include <string.h>

/*
 * panic=0: a panicked guest stands still for its report (pvpanic), it never reboots in place. The agent names
 * interfaces itself. What the kernel plugs it onlines. The rest saves time: no self-tests, no wait for entropy, no
 * probing of timers and keyboards that a VM has not; noreplace-smp keeps the text of the kernel shareable.
 */
static const char own_cmdline[] =
	"console=hvc0 quiet panic=0 memhp_default_state=online net.ifnames=0 "
	"cryptomgr.notests random.trust_cpu=on no_timer_check tsc=reliable noreplace-smp "
	"i8042.noaux i8042.nomux i8042.dumbkbd";

/* Words whose value we rely on; a caller's would win, since it comes later. */
static const char *const reserved[] = {
	"console", "init", "rdinit", "panic", "memhp_default_state", "net.ifnames", "root", "initrd", "--",
};

const char *vmm_config_cmdline(void)
{
	return own_cmdline;
}

int vmm_cmdline_check(const char *cmdline, char **ret_word)
{
	*ret_word = NULL;
	for (const char *p = cmdline; p && *p;) {
		size_t len = strcspn(p, " \""), key = strcspn(p, "= \"");

		for (size_t i = 0; i < ARRAY_LEN(reserved); i++) {
			if (strlen(reserved[i]) == key && strncmp(p, reserved[i], key) == 0) {
				*ret_word = mem_strndup(p, len);
				return *ret_word ? CCHV_ERR_INVALID : CCHV_ERR_NOMEM;
			}
		}
		/* A quoted value may hold blanks: it is part of the word. */
		while (p[len] == '"') {
			const char *close = strchr(p + len + 1, '"');

			len = close ? (size_t)(close - p) + 1 : strlen(p);
			len += strcspn(p + len, " \"");
		}
		p += len;
		p += strspn(p, " ");
	}
	return CCHV_OK;
}

static struct json *pci_device(const char *id, int slot)
{
	struct json *d = json_new_object();

	json_set_string(d, "id", id);
	if (slot)
		json_set_u64(d, "pci_device_id", (uint64_t)slot);
	return d;
}

static struct json *memory_json(const struct vmm_settings *s)
{
	struct json *memory = json_new_object(), *zones = json_new_array(), *zone = json_new_object();

	json_set_string(zone, "id", VMM_ZONE);
	json_set_u64(zone, "size", s->base);
	json_set_bool(zone, "shared", s->shared || s->base_file);
	if (s->base_file)
		json_set_string(zone, "file", s->base_file);
	if (s->region) {
		json_set_u64(zone, "hotplug_size", s->region);
		json_set_u64(zone, "hotplugged_size", s->plugged);
	}
	json_append(zones, zone);
	json_set_u64(memory, "size", 0);
	json_set_bool(memory, "shared", s->shared);
	json_set_string(memory, "hotplug_method", "VirtioMem");
	json_set(memory, "zones", zones);
	return memory;
}

static struct json *payload_json(const struct vmm_settings *s)
{
	struct json *payload = json_new_object();
	cleanup_free char *line = NULL;

	line = s->cmdline ? mem_printf("%s %s", own_cmdline, s->cmdline) : mem_strdup(own_cmdline);
	json_set(payload, "cmdline", line ? json_new_string(line) : NULL);
	if (s->kernel)
		json_set_string(payload, "kernel", s->kernel);
	if (s->initramfs)
		json_set_string(payload, "initramfs", s->initramfs);
	return payload;
}

static struct json *cpus_json(const struct vmm_settings *s)
{
	struct json *cpus = json_new_object();

	json_set_u64(cpus, "boot_vcpus", s->vcpus);
	json_set_u64(cpus, "max_vcpus", s->max_vcpus);
	json_set_bool(cpus, "nested", 0);
	return cpus;
}

struct json *vmm_config_json(const struct vmm_settings *s)
{
	struct json *c = json_new_object(), *rng = pci_device("rng", VMM_SLOT_RNG);
	struct json *console = pci_device("console", VMM_SLOT_CONSOLE), *serial = json_new_object();
	struct json *vsock = pci_device("vsock", VMM_SLOT_VSOCK), *balloon = pci_device("balloon", VMM_SLOT_BALLOON);

	json_set_string(rng, "src", "/dev/urandom");
	json_set_string(console, "mode", "Pty");
	json_set_string(serial, "mode", "Null");
	json_set_u64(vsock, "cid", VMM_GUEST_CID);
	json_set_string(vsock, "socket", VMM_VSOCK_SOCKET);
	json_set_u64(balloon, "size", 0);
	json_set_bool(balloon, "free_page_reporting", 1);

	json_set(c, "cpus", cpus_json(s));
	json_set(c, "memory", memory_json(s));
	json_set(c, "payload", payload_json(s));
	json_set(c, "rng", rng);
	json_set(c, "balloon", balloon);
	json_set(c, "serial", serial);
	json_set(c, "console", console);
	json_set(c, "vsock", vsock);
	json_set_bool(c, "pvpanic", 1);
	return c;
}

/* A bucket that is refilled once a second: the VMM looks at throttled queues every 100 ms only. */
static struct json *bucket(uint64_t per_second)
{
	struct json *b = json_new_object();

	json_set_u64(b, "size", per_second);
	json_set_u64(b, "refill_time", 1000);
	return b;
}

struct json *vmm_disk_json(const struct cchv_disk_config *disk, const char *id, int slot, uint32_t vcpus)
{
	struct json *d = pci_device(id, slot);

	json_set_string(d, "path", disk->path);
	/* Always said: a guessed format would let the guest choose it. */
	json_set_string(d, "image_type", "Raw");
	json_set_bool(d, "readonly", disk->readonly);
	json_set_bool(d, "direct", disk->direct);
	json_set_u64(d, "num_queues", disk->queues ? disk->queues : vcpus);
	if (disk->serial)
		json_set_string(d, "serial", disk->serial);
	if (disk->bytes_per_s || disk->ops_per_s) {
		struct json *limiter = json_new_object();

		if (disk->bytes_per_s)
			json_set(limiter, "bandwidth", bucket(disk->bytes_per_s));
		if (disk->ops_per_s)
			json_set(limiter, "ops", bucket(disk->ops_per_s));
		json_set(d, "rate_limiter_config", limiter);
	}
	return d;
}

struct json *vmm_net_json(const struct cchv_net_config *net, const char *id, int slot, const char *mac,
                          uint32_t mtu, uint32_t pairs)
{
	struct json *d = pci_device(id, slot);

	if (net->tap)
		json_set_string(d, "tap", net->tap);
	json_set_string(d, "mac", mac);
	if (mtu)
		json_set_u64(d, "mtu", mtu);
	json_set_u64(d, "num_queues", 2 * (uint64_t)pairs);
	return d;
}

struct json *vmm_pmem_json(const struct cchv_pmem_config *pmem, const char *id, int slot)
{
	struct json *d = pci_device(id, slot);

	json_set_string(d, "file", pmem->path);
	json_set_bool(d, "discard_writes", !pmem->keep_writes);
	return d;
}

struct json *vmm_fs_json(const struct cchv_fs_config *fs, const char *id, int slot, const char *socket)
{
	struct json *d = pci_device(id, slot);

	json_set_string(d, "tag", fs->tag);
	json_set_string(d, "socket", socket);
	json_set_u64(d, "num_queues", 1);
	json_set_u64(d, "queue_size", 1024);
	return d;
}

struct json *vmm_json_merge(const struct json *target, const struct json *patch)
{
	struct json *result;

	if (json_get_type(patch) != JSON_OBJECT)
		return json_copy(patch);
	result = json_get_type(target) == JSON_OBJECT ? json_copy(target) : json_new_object();
	for (size_t i = 0; result && i < json_count(patch); i++) {
		const char *key = json_key_at(patch, i);
		const struct json *value = json_at(patch, i);

		if (json_get_type(value) == JSON_NULL) {
			json_remove(result, key);
		} else if (json_set(result, key, vmm_json_merge(json_get(result, key), value)) < 0) {
			json_free(result);
			return NULL;
		}
	}
	return result;
}
