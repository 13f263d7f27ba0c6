/* SPDX-License-Identifier: Apache-2.0 */
/* Launching: see launch.h. Enters: a record, options, an image. Leaves: a running init, or nothing at all. */
#include "launch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "session.h"

#define DEFAULT_MEMORY (2ULL << 30)
#define DEFAULT_CPUS   4

static uint64_t mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

void launch_note_time(struct launch *launch, const char *step)
{
	if (launch->timing)
		fprintf(stderr, "timing: %8.1f ms  %s\n", (double)(mono_ns() - launch->started_ns) / 1e6,
			step);
}

/* Setters fail for wrong values (checked before) or for lack of memory: one answer does for all. */
static int setters_failed(int worst, const char *what)
{
	if (worst == CCHV_ERR_NOMEM)
		return fail("out of memory");
	return worst < 0 ? fail("%s: refused (%s)", what, cchv_err_text(worst)) : 0;
}

static int worse(int a, int b)
{
	return b < a ? b : a;
}

static int add_net(cchv_vm_config *config, const struct net_option *n, unsigned int index)
{
	cchv_net_config *net = NULL;
	char id[16];
	int r = cchv_net_config_new(&net);

	snprintf(id, sizeof(id), "net%u", index);
	if (r == CCHV_OK) {
		r = worse(cchv_net_config_set_id(net, id), cchv_net_config_set_tap(net, n->tap));
		if (n->mac)
			r = worse(r, cchv_net_config_set_mac(net, n->mac));
		if (n->mtu)
			r = worse(r, cchv_net_config_set_mtu(net, n->mtu));
		if (n->address)
			r = worse(r, cchv_net_config_add_address(net, n->address));
		if (n->gateway)
			r = worse(r, cchv_net_config_add_route(net,
							       strchr(n->gateway, ':') ? "::/0" : "0.0.0.0/0",
							       n->gateway, 0));
	}
	if (r == CCHV_OK)
		r = cchv_vm_config_add_net(config, net);
	cchv_net_config_free(net);
	return setters_failed(r, "--net");
}

static int vm_config(const struct record *record, const struct run_options *o, cchv_vm_config **ret_config)
{
	uint32_t host_cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), cpus;
	cchv_vm_config *config = NULL;
	int r, status;

	cpus = o->millicpus               ? (o->millicpus + 999) / 1000
	       : host_cpus < DEFAULT_CPUS ? host_cpus
					  : DEFAULT_CPUS;
	r = cchv_vm_config_new(&config);
	if (r == CCHV_OK) {
		r = worse(cchv_vm_config_set_id(config, record->id),
			  cchv_vm_config_set_vcpus(config, cpus, cpus));
		r = worse(r, cchv_vm_config_set_memory(config, o->memory ? o->memory : DEFAULT_MEMORY));
		r = worse(r, cchv_vm_config_set_kill_with_thread(config, 1));
		r = worse(r, cchv_vm_config_set_start(config, o->start));
		if (o->volume_count)
			r = worse(r, cchv_vm_config_set_shared_memory(config, 1));
		if (o->kernel)
			r = worse(r, cchv_vm_config_set_kernel(config, o->kernel));
		if (o->initramfs)
			r = worse(r, cchv_vm_config_set_initramfs(config, o->initramfs));
		if (o->cmdline)
			r = worse(r, cchv_vm_config_set_cmdline(config, o->cmdline));
	}
	status = setters_failed(r, "VM");
	for (size_t i = 0; i < o->net_count && status == 0; i++)
		status = add_net(config, &o->nets[i], (unsigned int)i);
	if (status)
		cchv_vm_config_free(config);
	else
		*ret_config = config;
	return status;
}

static int add_volume(cchv_container_config *config, const struct mount_option *m)
{
	struct stat st;
	int kind, r;

	if (stat(m->source, &st) < 0)
		return fail("--volume '%s': %m", m->source);
	if (S_ISDIR(st.st_mode))
		kind = CCHV_MOUNT_FS;
	else if (S_ISSOCK(st.st_mode))
		kind = CCHV_MOUNT_SOCKET;
	else if (S_ISREG(st.st_mode) && m->readonly)
		kind = CCHV_MOUNT_COPY;
	else if (S_ISREG(st.st_mode))
		return fail("--volume '%s': a single file can only be shared read-only (add ':ro')",
			    m->source);
	else
		return fail("--volume '%s': neither a directory nor a file (a block device goes by --disk)",
			    m->source);
	r = cchv_container_config_add_mount(config, m->destination, kind, m->source,
					    m->readonly ? "ro" : NULL);
	if (r == CCHV_ERR_EXISTS)
		return fail("--volume '%s:%s': two mounts on one destination", m->source, m->destination);
	return setters_failed(r, "--volume");
}

static int add_disk(cchv_container_config *config, const struct disk_option *d)
{
	int r;

	if (d->create_bytes && access(d->source, F_OK) < 0) {
		r = disk_make(d->source, d->create_bytes);
		if (r)
			return r;
	}
	r = cchv_container_config_add_mount(config, d->destination, CCHV_MOUNT_VOLUME, d->source,
					    d->readonly ? "ro" : NULL);
	if (r == CCHV_ERR_EXISTS)
		return fail("--disk '%s:%s': two mounts on one destination", d->source, d->destination);
	return setters_failed(r, "--disk");
}

static int set_words(cchv_container_config *config, const struct run_options *o)
{
	int r = CCHV_OK;

	if (o->has_entrypoint) {
		r = cchv_container_config_clear_args(config);
		if (*o->entrypoint)
			r = worse(r, cchv_container_config_add_arg(config, o->entrypoint));
	} else if (o->command_count) {
		r = cchv_container_config_clear_cmd(config);
	}
	for (int i = 0; i < o->command_count; i++)
		r = worse(r, cchv_container_config_add_arg(config, o->command[i]));
	for (size_t i = 0; i < o->env.count; i++) {
		char *name = xstrdup(o->env.items[i]), *value = strchr(name, '=');

		*value++ = '\0';
		r = worse(r, cchv_container_config_set_env(config, name, value));
		free(name);
	}
	return r;
}

/* What the container writes lies beside its record, from one start to the next. */
static int set_scratch(cchv_container_config *config, cchv_ctx *ctx, const struct record *record)
{
	char *path = record_path(ctx, record->id, "upper.img");
	int r = cchv_container_config_set_scratch_path(config, path);

	free(path);
	return r;
}

static int container_config(cchv_ctx *ctx, const struct record *record, const struct run_options *o,
			    cchv_image *image, cchv_container_config **ret_config)
{
	cchv_container_config *config = NULL;
	cchv_error *err = NULL;
	uint32_t rows, cols;
	int r, status;

	if (cchv_container_config_new_from_image(record->id, image, &config, &err) < 0)
		return fail_error(err, "image '%s'", o->image);
	r = set_words(config, o);
	r = worse(r, cchv_container_config_set_tty(config, o->tty));
	session_get_size(&rows, &cols);
	if (o->tty && rows)
		r = worse(r, cchv_container_config_set_console_size(config, rows, cols));
	r = worse(r, cchv_container_config_set_memory_limit(config, o->memory));
	r = worse(r, cchv_container_config_set_cpu_limit(config, o->millicpus));
	r = worse(r, cchv_container_config_set_pids_limit(config, o->pids));
	r = worse(r, cchv_container_config_set_readonly(config, o->readonly));
	r = worse(r, cchv_container_config_set_upper(config, o->readonly ? CCHV_UPPER_NONE : CCHV_UPPER_DISK,
						     o->scratch));
	r = worse(r, cchv_container_config_set_hostname(config, o->hostname ? o->hostname : record->id));
	if (!o->readonly)
		r = worse(r, set_scratch(config, ctx, record));
	if (o->workdir)
		r = worse(r, cchv_container_config_set_cwd(config, o->workdir));
	if (o->user)
		r = worse(r, cchv_container_config_set_user(config, o->user));
	status = setters_failed(r, "container");
	for (size_t i = 0; i < o->volume_count && status == 0; i++)
		status = add_volume(config, &o->volumes[i]);
	for (size_t i = 0; i < o->disk_count && status == 0; i++)
		status = add_disk(config, &o->disks[i]);
	for (size_t i = 0; i < o->tmpfs_count && status == 0; i++)
		status = setters_failed(cchv_container_config_add_mount(config, o->tmpfs[i].destination,
									CCHV_MOUNT_TMPFS, NULL,
									o->tmpfs[i].options),
					"--tmpfs");
	if (status)
		cchv_container_config_free(config);
	else
		*ret_config = config;
	return status;
}

/* The boot failed through the fault of the template that the VM started from: the next attempt is cold. */
static int template_was_bad(const struct launch *l)
{
	const char *why = NULL;

	return cchv_vm_get_start(l->vm, &why) == CCHV_START_TEMPLATE && why;
}

static int create_and_boot(struct launch *l, cchv_vm_config *vm_settings, int start, cchv_container_config *settings)
{
	cchv_error *err = NULL;
	int r;

	if (cchv_vm_create(l->ctx, vm_settings, CALL_MS, &l->vm, &err) < 0)
		return fail_error(err, "container '%s'", l->record->name);
	launch_note_time(l, "VMM up");
	if (cchv_container_create(l->vm, settings, CALL_MS, &l->container, &err) < 0)
		return fail_error(err, "container '%s'", l->record->name);
	launch_note_time(l, "disks ready");
	r = cchv_vm_boot(l->vm, BOOT_MS, &err);
	if (r < 0 && start == CCHV_START_AUTO && template_was_bad(l)) {
		warn("container '%s': %s; starting cold", l->record->name, cchv_error_message(err));
		cchv_error_free(err);
		launch_end(l);
		return create_and_boot(l, vm_settings, CCHV_START_COLD, settings);
	}
	if (r < 0) {
		/* What the guest found wrong with the container (a missing user, directory) is the user's
		 * business. */
		int status =
			cchv_error_origin(err) == CCHV_ORIGIN_GUEST ? start_failure_status(err) : EXIT_OURS;

		fail_error(err, "container '%s'", l->record->name);
		return status;
	}
	launch_note_time(l, "agent ready, container created");
	return 0;
}

int launch_prepare(cchv_ctx *ctx, struct record *record, const struct run_options *o, cchv_image *image,
		   struct launch *ret)
{
	struct launch l = { .ctx = ctx, .record = record, .started_ns = mono_ns(), .timing = o->timing };
	cchv_container_config *settings = NULL;
	cchv_vm_config *vm_settings = NULL;
	int status;

	status = record_forget_end(ctx, record);
	if (status == 0)
		status = vm_config(record, o, &vm_settings);
	if (status == 0)
		status = container_config(ctx, record, o, image, &settings);
	if (status == 0)
		status = create_and_boot(&l, vm_settings, o->start, settings);
	cchv_vm_config_free(vm_settings);
	cchv_container_config_free(settings);
	if (status)
		launch_end(&l);
	else
		*ret = l;
	return status;
}

int launch_set_logs(cchv_ctx *ctx, const struct record *record, const struct run_options *o, cchv_stdio_config *stdio)
{
	char *out = record_path(ctx, record->id, "stdout.log"), *errors = record_path(ctx, record->id, "stderr.log");
	int r = cchv_stdio_config_set_log(stdio, CCHV_STDOUT, out, LOG_MAX_BYTES);

	if (!o->tty)
		r = worse(r, cchv_stdio_config_set_log(stdio, CCHV_STDERR, errors, LOG_MAX_BYTES));
	free(out);
	free(errors);
	return setters_failed(r, "log");
}

int launch_go(struct launch *l, const struct run_options *o, cchv_stdio_config *stdio)
{
	cchv_error *err = NULL;
	int status = launch_set_logs(l->ctx, l->record, o, stdio);

	if (status)
		return status;
	l->record->started_ns = now_ns();
	status = record_save(l->ctx, l->record);
	if (status)
		return status;
	if (cchv_container_start(l->container, stdio, CALL_MS, &l->init, &err) < 0) {
		status = start_failure_status(err);
		l->record->started_ns = 0;
		record_save(l->ctx, l->record);
		fail_error(err, "container '%s'", l->record->name);
	}
	launch_note_time(l, "process runs");
	return status;
}

void launch_end(struct launch *l)
{
	cchv_error *err = NULL;

	if (l->vm && cchv_vm_get_state(l->vm) == CCHV_VM_RUNNING &&
	    cchv_vm_shutdown(l->vm, SHUTDOWN_MS, &err) < 0) {
		warn("container '%s': it did not end cleanly: %s", l->record->name, cchv_error_message(err));
		cchv_error_free(err);
	}
	launch_note_time(l, "VM ended");
	cchv_exec_free(l->init);
	cchv_container_free(l->container);
	cchv_vm_free(l->vm);
	l->init = NULL;
	l->container = NULL;
	l->vm = NULL;
}
