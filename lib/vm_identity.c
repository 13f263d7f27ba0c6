/* SPDX-License-Identifier: Apache-2.0 */
/* Who a guest is: see vm_identity.h. Enters: a VM's settings, the host's randomness and time. Leaves: vm.configure. */
#include "vm_identity.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "vm_agent.h"
#include "vm_api.h"
#include "vm_config.h"
#include "vm_stop.h"

#define RANDOM_BYTES 64

static void to_hex(const uint8_t id[16], char text[33])
{
	for (size_t i = 0; i < 16; i++) {
		text[2 * i] = "0123456789abcdef"[id[i] >> 4];
		text[2 * i + 1] = "0123456789abcdef"[id[i] & 15];
	}
	text[32] = '\0';
}

int vm_identify(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	cleanup_json struct json *result = NULL;
	cleanup_free char *hostname = NULL;
	uint8_t random[RANDOM_BYTES], id[16];
	struct json *params;
	char machine_id[33];
	int r;

	if (getrandom(random, sizeof(random), 0) != sizeof(random) || getrandom(id, sizeof(id), 0) != sizeof(id))
		return err_set(err, CCHV_ERR_SYSTEM, errno, "getrandom");
	to_hex(id, machine_id);
	hostname = mem_strndup(vm->config->hostname ? vm->config->hostname : vm->id, 64);
	if (!hostname)
		return err_nomem(err);
	params = json_new_object();
	json_set(params, "random", json_new_bytes(random, sizeof(random)));
	json_set_u64(params, "time_ns", clock_real_ns());
	json_set_string(params, "hostname", hostname);
	json_set_string(params, "machine_id", machine_id);
	r = vm_ask(vm, "vm.configure", params, deadline, &result, err);
	explicit_bzero(random, sizeof(random));
	return r < 0 ? r : vm_agent_configured(vm, result, err);
}

static int hand_over(cchv_vm *vm, const char *hostname, uint64_t deadline, cchv_error **err)
{
	int r = vm_check_state(vm, VM_IN(CCHV_VM_PAUSED), "handing it over", err);

	if (r == CCHV_OK && hostname && mem_replace_string(&vm->config->hostname, hostname) < 0)
		r = err_nomem(err);
	if (r == CCHV_OK)
		r = vm_api(vm, "PUT", "vm.resume", NULL, API_PAUSE_MS, deadline, NULL, err);
	if (r < 0)
		return r;
	r = vm_identify(vm, deadline, err);
	/* Whoever looks must not take it for theirs before it is. */
	if (r == CCHV_OK)
		vm_set_state(vm, CCHV_VM_RUNNING);
	return r;
}

int vm_hand_over(cchv_vm *vm, const char *hostname, uint64_t deadline, cchv_error **err)
{
	int r = vm_enter(vm, err);

	if (r < 0)
		return r;
	r = hand_over(vm, hostname, deadline, err);
	vm_leave(vm);
	return r;
}
