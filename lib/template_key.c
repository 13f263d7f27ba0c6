/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of templates: see template_key.h. Enters: settings, files, the processor, the host's kernel. Leaves: a hash of
 * them. Files are told apart by their inodes and times, not by their contents: a start has no time to read a kernel,
 * and one template too many costs a build, nothing else.
 */
#include "template_key.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "vm_config.h"
#include "vmm/choose.h"
#include "vmm/config.h"

/* Another number here makes other templates: for changes of the layout that nothing else in the key shows. */
#define FORMAT 2
#define CPUINFO_MAX 16384

const char *template_why_not(const cchv_vm_config *config)
{
	cleanup_vm_config cchv_vm_config *usual = NULL;

	if (config->kernel)
		return "it has a kernel of its own";
	if (config->initramfs)
		return "it has an initramfs of its own";
	if (config->cmdline)
		return "it has words of its own on the kernel's command line";
	if (config->merge)
		return "it has JSON of its own for the VMM";
	if (config->set_ids)
		return "its VMM runs as another user, who cannot read the template";
	if (vm_config_max_vcpus(config) > TEMPLATE_MAX_VCPUS)
		return "it may have more vCPUs than a template";
	if (template_config_new(&usual, NULL) < 0)
		return "memory is short";
	if (vm_config_vm_memory_max(config) > vm_config_vm_memory_max(usual))
		return "it may have more memory than a template";
	return NULL;
}

int template_config_new(cchv_vm_config **ret_config, cchv_error **err)
{
	cleanup_vm_config cchv_vm_config *config = NULL;
	int r = cchv_vm_config_new(&config);

	/* So little that the base zone is enough; the maximum is the host's memory. */
	if (r == CCHV_OK)
		r = cchv_vm_config_set_memory(config, 1U << 20);
	if (r == CCHV_OK)
		r = cchv_vm_config_set_vcpus(config, 1, TEMPLATE_MAX_VCPUS);
	if (r < 0)
		return err_set(err, r, 0, "template: its settings");
	*ret_config = steal(&config);
	return CCHV_OK;
}

static int add_file(struct buf *text, const char *what, const char *path, cchv_error **err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "template: %s '%s'", what, path);
	if (buf_printf(text, "%s %s %llu %llu %lld.%09ld %lld.%09ld\n", what, path, (unsigned long long)st.st_ino,
	               (unsigned long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
	               (long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec) < 0)
		return err_nomem(err);
	return CCHV_OK;
}

/*
 * Of the first processor; what differs between the processors of one machine, or from one moment to the next, is left
 * out.
 */
int template_describe_cpu(const char *cpuinfo, struct buf *out)
{
	static const char *const passing[] = {
		"processor", "cpu MHz", "physical id", "siblings", "core id", "cpu cores", "apicid",
		"initial apicid", "bogomips", "BogoMIPS",
	};
	int r = CCHV_OK;

	for (const char *line = cpuinfo; r == CCHV_OK && *line && *line != '\n';) {
		size_t len = strcspn(line, "\n"), key = strcspn(line, "\t:\n");
		int passes = 0;

		for (size_t i = 0; i < ARRAY_LEN(passing); i++)
			passes |= strlen(passing[i]) == key && strncmp(passing[i], line, key) == 0;
		if (!passes)
			r = buf_printf(out, "%.*s\n", (int)len, line);
		line += len;
		line += *line == '\n';
	}
	return r;
}

static int add_host(struct buf *text, cchv_error **err)
{
	cleanup_buf struct buf cpuinfo = BUF_INIT(CPUINFO_MAX);
	cleanup_close int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
	struct utsname host;
	const char *all;
	ssize_t n;

	/* The first processors are enough. */
	do
		n = fd < 0 || cpuinfo.len == cpuinfo.max ? 0 : buf_read_fd(&cpuinfo, fd, cpuinfo.max - cpuinfo.len);
	while (n > 0);
	if (fd < 0 || (n < 0 && errno != ENOMEM) || uname(&host) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "template: what the host is");
	all = n < 0 ? NULL : buf_string(&cpuinfo);
	if (!all)
		return err_nomem(err);
	if (buf_printf(text, "host %s %s\n", host.release, host.version) < 0 || template_describe_cpu(all, text) < 0)
		return err_nomem(err);
	return CCHV_OK;
}

static int add_settings(struct buf *text, cchv_error **err)
{
	cleanup_vm_config cchv_vm_config *config = NULL;
	cleanup_json struct json *body = NULL;
	int r = template_config_new(&config, err);

	if (r < 0)
		return r;
	body = vm_config_base_json(config);
	if (!body || json_print(body, 0, text) < 0)
		return err_nomem(err);
	return CCHV_OK;
}

/* cchv-qemu's snapshots are QEMU's. */
static int add_qemu(struct buf *text, cchv_error **err)
{
	cleanup_free char *path = NULL;
	int r = path_find_program("qemu-system-x86_64", &path, err);

	return r < 0 ? r : add_file(text, "qemu", path, err);
}

int template_key(const struct template_parts *parts, char ret_key[SHA256_HEX_SIZE], cchv_error **err)
{
	cleanup_buf struct buf text = BUF_INIT(1U << 20);
	struct sha256 hash;
	int r = buf_printf(&text, "format %d\n", FORMAT) < 0 ? err_nomem(err) : CCHV_OK;

	if (r == CCHV_OK)
		r = add_file(&text, "vmm", parts->vmm, err);
	if (r == CCHV_OK && parts->vmm_kind == VMM_CCHV_QEMU)
		r = add_qemu(&text, err);
	if (r == CCHV_OK)
		r = add_file(&text, "kernel", parts->kernel, err);
	if (r == CCHV_OK)
		r = add_file(&text, "initramfs", parts->initramfs, err);
	if (r == CCHV_OK)
		r = add_settings(&text, err);
	if (r == CCHV_OK)
		r = add_host(&text, err);
	if (r < 0)
		return r;
	sha256_init(&hash);
	sha256_update(&hash, text.data, text.len);
	sha256_final_hex(&hash, ret_key);
	return CCHV_OK;
}
