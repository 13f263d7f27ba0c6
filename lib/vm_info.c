/* SPDX-License-Identifier: Apache-2.0 */
/* What a VM is and uses. Enters: vm.json, the VMM's and the agent's reports, /proc. Leaves: JSON and stats. */
#include <string.h>

#include "base/clock.h"
#include "base/export.h"
#include "ctx.h"
#include "proc_usage.h"
#include "stats.h"
#include "vm_api.h"
#include "vm_device.h"
#include "vm_process.h"
#include "vm_record.h"
#include "vm_stop.h"
#include "vmm/info.h"

static const unsigned int measured_in = VM_IN(CCHV_VM_RUNNING) | VM_IN(CCHV_VM_PAUSED);

/* Copy a member of vm.json. */
static void copy_member(struct json *out, const char *key, const struct json *record)
{
	const struct json *value = json_get(record, key);

	if (value)
		json_set(out, key, json_copy(value));
}

static struct json *describe_vmm(const cchv_vm *vm)
{
	struct json *v = json_new_object();

	json_set_string(v, "kind", vmm_kind_name(vm->vmm->choice.kind));
	if (vm->vmm->choice.path)
		json_set_string(v, "path", vm->vmm->choice.path);
	if (vm->vmm->version)
		json_set_string(v, "version", vm->vmm->version);
	if (vm->state != CCHV_VM_STOPPED)
		json_set_i64(v, "pid", vm->vmm->pid);
	if (vm->vmm->choice.reason)
		json_set_string(v, "reason", vm->vmm->choice.reason);
	return v;
}

static struct json *describe(cchv_vm *vm)
{
	const struct json *record = vm->record->json;
	struct json *out = json_new_object();

	json_set_string(out, "id", vm->id);
	json_set_string(out, "state", vm_state_name(vm->state));
	copy_member(out, "created_ns", record);
	json_set(out, "owner_pid", json_copy(json_find(record, "owner.pid")));
	json_set(out, "vmm", describe_vmm(vm));
	copy_member(out, "start", record);
	copy_member(out, "template", record);
	copy_member(out, "why_not_template", record);
	copy_member(out, "kernel", record);
	copy_member(out, "initramfs", record);
	copy_member(out, "memory_bytes", record);
	copy_member(out, "agent_version", record);
	copy_member(out, "boot_id", record);
	copy_member(out, "devices", record);
	if (vm->state == CCHV_VM_STOPPED) {
		json_set_string(out, "stop_reason", vm_stop_name(vm->stop_reason));
		json_set_string(out, "stop_text", vm->stop_text ? vm->stop_text : "");
	}
	return out;
}

static int add_vmm_info(cchv_vm *vm, struct json *out, uint64_t deadline, cchv_error **err)
{
	cleanup_json struct json *info = NULL;
	struct vmm_info parsed;
	int r;

	r = vm_api(vm, "GET", "vm.info", NULL, API_QUICK_MS, deadline, &info, err);
	if (r == CCHV_OK)
		r = vmm_info_parse(info, &parsed, err);
	if (r < 0)
		return r;
	json_set_u64(out, "vm_memory_bytes", parsed.memory_bytes);
	json_set_u64(out, "vcpus", parsed.vcpus);
	json_set(out, "vmm_info", steal(&info));
	return CCHV_OK;
}

CCHV_API int cchv_vm_get_info_json(cchv_vm *vm, int timeout_ms, char **ret_json, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	cleanup_buf struct buf text = BUF_INIT(8U << 20);
	cleanup_json struct json *out = NULL;
	cleanup_err cchv_error *error = NULL;
	int r = vm_enter(vm, err);

	if (r < 0)
		return r;
	if (!vm->owner && vm->state != CCHV_VM_STOPPED)
		record_reload(vm->record, NULL);
	out = describe(vm);
	if (!ret_json)
		r = err_set(err, CCHV_ERR_INVALID, 0, "get_info_json: NULL argument");
	else if (vm->state != CCHV_VM_STOPPED)
		r = add_vmm_info(vm, out, deadline, &error);
	/* One that stopped meanwhile is described without what only the VMM knows. */
	if (r < 0 && vm->state == CCHV_VM_STOPPED) {
		json_free(steal(&out));
		out = describe(vm);
		r = CCHV_OK;
	}
	if (r < 0 && error)
		err_move(err, &error, r);
	if (r == CCHV_OK && (json_print(out, 0, &text) < 0 || !(*ret_json = buf_take_string(&text))))
		r = err_nomem(err);
	vm_leave(vm);
	return r;
}

/* The VMM's names of counters and ours. */
static const struct {
	const char *vmm, *ours;
	int kind;
} counter_names[] = {
	{ "read_bytes", "read_bytes", DEVICE_DISK }, { "read_ops", "read_ops", DEVICE_DISK },
	{ "write_bytes", "write_bytes", DEVICE_DISK }, { "write_ops", "write_ops", DEVICE_DISK },
	{ "rx_bytes", "rx_bytes", DEVICE_NET }, { "rx_frames", "rx_packets", DEVICE_NET },
	{ "tx_bytes", "tx_bytes", DEVICE_NET }, { "tx_frames", "tx_packets", DEVICE_NET },
};

static int add_counters(cchv_vm *vm, cchv_stats *stats, uint64_t deadline, cchv_error **err)
{
	cleanup_json struct json *reply = NULL;
	int r;

	r = vm_api(vm, "GET", "vm.counters", NULL, API_QUICK_MS, deadline, &reply, err);
	for (size_t i = 0; i < json_count(reply) && r == CCHV_OK; i++) {
		const struct json *device = json_at(reply, i);

		for (size_t k = 0; k < ARRAY_LEN(counter_names) && r == CCHV_OK; k++) {
			uint64_t value;

			r = json_get_u64(device, counter_names[k].vmm, &value, err);
			if (r == 1)
				r = stats_add(stats, value, "%s.%s.%s", vm_device_kind_name(counter_names[k].kind),
				              json_key_at(reply, i), counter_names[k].ours);
			if (r == CCHV_ERR_NOMEM)
				return err_nomem(err);
		}
	}
	return r;
}

static int begin_stats(cchv_vm *vm, const char *what, cchv_stats **result, cchv_stats **ret_stats, cchv_error **err)
{
	int r = vm_check_state(vm, measured_in, what, err);

	if (r < 0)
		return r;
	if (!result)
		return err_set(err, CCHV_ERR_INVALID, 0, "VM '%s': %s: NULL argument", vm->id, what);
	*ret_stats = stats_new();
	return *ret_stats ? CCHV_OK : err_nomem(err);
}

CCHV_API int cchv_vm_get_counters(cchv_vm *vm, int timeout_ms, cchv_stats **ret_stats, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	cleanup_stats cchv_stats *stats = NULL;
	int r = vm_enter(vm, err);

	if (r < 0)
		return r;
	r = begin_stats(vm, "reading counters", ret_stats, &stats, err);
	if (r == CCHV_OK)
		r = add_counters(vm, stats, deadline, err);
	if (r == CCHV_OK)
		*ret_stats = steal(&stats);
	vm_leave(vm);
	return r;
}

static int add_host(cchv_vm *vm, cchv_stats *stats, cchv_error **err)
{
	struct proc_usage usage = { 0 };

	if (!proc_usage_add(vm->vmm->pid, &usage))
		return CCHV_OK;
	if (stats_add(stats, usage.rss_bytes, "vmm.rss_bytes") < 0 ||
	    stats_add(stats, usage.private_bytes, "vmm.private_bytes") < 0 ||
	    stats_add(stats, usage.cpu_ns, "vmm.cpu_ns") < 0)
		return err_nomem(err);
	return CCHV_OK;
}

static int add_size(cchv_vm *vm, cchv_stats *stats, uint64_t deadline, cchv_error **err)
{
	cleanup_json struct json *info = NULL;
	struct vmm_info parsed;
	int r;

	r = vm_api(vm, "GET", "vm.info", NULL, API_QUICK_MS, deadline, &info, err);
	if (r == CCHV_OK)
		r = vmm_info_parse(info, &parsed, err);
	if (r < 0)
		return r;
	if (stats_add(stats, parsed.vcpus, "vm.vcpus") < 0 ||
	    stats_add(stats, parsed.memory_bytes, "vm.memory_bytes") < 0)
		return err_nomem(err);
	return CCHV_OK;
}

/* The agent's numbers, all of them, below "guest."; one or two have another name here. */
static int add_guest(cchv_vm *vm, cchv_stats *stats, uint64_t deadline, cchv_error **err)
{
	cleanup_json struct json *reply = NULL;
	int r;

	r = vm_need_agent(vm, deadline, err);
	if (r == CCHV_OK)
		r = vm_ask(vm, "vm.stats", NULL, deadline, &reply, err);
	for (size_t i = 0; i < json_count(reply) && r == CCHV_OK; i++) {
		const char *key = json_key_at(reply, i);
		uint64_t value;

		if (json_as_u64(json_at(reply, i), &value) < 0)
			continue;
		if (strcmp(key, "cpu.usage_ns") == 0)
			key = "cpu_ns";
		if (stats_add(stats, value, "guest.%s", key) < 0)
			r = err_nomem(err);
	}
	return r;
}

CCHV_API int cchv_vm_get_stats(cchv_vm *vm, int timeout_ms, cchv_stats **ret_stats, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	cleanup_stats cchv_stats *stats = NULL;
	int r = vm_enter(vm, err);

	if (r < 0)
		return r;
	r = begin_stats(vm, "measuring", ret_stats, &stats, err);
	if (r == CCHV_OK)
		r = add_host(vm, stats, err);
	if (r == CCHV_OK)
		r = add_size(vm, stats, deadline, err);
	if (r == CCHV_OK)
		r = add_counters(vm, stats, deadline, err);
	if (r == CCHV_OK && vm->state == CCHV_VM_RUNNING)
		r = add_guest(vm, stats, deadline, err);
	if (r == CCHV_OK)
		*ret_stats = steal(&stats);
	vm_leave(vm);
	return r;
}
