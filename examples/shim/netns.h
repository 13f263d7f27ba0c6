/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network namespace of a container on the host, and its likeness in the guest. Enters: a specification, a
 * namespace that CNI, Docker or nerdctl fill with interfaces. Leaves: a process in it, whose pid Create returns; a tap
 * for each interface, tied to it by tc in both directions; network devices of the VM with the addresses, routes,
 * neighbours and MTU of the interfaces.
 */
#ifndef SHIM_NETNS_H
#define SHIM_NETNS_H

#include <cchv/cchv.h>
#include <stdint.h>
#include <sys/types.h>
#include <yajl/yajl_tree.h>

/* ---- which one ---- */

/*
 * What linux.namespaces says of the network: *ret_path is its path (the tree's own), or NULL for a new one.
 * CCHV_ERR_UNSUPPORTED and *ret_error (free() it) when the list has none: the host's network cannot be a VM's.
 */
int netns_of_spec(yajl_val spec, const char **ret_path, char **ret_error);

/* ---- the holder: a parked process in the namespace, one per container ---- */

struct netns_holder {
	pid_t pid;    /* what Create returns. 0: none */
	int pid_fd;   /* readable when it has ended: somebody has killed it, which is meant for the container */
	int netns_fd; /* the namespace, open until the holder is stopped */
	int has_ended;
};
#define NETNS_HOLDER_INIT { 0, -1, -1, 0 }

/*
 * path NULL: a new namespace, with its loopback up. The process is a child of the caller (reaped by
 * netns_holder_stop() and nobody else), holds no fds and dies with the thread that started it.
 */
int netns_holder_start(struct netns_holder *ret_holder, const char *path, char **ret_error);
/*
 * The container has ended, and so has the process that stood for it: kill and reap it. Everything else stays, pid too,
 * which from here on is the number of nobody. In the thread that would stop it, and before that.
 */
void netns_holder_end(struct netns_holder *holder);
/* Kill and reap, and close; any number of times. */
void netns_holder_stop(struct netns_holder *holder);

/* ---- the mirror, one per VM ---- */

struct netns_mirror;

/* netns_fd is copied. queues: queue pairs of each device, at most as many as the VM has vCPUs. */
int netns_mirror_new(struct netns_mirror **ret_mirror, int netns_fd, unsigned int queues, char **ret_error);

/*
 * Look at the namespace, and give the VM what is new in it. Before cchv_vm_create() with config (vm NULL), later with
 * vm (config NULL): at Create, at Start, and whenever netns_mirror_get_fd() is readable. Interfaces that have gone are
 * unplugged. Returns how many devices were added or removed, or a negative CCHV_ERR_* and *ret_error (free() it), which
 * names the interface.
 */
int netns_mirror_update(struct netns_mirror *mirror, cchv_vm_config *config, cchv_vm *vm, int timeout_ms,
			char **ret_error);

/* Readable (POLLIN) when an interface has come, gone or changed: call netns_mirror_update(). Lent. */
int netns_mirror_get_fd(const struct netns_mirror *mirror);

/* The interfaces get their frames back; the taps go with the VMM. NULL is allowed. */
void netns_mirror_free(struct netns_mirror *mirror);

/* For "delete" after a crash: take our tc rules off the interfaces of a namespace that outlives us. A namespace that
   is not there any more is none of anybody's business. path: as in the specification; NULL does nothing. */
int netns_clean(const char *path, char **ret_error);

#endif
