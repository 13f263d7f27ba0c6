/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting from a template: see vm_restore.h. Enters: a template, the VM's settings. Leaves: a VMM with a guest that
 * stands still, has the right size and the VM's own devices, and does not know yet who it is.
 *
 * The run directory gets what the snapshot names by relative paths: links to the template's files, which are only read,
 * and a config of its own, in which the memory is private: pages that are written become the clone's. A VM whose memory
 * other processes share (shared directories) gets a copy of it instead.
 */
#include "vm_restore.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "ctx.h"
#include "template_key.h"
#include "template_note.h"
#include "vm_api.h"
#include "vm_boot.h"
#include "vm_config.h"
#include "vm_process.h"
#include "vm_record.h"

#define DIRECTORY "restore" /* below the run directory */

/* ---- which start ---- */

static int go_cold(cchv_vm *vm, const cchv_vm_config *asked, int code, const char *why, cchv_error **err)
{
	if (asked->start == CCHV_START_TEMPLATE)
		return err_set(err, code, 0, "VM '%s' cannot start from a template: %s", vm->id, why);
	return mem_replace_string(&vm->why_cold, why) < 0 ? err_nomem(err) : CCHV_OK;
}

static int any_template(const cchv_ctx *ctx)
{
	cleanup_free char *path = mem_printf("%s/templates", ctx->state_dir);

	/* Where nobody has ever built one, a key is not worth its time. */
	return path && access(path, F_OK) == 0;
}

/* Its key is left in the VM. */
static int find_template(cchv_vm *vm, struct template **ret_template, cchv_error **err)
{
	const struct template_parts parts = {
		.vmm = vm->vmm->choice.path, .vmm_kind = vm->vmm->choice.kind,
		.kernel = vm->config->kernel, .initramfs = vm->config->initramfs,
	};
	char key[SHA256_HEX_SIZE];
	int r;

	if (!vm->ctx->template_building && !any_template(vm->ctx))
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "there are no templates");
	r = template_key(&parts, key, err);
	if (r < 0)
		return r;
	if (mem_replace_string(&vm->template_key, key) < 0)
		return err_nomem(err);
	return template_open(vm->ctx, key, ret_template, err);
}

/* There is none, and perhaps there was a reason not long ago. */
static int none_yet(cchv_vm *vm, const cchv_vm_config *asked, cchv_error **err)
{
	cleanup_free char *failed = vm->template_key ? template_note_read(vm->ctx, vm->template_key) : NULL;
	cleanup_free char *why = NULL;

	vm->template_wanted = vm->ctx->template_building && vm->template_key && !failed;
	why = mem_printf("there is none for this kernel, VMM and host%s%s",
	                 failed ? ": " : vm->template_wanted ? " yet: it is built when this VM is up" : " yet",
	                 failed ? failed : "");
	return why ? go_cold(vm, asked, CCHV_ERR_NOT_FOUND, why, err) : err_nomem(err);
}

int vm_choose_start(cchv_vm *vm, const cchv_vm_config *asked, const char *why_cold, struct template **ret_template,
                    cchv_error **err)
{
	cleanup_err cchv_error *error = NULL;
	cleanup_free char *failed = NULL;
	const char *why;
	int r;

	vm->start = CCHV_START_COLD;
	if (why_cold)
		return go_cold(vm, asked, CCHV_ERR_UNSUPPORTED, why_cold, err);
	if (asked->start == CCHV_START_COLD || asked->base_file)
		return CCHV_OK;
	why = template_why_not(asked);
	if (why)
		return go_cold(vm, asked, CCHV_ERR_UNSUPPORTED, why, err);
	r = find_template(vm, ret_template, &error);
	if (r == CCHV_ERR_NOMEM)
		return err_move(err, &error, r);
	if (r == CCHV_ERR_NOT_FOUND)
		return none_yet(vm, asked, err);
	if (r < 0)
		return go_cold(vm, asked, r, cchv_error_message(error), err);
	vm->start = CCHV_START_TEMPLATE;
	failed = template_note_read(vm->ctx, vm->template_key);
	vm->template_wanted = vm->ctx->template_building && template_is_old(*ret_template) && !failed;
	return CCHV_OK;
}

/* ---- the files ---- */

/* The snapshot's config, with what is this clone's own. */
static int edit_config(struct json *config, int shared, cchv_error **err)
{
	struct json *memory = json_edit(config, "memory", JSON_OBJECT);
	struct json *zone = memory ? json_edit_at(json_edit(memory, "zones", JSON_ARRAY), 0) : NULL;

	if (!zone)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "its config has no memory zone");
	json_set_bool(memory, "shared", shared);
	json_set_bool(zone, "shared", shared);
	return CCHV_OK;
}

static int write_config(int directory, const struct template *template, int shared, cchv_error **err)
{
	cleanup_buf struct buf out = BUF_INIT(TEMPLATE_CONFIG_MAX);
	cleanup_json struct json *config = NULL;
	cleanup_close int fd = -1;
	int r = template_read_config(template->dir, &config, err);

	if (r == CCHV_OK)
		r = edit_config(config, shared, err);
	if (r < 0)
		return r;
	if (json_print(config, 0, &out) < 0)
		return err_nomem(err);
	fd = openat(directory, TEMPLATE_CONFIG, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || fd_pwrite_full(fd, out.data, out.len, 0) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "write its config");
	return CCHV_OK;
}

static int link_to(const char *target, const char *name, int directory, cchv_error **err)
{
	if (symlinkat(target, directory, name) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "link to '%s'", target);
	return CCHV_OK;
}

static int link_file(const struct template *template, const char *name, int directory, cchv_error **err)
{
	cleanup_free char *target = mem_printf("%s/%s", template->dir, name);

	return target ? link_to(target, name, directory, err) : err_nomem(err);
}

/* What the VMM wrote beside its config, whatever that is. */
static int is_of_snapshot(const char *name)
{
	static const char *const others[] = { ".", "..", TEMPLATE_RAM, TEMPLATE_CONFIG, TEMPLATE_INFO };

	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (strcmp(others[i], name) == 0)
			return 0;
	return 1;
}

static int link_snapshot(const struct template *template, int directory, cchv_error **err)
{
	DIR *names = opendir(template->dir);
	struct dirent *entry;
	int r = CCHV_OK;

	if (!names)
		return err_set(err, err_code_of_errno(errno), errno, "template '%s'", template->dir);
	while (r == CCHV_OK && (entry = readdir(names)))
		if (is_of_snapshot(entry->d_name))
			r = link_file(template, entry->d_name, directory, err);
	closedir(names);
	return r;
}

static int link_ram(cchv_vm *vm, const struct template *template, struct template_copy *copy, cchv_error **err)
{
	int r;

	if (!vm_config_shared(vm->config))
		return link_file(template, TEMPLATE_RAM, vm->record->dir_fd, err);
	r = template_copy_ram(vm->ctx, template, vm->id, copy, err);
	return r < 0 ? r : link_to(copy->path, TEMPLATE_RAM, vm->record->dir_fd, err);
}

static int lay_out(cchv_vm *vm, const struct template *template, struct template_copy *copy, cchv_error **err)
{
	cleanup_close int directory = -1;
	int r;

	if (mkdirat(vm->record->dir_fd, DIRECTORY, 0700) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "run directory %s", vm->run_dir);
	directory = openat(vm->record->dir_fd, DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (directory < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "run directory %s", vm->run_dir);
	r = write_config(directory, template, vm_config_shared(vm->config), err);
	if (r == CCHV_OK)
		r = link_snapshot(template, directory, err);
	return r < 0 ? r : link_ram(vm, template, copy, err);
}

/* ---- the VMM ---- */

/*
 * The state in a snapshot is one program's; a program that was replaced makes another key, this is for those that
 * hide it.
 */
static int check_version(const cchv_vm *vm, const struct template *template, cchv_error **err)
{
	const char *version = json_as_string(json_find(template->info, "vmm.version"));

	if (version && strcmp(version, vm->vmm->version) == 0)
		return CCHV_OK;
	return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "it was made by version %s of the VMM, not %s",
	               version ? version : "?", vm->vmm->version);
}

int vm_restore(cchv_vm *vm, const struct template *template, uint64_t deadline, cchv_error **err)
{
	struct template_copy copy = TEMPLATE_COPY_INIT;
	struct json *body;
	int r = check_version(vm, template, err);

	if (r == CCHV_OK)
		r = lay_out(vm, template, &copy, err);
	if (r == CCHV_OK) {
		record_set(vm->record, "template", json_copy(json_get(template->info, "key")));
		body = json_new_object();
		json_set_string(body, "source_url", "file://" DIRECTORY);
		r = vm_api(vm, "PUT", "vm.restore", body, API_BOOT_MS, deadline, NULL, err);
	}
	if (r == CCHV_OK)
		template_count_start(template);
	/* The VMM has it open now, and nobody else needs to find it. */
	template_copy_drop(&copy);
	return r;
}

static int plug_disks(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	const struct vmm_list *disks = &vm->config->disks, *pmems = &vm->config->pmems;
	int r = CCHV_OK;

	for (size_t i = 0; i < disks->count && r == CCHV_OK; i++) {
		cleanup_free char *id = NULL;

		r = vm_plug_disk(vm, disks->items[i], deadline, &id, err);
	}
	for (size_t i = 0; i < pmems->count && r == CCHV_OK; i++) {
		cleanup_free char *id = NULL;

		r = vm_plug_pmem(vm, pmems->items[i], deadline, &id, err);
	}
	return r;
}

int vm_restore_finish(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	uint32_t vcpus = vm_config_vcpus(vm->config);
	uint64_t memory = vm_config_vm_memory(vm_config_memory(vm->config));
	const struct vmm_list *nets = &vm->config->nets, *fss = &vm->config->fss;
	int r;

	/* Memory before the devices: pmem takes of it what describes its pages. */
	r = vm_tell_size(vm, vcpus > 1 ? vcpus : 0, memory > CCHV_MEMORY_BASE_BYTES ? memory : 0, deadline, err);
	if (r == CCHV_OK)
		r = plug_disks(vm, deadline, err);
	for (size_t i = 0; i < nets->count && r == CCHV_OK; i++) {
		cleanup_free char *id = NULL;

		r = vm_plug_net(vm, nets->items[i], deadline, &id, err);
	}
	for (size_t i = 0; i < fss->count && r == CCHV_OK; i++) {
		cleanup_free char *id = NULL;

		r = vm_plug_fs(vm, fss->items[i], deadline, &id, err);
	}
	return r;
}
