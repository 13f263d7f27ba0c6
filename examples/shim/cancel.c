/* SPDX-License-Identifier: Apache-2.0 */
/* Breaking off a Create: see cancel.h. Enters: a request. Leaves: a VM that is killed, waits that have ended. */
#include "cancel.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "log.h"

void cancel_init(struct cancel *cancel)
{
	*cancel = (struct cancel){ .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	pthread_mutex_init(&cancel->lock, NULL);
	if (cancel->fd < 0)
		log_line(LOG_WARNING, "eventfd: %s; what is being made cannot be broken off at once", strerror(errno));
}

void cancel_destroy(struct cancel *cancel)
{
	if (cancel->fd >= 0)
		close(cancel->fd);
	cancel->fd = -1;
	pthread_mutex_destroy(&cancel->lock);
}

static void kill_vm(cchv_vm *vm)
{
	cchv_error *error = NULL;

	if (cchv_vm_kill(vm, &error) < 0)
		log_line(LOG_ERROR, "a VM that is not wanted any more: %s", cchv_error_message(error));
	cchv_error_free(error);
}

/* Its maker has no handle yet: as anybody else would. Where there is no VMM yet, cancel_set_vm() sees to it. */
static void kill_in_making(const struct cancel *cancel)
{
	cchv_vm *vm = NULL;

	if (cchv_vm_open(cancel->ctx, cancel->vm_id, &vm, NULL) < 0)
		return;
	kill_vm(vm);
	cchv_vm_free(vm);
}

void cancel_request(struct cancel *cancel)
{
	uint64_t one = 1;

	pthread_mutex_lock(&cancel->lock);
	if (!cancel->requested) {
		__atomic_store_n(&cancel->requested, 1, __ATOMIC_RELEASE);
		if (cancel->fd >= 0 && write(cancel->fd, &one, sizeof(one)) < 0)
			log_line(LOG_ERROR, "eventfd: %s", strerror(errno));
		if (cancel->vm)
			kill_vm(cancel->vm);
		else if (cancel->ctx)
			kill_in_making(cancel);
	}
	pthread_mutex_unlock(&cancel->lock);
}

int cancel_is_requested(struct cancel *cancel)
{
	return __atomic_load_n(&cancel->requested, __ATOMIC_ACQUIRE);
}

void cancel_set_making(struct cancel *cancel, cchv_ctx *ctx, const char *vm_id)
{
	pthread_mutex_lock(&cancel->lock);
	cancel->ctx = ctx;
	cancel->vm_id = vm_id;
	pthread_mutex_unlock(&cancel->lock);
}

void cancel_set_vm(struct cancel *cancel, cchv_vm *vm)
{
	pthread_mutex_lock(&cancel->lock);
	cancel->ctx = NULL;
	cancel->vm_id = NULL;
	cancel->vm = vm;
	if (vm && cancel->requested)
		kill_vm(vm);
	pthread_mutex_unlock(&cancel->lock);
}
