/* SPDX-License-Identifier: Apache-2.0 */
/* Which VMM, which kernel, which initramfs: where they are looked for, and why one was taken. */
#ifndef VMM_CHOOSE_H
#define VMM_CHOOSE_H

#include "base/error.h"

enum vmm_kind { VMM_CLOUD_HYPERVISOR = 1, VMM_CCHV_QEMU = 2 };

struct vmm_choice {
	int kind;
	char *path;
	char *reason;   /* one line for people */
};

/*
 * wanted: "auto", a name on PATH or a path. auto: cloud-hypervisor where it is on PATH and hardware virtualisation
 * works, else cchv-qemu. CCHV_ERR_NOT_FOUND says what to do.
 */
int vmm_choose(const char *wanted, struct vmm_choice *ret_choice, cchv_error **err);
void vmm_choice_free(struct vmm_choice *choice);
const char *vmm_kind_name(int kind);   /* "cloud-hypervisor", "cchv-qemu" */

/*
 * 1: hardware virtualisation works, 0: it does not. *ret_reason (memory of the caller's) says why, in either case.
 * A paravirtual /dev/kvm, without vmx or svm in the CPU's flags, does not count: ordinary kernels die on it.
 */
int vmm_hardware_works(char **ret_reason, cchv_error **err);
/* Its two halves: /dev/kvm is there, may be opened and is KVM; the CPU has the flag. */
int vmm_kvm_works(char **ret_reason, cchv_error **err);
int vmm_cpu_works(char **ret_reason, cchv_error **err);
/* Has the text of /proc/cpuinfo the flag vmx or svm? */
int vmm_cpuinfo_has_virtualisation(const char *text, size_t len);

/*
 * In the build tree that the library runs from, in the bin directory that it was installed with ("../bin" of its own,
 * or "../../bin" of one like lib/x86_64-linux-gnu), or on PATH. CCHV_ERR_NOT_FOUND.
 */
int vmm_find_cchv_qemu(char **ret_path, cchv_error **err);
/* The command, in the same places. */
int vmm_find_cchv(char **ret_path, cchv_error **err);

/*
 * The default kernel ("vmlinux" before "vmlinuz") and initramfs ("initramfs.img"), in <state_dir>/kernels, the build
 * tree, the directory cchv beside the library (where "meson install" puts them), /usr/lib/cchv, /usr/share/cchv. An
 * initramfs beside the kernel that is used goes before others, since it has its modules. kernel may be NULL.
 * CCHV_ERR_NOT_FOUND says where was looked.
 */
int vmm_find_kernel(const char *state_dir, char **ret_path, cchv_error **err);
int vmm_find_initramfs(const char *state_dir, const char *kernel, char **ret_path, cchv_error **err);

#endif
