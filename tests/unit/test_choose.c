/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/choose.h"

#include "base/mem.h"

#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>

static void put(const char *directory, const char *name, mode_t mode)
{
	char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, mode);
	CHECK(fd >= 0);
	close(fd);
}

static int has(const char *text)
{
	return vmm_cpuinfo_has_virtualisation(text, strlen(text));
}

TEST(flags_of_the_cpu)
{
	CHECK(has("processor\t: 0\nflags\t\t: fpu vmx sse\n"));
	CHECK(has("flags\t\t: fpu svm"));
	CHECK(!has("flags\t\t: fpu vmxx svmlock\n"));
	CHECK(!has("model name\t: an svm vmx cpu\nflags\t\t: fpu\n"));
	CHECK(!has("vmx flags\t: vnmi\nflags : a\n"));
	CHECK(!has(""));
}

TEST(a_reason_is_always_given)
{
	char *reason = NULL;
	int works = vmm_hardware_works(&reason, NULL);

	CHECK(works == 0 || works == 1);
	CHECK(reason && *reason);
	free(reason);
}

TEST(auto_takes_what_the_host_can_run)
{
	struct vmm_choice c = { 0 };
	char *reason = NULL;
	int works;

	put(test_dir(), "cloud-hypervisor", 0755);
	put(test_dir(), "cchv-qemu", 0755);
	CHECK_INT(setenv("PATH", test_dir(), 1), 0);
	works = vmm_hardware_works(&reason, NULL);
	free(reason);
	CHECK_INT(vmm_choose("auto", &c, NULL), CCHV_OK);
	CHECK_INT(c.kind, works ? VMM_CLOUD_HYPERVISOR : VMM_CCHV_QEMU);
	CHECK(*c.reason);
	vmm_choice_free(&c);
	CHECK_INT(vmm_choose("cloud-hypervisor", &c, NULL), CCHV_OK);
	CHECK_INT(c.kind, VMM_CLOUD_HYPERVISOR);
	CHECK_CONTAINS(c.reason, "asked for");
	vmm_choice_free(&c);
}

TEST(a_missing_vmm_is_named)
{
	struct vmm_choice c = { 0 };
	cchv_error *err = NULL;

	CHECK_INT(vmm_choose("no-such-vmm", &c, &err), CCHV_ERR_NOT_FOUND);
	CHECK_CONTAINS(cchv_error_message(err), "no-such-vmm");
	cchv_error_free(steal(&err));
	CHECK_INT(vmm_choose("/nonexistent/cchv-qemu", &c, &err), CCHV_ERR_NOT_FOUND);
	cchv_error_free(err);
}

TEST(kernels_of_the_state_directory_go_first)
{
	char kernels[500], want[600], *path = NULL;

	snprintf(kernels, sizeof(kernels), "%s/kernels", test_dir());
	CHECK_INT(mkdir(kernels, 0700), 0);
	put(kernels, "vmlinuz", 0600);
	snprintf(want, sizeof(want), "%s/vmlinuz", kernels);
	CHECK_INT(vmm_find_kernel(test_dir(), &path, NULL), 0);
	CHECK_STR(path, want);
	free(path);
	put(kernels, "vmlinux", 0600);
	snprintf(want, sizeof(want), "%s/vmlinux", kernels);
	CHECK_INT(vmm_find_kernel(test_dir(), &path, NULL), 0);
	CHECK_STR(path, want);
	free(path);
	put(kernels, "initramfs.img", 0600);
	put(test_dir(), "initramfs.img", 0600);
	snprintf(want, sizeof(want), "%s/initramfs.img", kernels);
	CHECK_INT(vmm_find_initramfs(test_dir(), NULL, &path, NULL), 0);
	CHECK_STR(path, want);
	free(path);
	/* The one beside the kernel has its modules. */
	snprintf(want, sizeof(want), "%s/mine", test_dir());
	CHECK_INT(vmm_find_initramfs(test_dir(), want, &path, NULL), 0);
	snprintf(want, sizeof(want), "%s/initramfs.img", test_dir());
	CHECK_STR(path, want);
	free(path);
}
