/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the VMM: see choose.h. Enters: what the host has. Leaves: a path and a reason. */
#include "vmm/choose.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"

static const char advice[] = "install cloud-hypervisor, or build cchv-qemu and put it on PATH";

void vmm_choice_free(struct vmm_choice *choice)
{
	free(choice->path);
	free(choice->reason);
	*choice = (struct vmm_choice){ 0 };
}

const char *vmm_kind_name(int kind)
{
	return kind == VMM_CCHV_QEMU ? "cchv-qemu" : "cloud-hypervisor";
}

int vmm_cpuinfo_has_virtualisation(const char *text, size_t len)
{
	const char *end = text + len;

	for (const char *line = text; line < end;) {
		const char *eol = memchr(line, '\n', (size_t)(end - line));

		if (!eol)
			eol = end;
		if (eol - line > 5 && memcmp(line, "flags", 5) == 0) {
			for (const char *p = line; p + 4 <= eol; p++) {
				if ((memcmp(p, " vmx", 4) == 0 || memcmp(p, " svm", 4) == 0) &&
				    (p + 4 == eol || p[4] == ' '))
					return 1;
			}
		}
		line = eol + 1;
	}
	return 0;
}

static int set_reason(char **ret_reason, int works, char *reason, cchv_error **err)
{
	if (!reason)
		return err_nomem(err);
	*ret_reason = reason;
	return works;
}

int vmm_kvm_works(char **ret_reason, cchv_error **err)
{
	cleanup_close int kvm = -1;
	int version;

	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (kvm < 0)
		return set_reason(ret_reason, 0, mem_printf("/dev/kvm cannot be opened: %s", strerror(errno)), err);
	version = ioctl(kvm, KVM_GET_API_VERSION, 0);
	if (version < 0)
		return set_reason(ret_reason, 0, mem_printf("/dev/kvm is not KVM: %s", strerror(errno)), err);
	if (version != KVM_API_VERSION)
		return set_reason(ret_reason, 0,
		                  mem_printf("/dev/kvm has API version %d, not %d", version, KVM_API_VERSION), err);
	return set_reason(ret_reason, 1, mem_strdup("/dev/kvm works"), err);
}

int vmm_cpu_works(char **ret_reason, cchv_error **err)
{
	/* cpuinfo repeats itself for each CPU: the first ones will do. */
	cleanup_buf struct buf text = BUF_INIT(65536);
	cleanup_close int info = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);

	while (info >= 0 && text.len < text.max && buf_read_fd(&text, info, text.max - text.len) > 0)
		;
	if (!vmm_cpuinfo_has_virtualisation((const char *)text.data, text.len))
		return set_reason(ret_reason, 0,
		                  mem_strdup("the CPU has neither vmx nor svm (a paravirtual /dev/kvm does not do)"),
		                  err);
	return set_reason(ret_reason, 1, mem_strdup("the CPU has vmx or svm"), err);
}

int vmm_hardware_works(char **ret_reason, cchv_error **err)
{
	cleanup_free char *kvm = NULL;
	int works = vmm_kvm_works(&kvm, err);

	if (works > 0)
		return vmm_cpu_works(ret_reason, err);
	if (works == 0)
		*ret_reason = steal(&kvm);
	return works;
}

static int choose_named(const char *wanted, struct vmm_choice *ret_choice, cchv_error **err)
{
	struct vmm_choice c = { .kind = VMM_CLOUD_HYPERVISOR };
	const char *name;
	int r;

	if (strcmp(wanted, "cchv-qemu") == 0)
		r = vmm_find_cchv_qemu(&c.path, err);
	else
		r = path_find_program(wanted, &c.path, err);
	if (r < 0)
		return err_prefix(err, r, "VMM");
	name = strrchr(c.path, '/');
	name = name ? name + 1 : c.path;
	if (strncmp(name, "cchv-qemu", 9) == 0)
		c.kind = VMM_CCHV_QEMU;
	c.reason = mem_printf("'%s' was asked for", wanted);
	if (!c.reason) {
		vmm_choice_free(&c);
		return err_nomem(err);
	}
	*ret_choice = c;
	return CCHV_OK;
}

static int choose_auto(struct vmm_choice *ret_choice, cchv_error **err)
{
	cleanup_free char *hardware = NULL, *real = NULL;
	struct vmm_choice c = { 0 };
	int works, r;

	works = vmm_hardware_works(&hardware, err);
	if (works < 0)
		return works;
	r = path_find_program("cloud-hypervisor", &real, NULL);
	if (r == CCHV_ERR_NOMEM)
		return err_nomem(err);
	if (works && real) {
		c.kind = VMM_CLOUD_HYPERVISOR;
		c.path = steal(&real);
		c.reason = mem_printf("cloud-hypervisor is on PATH, and %s", hardware);
	} else {
		r = vmm_find_cchv_qemu(&c.path, NULL);
		if (r == CCHV_ERR_NOMEM)
			return err_nomem(err);
		if (r < 0)
			return err_set(err, CCHV_ERR_NOT_FOUND, 0, "no VMM: %s, and no cchv-qemu was found: %s",
			               works ? "cloud-hypervisor is not on PATH" : hardware, advice);
		c.kind = VMM_CCHV_QEMU;
		c.reason = works ? mem_strdup("cloud-hypervisor is not on PATH")
				 : mem_printf("no hardware virtualisation: %s", hardware);
	}
	if (!c.reason) {
		vmm_choice_free(&c);
		return err_nomem(err);
	}
	*ret_choice = c;
	return CCHV_OK;
}

int vmm_choose(const char *wanted, struct vmm_choice *ret_choice, cchv_error **err)
{
	return strcmp(wanted, "auto") == 0 ? choose_auto(ret_choice, err) : choose_named(wanted, ret_choice, err);
}
