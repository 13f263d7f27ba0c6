/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of a VM that the caller asked for, and the rooms that look after them. */
#ifndef LIB_VM_DEVICE_H
#define LIB_VM_DEVICE_H

#include "device.h"
#include "vm.h"

enum vm_device_kind { DEVICE_DISK = 1, DEVICE_NET = 2, DEVICE_PMEM = 3, DEVICE_FS = 4 };

struct virtiofsd;

struct vm_device {
	struct vm_device *next;
	int kind;
	char *id;
	char *what;                     /* path, tap or tag, for people */
	int slot;                       /* on the PCI bus, 0: unknown */
	char address[VM_PCI_ADDRESS_SIZE]; /* as the VMM reported it; "" before */
	int in_vmm;                     /* the VMM has it */
	int removing;                   /* the guest was asked to let go */
	int removed;                    /* it has */
	int users;                      /* containers */
	int lock_fd;                    /* the lock on a disk's file, -1: none */
	struct virtiofsd *daemon;       /* of a shared directory */
	cchv_net_config *net;           /* what the agent is to set up */
	int net_is_up;
	char *guest_name;
};

const char *vm_device_kind_name(int kind);
struct vm_device *vm_device_find(const cchv_vm *vm, const char *id);
/* A new one at the end of the list, with an id (the wanted one or a generated one) and a free slot. */
int vm_device_add(cchv_vm *vm, int kind, const char *wanted_id, const char *what, struct vm_device **ret_device,
                  cchv_error **err);
/* Take it out and let go of what it holds. */
void vm_device_drop(cchv_vm *vm, struct vm_device *device);
void vm_devices_free(cchv_vm *vm);
/* The VMM has gone: let go of locks and daemons; the list stays for whoever is in the middle of it. */
void vm_devices_release(cchv_vm *vm);
/* In a child after fork(): the daemons are the parent's. */
void vm_devices_forget(cchv_vm *vm);
/* Write the list down in vm.json. */
int vm_devices_record(cchv_vm *vm, cchv_error **err);

/*
 * Before the VMM has its config: check the devices of vm->config, add them to the list, and put all but those with
 * descriptors into body (vm.create's).
 */
int vm_devices_prepare(cchv_vm *vm, struct json *body, cchv_error **err);
/* After vm.create: the ones with descriptors. */
int vm_devices_add_with_fds(cchv_vm *vm, uint64_t deadline, cchv_error **err);
/* After boot: where the VMM put them. */
int vm_devices_locate(cchv_vm *vm, const struct json *info, cchv_error **err);
/* The VMM says that a device is gone. */
void vm_device_on_removed(cchv_vm *vm, const char *id);

/* In vm_net.c: the agent sets the interface up, once. */
int vm_net_up(cchv_vm *vm, struct vm_device *device, uint64_t deadline, cchv_error **err);
/* MAC, MTU and queue pairs where the settings leave them open. mac: of 18 bytes. */
int vm_net_resolve(cchv_vm *vm, const cchv_net_config *net, const char *id, char *ret_mac, uint32_t *ret_mtu,
                   uint32_t *ret_pairs, cchv_error **err);

/* In disk_file.c: the host's file of a disk or pmem device. */
/* Exists, may be opened, has a size that is a multiple of unit; locked against other VMs. */
int disk_file_open(const char *id, const char *path, int readonly, uint64_t unit, int *ret_lock_fd,
                   cchv_error **err);
/* In disk_holder.c: " by VM 'x'" or the like for who else has the file open; "" when that is not known. */
void disk_file_holder(int fd, char *text, size_t size);

#endif
