/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints: see api.h. Enters: method, path, body, descriptors. Leaves: the VM's answer with the original's statuses:
 * 404 for what does not exist, 400 for what makes no sense, 429, else 500; success is 204, or 200 with a body.
 */
#include "api.h"

#include <string.h>
#include <unistd.h>

#include "options.h"

#define ROOT "/api/v1/"

/* A request that is being carried out. */
struct job {
	struct vm *vm;
	struct http_call *call;
	const struct endpoint *endpoint;
	struct json *body;              /* normalised; NULL when there is none */
	struct json *reply;             /* 200 with it; NULL: 204 */
	int empty_ok;                   /* 200 without a body */
	struct fault fault;
};

struct endpoint {
	const char *name;
	enum http_method_kind method;
	int takes_body;
	enum config_kind body;
	enum device_kind device;
	int (*run)(struct job *job);
	const char *failure;            /* the line around the VM's own */
};

static int run_ping(struct job *job)
{
	struct json *features = json_new_array();

	json_append(features, json_new_string("io_uring"));
	json_append(features, json_new_string("kvm"));
	job->reply = json_new_object();
	json_set_string(job->reply, "build_version", VMM_BUILD_VERSION);
	json_set_string(job->reply, "version", VMM_VERSION);
	json_set_i64(job->reply, "pid", getpid());
	json_set(job->reply, "features", features);
	return job->reply ? CCHV_OK : fault_nomem(&job->fault);
}

static int run_vmm_shutdown(struct job *job)
{
	job->empty_ok = 1;
	return vm_end(job->vm, &job->fault);
}

static int run_create(struct job *job)
{
	return vm_create(job->vm, steal(&job->body), &job->fault);
}

static int run_boot(struct job *job)
{
	return vm_boot(job->vm, &job->fault);
}

static int run_shutdown(struct job *job)
{
	return vm_shutdown(job->vm, &job->fault);
}

static int run_delete(struct job *job)
{
	return vm_delete(job->vm, &job->fault);
}

static int run_reboot(struct job *job)
{
	return vm_reboot(job->vm, &job->fault);
}

static int run_pause(struct job *job)
{
	return vm_pause(job->vm, &job->fault);
}

static int run_resume(struct job *job)
{
	return vm_resume(job->vm, &job->fault);
}

static int run_power_button(struct job *job)
{
	return vm_power_button(job->vm, &job->fault);
}

static int run_nmi(struct job *job)
{
	return vm_nmi(job->vm, &job->fault);
}

static int run_info(struct job *job)
{
	return vm_info(job->vm, &job->reply, &job->fault);
}

static int run_counters(struct job *job)
{
	return vm_counters(job->vm, &job->reply, &job->fault);
}

static int run_resize(struct job *job)
{
	return vm_resize(job->vm, job->body, &job->fault);
}

static int run_resize_zone(struct job *job)
{
	return vm_resize_zone(job->vm, job->body, &job->fault);
}

static int run_resize_disk(struct job *job)
{
	return vm_resize_disk(job->vm, job->body, &job->fault);
}

static int run_add(struct job *job)
{
	/* Descriptors belong to network devices; those of other calls are closed with the request. */
	size_t fds = job->endpoint->device == DEVICE_NET ? job->call->fd_count : 0;

	return vm_add_device(job->vm, job->endpoint->device, steal(&job->body), job->call->fds, fds, &job->reply,
	                     &job->fault);
}

static int run_remove(struct job *job)
{
	return vm_remove_device(job->vm, config_string(job->body, "id"), &job->fault);
}

static int run_snapshot(struct job *job)
{
	return vm_snapshot(job->vm, config_string(job->body, "destination_url"), &job->fault);
}

static int run_restore(struct job *job)
{
	return vm_restore(job->vm, job->body, job->call->fds, job->call->fd_count, &job->fault);
}

static int run_unsupported(struct job *job)
{
	return fault_set(&job->fault, 500, "`%s` is unsupported by cchv-qemu", job->endpoint->name);
}

#define GET(n, f, m) { .name = (n), .method = HTTP_METHOD_GET, .run = (f), .failure = (m) }
#define PUT(n, f, m) { .name = (n), .method = HTTP_METHOD_PUT, .run = (f), .failure = (m) }
#define PUT_BODY(n, b, f, m) { .name = (n), .method = HTTP_METHOD_PUT, .takes_body = 1, .body = (b), \
	.run = (f), .failure = (m) }
#define ADD(n, b, d, m) { .name = (n), .method = HTTP_METHOD_PUT, .takes_body = 1, .body = (b), .device = (d), \
	.run = run_add, .failure = (m) }
#define ANY_BODY(n, m) { .name = (n), .method = HTTP_METHOD_PUT, .takes_body = 2, \
	.run = run_unsupported, .failure = (m) }

static const struct endpoint endpoints[] = {
	GET("vmm.ping", run_ping, NULL),
	PUT("vmm.shutdown", run_vmm_shutdown, "The VMM could not shutdown"),
	PUT_BODY("vm.create", CONFIG_VM, run_create, "The VM could not be created"),
	PUT("vm.boot", run_boot, "The VM could not boot"),
	PUT("vm.shutdown", run_shutdown, "The VM could not shutdown"),
	PUT("vm.delete", run_delete, "The VM could not be deleted"),
	PUT("vm.reboot", run_reboot, "The VM could not reboot"),
	PUT("vm.pause", run_pause, "The VM could not be paused"),
	PUT("vm.resume", run_resume, "The VM could not resume"),
	PUT("vm.power-button", run_power_button, "Error triggering power button"),
	PUT("vm.nmi", run_nmi, "Error triggering NMI"),
	GET("vm.info", run_info, "The VM info is not available"),
	GET("vm.counters", run_counters, "The VM info is not available"),
	PUT_BODY("vm.resize", CONFIG_RESIZE, run_resize, "The VM could not be resized"),
	PUT_BODY("vm.resize-zone", CONFIG_RESIZE_ZONE, run_resize_zone, "The memory zone could not be resized"),
	PUT_BODY("vm.resize-disk", CONFIG_RESIZE_DISK, run_resize_disk, "The disk could not be resized"),
	ADD("vm.add-disk", CONFIG_DISK, DEVICE_DISK, "The disk could not be added to the VM"),
	ADD("vm.add-net", CONFIG_NET, DEVICE_NET, "The network device could not be added to the VM"),
	ADD("vm.add-pmem", CONFIG_PMEM, DEVICE_PMEM, "The pmem device could not be added to the VM"),
	ADD("vm.add-fs", CONFIG_FS, DEVICE_FS, "The fs could not be added to the VM"),
	ADD("vm.add-vsock", CONFIG_VSOCK, DEVICE_VSOCK, "The vsock device could not be added to the VM"),
	PUT_BODY("vm.remove-device", CONFIG_REMOVE_DEVICE, run_remove, "The device could not be removed from the VM"),
	PUT_BODY("vm.snapshot", CONFIG_SNAPSHOT, run_snapshot, "The VM could not be snapshotted"),
	PUT_BODY("vm.restore", CONFIG_RESTORE, run_restore, "The VM could not be restored"),
	ANY_BODY("vm.add-device", "The device could not be added to the VM"),
	ANY_BODY("vm.add-user-device", "The user device could not be added to the VM"),
	ANY_BODY("vm.add-generic-vhost-user", "The generic vhost-user device could not be added to the VM"),
	ANY_BODY("vm.add-vdpa", "The vDPA device could not be added to the VM"),
	ANY_BODY("vm.receive-migration", "Error receiving migration"),
	ANY_BODY("vm.send-migration", "Error dispatching the migration worker"),
};

static const struct endpoint *find_endpoint(const char *path)
{
	if (strncmp(path, ROOT, strlen(ROOT)) != 0)
		return NULL;
	path += strlen(ROOT);
	for (size_t i = 0; i < ARRAY_LEN(endpoints); i++)
		if (strcmp(endpoints[i].name, path) == 0)
			return &endpoints[i];
	return NULL;
}

/* JSON and its types; not yet what the VM makes of it. */
static int read_body(struct job *job)
{
	const struct buf *text = job->call->body;
	cleanup_json struct json *given = NULL;
	cleanup_err cchv_error *err = NULL;
	int r;

	if (!job->endpoint->takes_body != !text->len)
		return fault_set(&job->fault, 400, "Bad Request");
	if (!text->len)
		return CCHV_OK;
	if (json_parse((const char *)text->data, text->len, &given, &err) < 0)
		r = fault_set(&job->fault, 400, "%s", err ? cchv_error_message(err) : "out of memory");
	else if (job->endpoint->takes_body == 1)
		r = config_normalize(job->endpoint->body, given, &job->body, &job->fault);
	else
		r = CCHV_OK;
	return r < 0 ? fault_wrap(&job->fault, "Failed to deserialize JSON") : CCHV_OK;
}

static int run(struct job *job)
{
	int r;

	job->endpoint = find_endpoint(job->call->path);
	if (!job->endpoint)
		return fault_set(&job->fault, 404, "Not Found");
	if (job->endpoint->method != job->call->method)
		return fault_set(&job->fault, 400, "Bad Request");
	r = read_body(job);
	if (r < 0)
		return r;
	r = job->endpoint->run(job);
	/* This one is the HTTP layer's own word. */
	if (r == CCHV_OK || job->fault.status == 429)
		return r;
	if (job->endpoint->failure)
		fault_wrap(&job->fault, "%s", job->endpoint->failure);
	return fault_wrap(&job->fault, "Error from API");
}

/* The original answers these two without a body. */
static int has_no_words(const struct job *job)
{
	return job->call->method == HTTP_METHOD_PATCH ||
	       (job->endpoint && strcmp(job->endpoint->name, "vm.create") == 0 &&
	        job->call->method == HTTP_METHOD_PUT && !job->call->body->len);
}

void api_handle(struct vm *vm, struct http_call *call, int *ret_status, struct buf *body)
{
	struct job job = { .vm = vm, .call = call };
	char text[1024];
	int r = run(&job);

	log_info(vm->log, "API: %s: %s", call->path, r < 0 ? fault_text(&job.fault, text, sizeof(text)) : "done");
	if (r < 0) {
		*ret_status = job.fault.status;
		if (!(job.fault.status == 400 && has_no_words(&job)))
			r = fault_print(&job.fault, body);
	} else {
		*ret_status = job.reply || job.empty_ok ? 200 : 204;
		if (job.reply && json_print(job.reply, 0, body) < 0) {
			*ret_status = 500;
			body->len = 0;
		}
	}
	fault_clear(&job.fault);
	json_free(job.body);
	json_free(job.reply);
}
