/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VM of this process: a configuration, and while it is booted a QEMU with devices. Functions answer API requests
 * and carry Cloud Hypervisor's rules of what is allowed when; vm_process() takes note of what QEMU and the guest did.
 * None of them may be called from a callback of the loop, since QMP calls run the loop.
 */
#ifndef QEMU_VM_H
#define QEMU_VM_H

#include "config.h"
#include "console.h"
#include "device_plan.h"
#include "event_stream.h"
#include "machine.h"
#include "pci_slots.h"
#include "program.h"
#include "ram.h"
#include "tap.h"
#include "tsc.h"
#include "vsock.h"

enum device_kind {
	DEVICE_CONSOLE, DEVICE_DISK, DEVICE_NET, DEVICE_RNG, DEVICE_FS, DEVICE_PMEM, DEVICE_VSOCK, DEVICE_MEM,
	DEVICE_BALLOON, DEVICE_WATCHDOG, DEVICE_PVPANIC,
};

struct device {
	struct device *next;
	enum device_kind kind;
	char *id;                       /* the configuration's */
	struct plan_id qemu_id;
	int slot;                       /* -1: none yet */
	struct plan plan;
	struct vm *vm;
	struct vsock *vsock;
	int backend_fds[TAP_QUEUES_MAX]; /* for QEMU, closed here when it has them */
	size_t backend_count;
	int tap_fd;                     /* for its counters; -1: none */
	uint64_t requested;
	int removing;
	int activated;
};

struct vm {
	struct loop *loop;
	const struct log_sink *log;
	struct event_stream *events;
	struct program *program;
	int seccomp;
	int no_shutdown;
	struct json *config;            /* NULL: nothing was created */
	struct machine *machine;        /* NULL: not booted */
	int paused;
	struct plan_names names;
	struct pci_slots slots;
	unsigned int device_count;      /* for ids that nobody gave */
	struct device *devices;
	struct console console;
	struct console serial;
	struct ram memory;
	struct door *door;              /* once it was needed */
	const struct json *saved;       /* the state of the snapshot that is being restored */
	const char *saved_dir;
	struct json *kept_state;        /* of a snapshot, while the VM is still paused as it was then */
	int disguise;                   /* argv.h */
	uint64_t most_memory;
	uint64_t ram;                   /* bytes at start and in DIMMs, which is what QEMU's balloon counts */
	uint64_t dimms;                 /* bytes plugged as DIMMs, by hotplug method Acpi */
	unsigned int dimm_count;
	unsigned int cpus_made;         /* in the life of this QEMU */
	unsigned int cpus_leaving;      /* vCPUs whose removal the guest has not carried out */
	struct tsc_reading tsc_since;   /* when this process began */
	int firmware_resets;            /* SeaBIOS will reset once more before the guest runs: no event of the guest */
	int finished;                   /* the process is to end */
	int exit_status;                /* of QEMU, when it died: a wait status */
	int died;
};

void vm_init(struct vm *vm, struct loop *loop, const struct log_sink *log, struct event_stream *events,
             struct program *program);
void vm_free(struct vm *vm);

/* Work off what happened. 1: there was something; the caller asks again before it waits. */
int vm_process(struct vm *vm);
/* SIGTERM, the guest's power-off, vmm.shutdown: everything ends, with the events of that. */
int vm_end(struct vm *vm, struct fault *fault);

/* The API (vm.c). Bodies are normalised already and taken where they are kept. */
int vm_create(struct vm *vm, struct json *config, struct fault *fault);
int vm_boot(struct vm *vm, struct fault *fault);
int vm_shutdown(struct vm *vm, struct fault *fault);
int vm_delete(struct vm *vm, struct fault *fault);
int vm_reboot(struct vm *vm, struct fault *fault);
int vm_pause(struct vm *vm, struct fault *fault);
int vm_resume(struct vm *vm, struct fault *fault);
int vm_power_button(struct vm *vm, struct fault *fault);
int vm_nmi(struct vm *vm, struct fault *fault);

/* vm_snapshot.c, vm_restore.c: fds as above. */
int vm_snapshot(struct vm *vm, const char *url, struct fault *fault);
int vm_restore(struct vm *vm, const struct json *wanted, int *fds, size_t fd_count, struct fault *fault);

/* vm_info.c */
int vm_info(struct vm *vm, struct json **ret_info, struct fault *fault);
int vm_counters(struct vm *vm, struct json **ret_counters, struct fault *fault);

/* vm_resize.c */
int vm_resize(struct vm *vm, const struct json *wanted, struct fault *fault);
int vm_resize_zone(struct vm *vm, const struct json *wanted, struct fault *fault);
int vm_resize_disk(struct vm *vm, const struct json *wanted, struct fault *fault);

/* vm_hotplug.c: *ret_reply stays NULL when the VM is not booted. fds: of a network device, taken on success. */
int vm_add_device(struct vm *vm, enum device_kind kind, struct json *config, int *fds, size_t fd_count,
                  struct json **ret_reply, struct fault *fault);
int vm_remove_device(struct vm *vm, const char *id, struct fault *fault);

/* Inside: vm_start.c */
int vm_start(struct vm *vm, struct fault *fault);
void vm_stop(struct vm *vm);            /* QEMU and all that is bound to it */
/* The VM is no longer as it was when it was last saved. */
void vm_forget_saved(struct vm *vm);
/* The VM's configuration, with the descriptors of taps in it; dropped without an event. */
void vm_take_config(struct vm *vm, struct json *config);
void vm_drop_config(struct vm *vm);

/* Inside: vm_memory.c: the guest's memory before QEMU is there, by configuration or snapshot. */
int vm_memory_base(struct vm *vm, struct plan *plan, struct fault *fault);
int vm_memory_plugged(struct vm *vm, struct plan *plan, struct fault *fault);
int vm_memory_load(struct vm *vm, struct fault *fault);
/* Its bytes at start: without what was plugged as DIMMs. */
uint64_t vm_memory_base_size(const struct vm *vm);
/* Into a snapshot: the sizes and places, and the bytes. */
int vm_memory_describe(struct vm *vm, const struct json *devices, struct json *state, struct fault *fault);
int vm_memory_write(const struct vm *vm, const struct json *state, int file);

/* Inside: door.h's door into the machine, opened where it is not. Lent. */
struct door;
int vm_open_door(struct vm *vm, struct door **ret_door, struct fault *fault);

/* Inside: vm_snapshot.c: what a snapshot is bound to; the strings are the result's. */
struct vm_host { char qemu[160], cpu[160], host_cpu[160]; const char *accelerator; };
int vm_host_describe(struct vm *vm, struct vm_host *ret_host, struct fault *fault);

/* Inside: device_swap.c: devices that QEMU does not save by itself, in a VM that stands still. */
int device_swap_out(struct device *device, struct door *door, struct json *entry, struct fault *fault);
int device_swap_in(struct device *device, struct door *door, const struct json *entry, struct fault *fault);
int device_describe_registers(struct device *device, struct door *door, struct json *entry, struct fault *fault);
int device_set_registers(struct device *device, struct door *door, const struct json *entry, struct fault *fault);

/* Inside: vm_hotplug.c: carry a plan out in the running QEMU, all of it or nothing. */
int device_plug(struct device *device, const struct json *config, struct fault *fault);

/* The guest begins anew: connections die, console files are truncated, drivers come up again. */
void vm_note_reset(struct vm *vm);

/* Inside: device.c */
int device_new(struct vm *vm, enum device_kind kind, const char *id, struct device **ret_device, struct fault *fault);
/* Give it a slot, open what it needs, plan it; the configuration gets an id where it has none. */
int device_prepare(struct vm *vm, enum device_kind kind, struct json *config, struct device **ret_device,
                   struct fault *fault);
int device_take_slot(struct device *device, const struct json *config, struct fault *fault);
void device_close_backend(struct device *device);
/* Unmake the first steps of its plan, the last one first; devices themselves are unplugged elsewhere. */
void device_undo(struct device *device, size_t steps);
void device_free(struct device *device);        /* takes it from the VM's list */
/* The original's words for an image that somebody else has open. */
int device_explain_lock(struct fault *fault, const char *path, int path_len);
struct device *device_find(struct vm *vm, const char *id);
struct device *device_find_qemu(struct vm *vm, const char *qemu_id);
const char *device_list_key(enum device_kind kind);     /* "disks"; NULL: not in a list */

/* Inside: vm_activation.c: so many drivers came up (perhaps the same again, or vsock's): events. */
void vm_note_activations(struct vm *vm, int count);

DEFINE_CLEANUP(device, struct device, device_free)
#define cleanup_device __attribute__((cleanup(device_cleanup)))

#endif
