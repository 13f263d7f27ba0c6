/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of the devices that a VM can have. One object serves both ways in: added to a VM's config
 * before the VM exists (cchv_vm_config_add_disk() and its like), or plugged into a running VM
 * (cchv_vm_attach_disk() and its like). Both copy it: free or change your object afterwards as you like.
 *
 * Device ids: 1 to 64 letters, digits, '-', '_' and '.', the first one a letter or a digit, unique in the
 * VM. A device without one gets a generated id; set your own to be able to detach it.
 *
 * Setters check what can be checked alone; whether a file exists or a tap can be opened shows when the
 * device is created, with an error that names the device.
 */
#ifndef CCHV_DEVICE_H
#define CCHV_DEVICE_H

#include <stdint.h>

#include <cchv/version.h>

CCHV_BEGIN_DECLS

typedef struct cchv_disk_config cchv_disk_config;
typedef struct cchv_net_config cchv_net_config;
typedef struct cchv_pmem_config cchv_pmem_config;
typedef struct cchv_fs_config cchv_fs_config;

/* How the bytes of a disk lie in its file. Never guessed from the content. Values are only appended. */
enum cchv_disk_format {
	CCHV_DISK_RAW = 1
};

/* ---- disk: a file or block device of the host, seen as a virtio-blk device ---- */

/**
 * cchv_disk_config_new() - make the settings of a disk
 * @path:       absolute path of a file or block device of the host, whose size is a multiple of 512
 *              bytes
 * @format:     one of enum cchv_disk_format
 * @ret_config: receives the object (free it with cchv_disk_config_free())
 *
 * The guest's flush is the file's fdatasync: what the guest has synced is on the host's disk.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_UNSUPPORTED for an unknown @format.
 */
int cchv_disk_config_new(const char *path, int format, cchv_disk_config **ret_config);

/**
 * cchv_disk_config_free() - free the settings of a disk
 * @config: the object; NULL is allowed
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 */
void cchv_disk_config_free(cchv_disk_config *config);

/**
 * cchv_disk_config_set_id() - name the device
 * @config: the disk's settings
 * @id:     1 to 64 letters, digits, '-', '_', '.', the first one a letter or a digit
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_disk_config_set_id(cchv_disk_config *config, const char *id);

/**
 * cchv_disk_config_set_readonly() - refuse the guest's writes
 * @config:   the disk's settings
 * @readonly: 1 or 0 (the default)
 *
 * A file that several VMs use must be read-only in all of them: a disk takes a shared or an
 * exclusive lock on its file, and one that is in use is refused with CCHV_ERR_EXISTS when the
 * device is created.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_disk_config_set_readonly(cchv_disk_config *config, int readonly);

/**
 * cchv_disk_config_set_direct() - bypass the host's page cache
 * @config: the disk's settings
 * @direct: 1 for O_DIRECT, or 0 (the default)
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_disk_config_set_direct(cchv_disk_config *config, int direct);

/**
 * cchv_disk_config_set_queues() - set the number of virtqueues
 * @config: the disk's settings
 * @queues: 1 to 64; by default as many as the VM has vCPUs
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_disk_config_set_queues(cchv_disk_config *config, uint32_t queues);

/**
 * cchv_disk_config_set_serial() - set the serial number that the guest sees
 * @config: the disk's settings
 * @serial: 1 to 20 printable ASCII characters; none by default
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_disk_config_set_serial(cchv_disk_config *config, const char *serial);

/**
 * cchv_disk_config_set_rate_limit() - limit the speed of a disk
 * @config:      the disk's settings
 * @bytes_per_s: bytes per second, reads and writes together; 0 (the default) for no limit
 * @ops_per_s:   operations per second, reads and writes together; 0 (the default) for no limit
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_disk_config_set_rate_limit(cchv_disk_config *config, uint64_t bytes_per_s, uint64_t ops_per_s);

/* ---- net: a tap device of the host, seen as a virtio-net device; the agent sets the addresses ---- */

/**
 * cchv_net_config_new() - make the settings of a network device
 * @ret_config: receives the object (free it with cchv_net_config_free())
 *
 * The device needs a tap: its name (cchv_net_config_set_tap()) or its fds
 * (cchv_net_config_add_tap_fd()), not both. The library makes no networks: it uses what the tap is
 * connected to.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_net_config_new(cchv_net_config **ret_config);

/**
 * cchv_net_config_free() - free the settings of a network device
 * @config: the object; NULL is allowed
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 */
void cchv_net_config_free(cchv_net_config *config);

/**
 * cchv_net_config_set_id() - name the device
 * @config: the network device's settings
 * @id:     1 to 64 letters, digits, '-', '_', '.', the first one a letter or a digit
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_net_config_set_id(cchv_net_config *config, const char *id);

/**
 * cchv_net_config_set_tap() - use an existing tap by its name
 * @config: the network device's settings
 * @name:   name of the interface, 1 to 15 bytes, looked up in the network namespace of the VMM
 *          (cchv_vm_config_set_netns_fd())
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_net_config_set_tap(cchv_net_config *config, const char *name);

/**
 * cchv_net_config_add_tap_fd() - use an open tap, one queue per call
 * @config: the network device's settings
 * @fd:     an fd of /dev/net/tun, attached to its tap with IFF_VNET_HDR; it is copied, and you
 *          still close yours
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_SYSTEM when the fd cannot be copied;
 *         CCHV_ERR_LIMIT above 64 fds.
 */
int cchv_net_config_add_tap_fd(cchv_net_config *config, int fd);

/**
 * cchv_net_config_set_mac() - set the guest's MAC address
 * @config: the network device's settings
 * @mac:    six pairs of hex digits with colons, a unicast address; by default one that is derived
 *          from VM and device id
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_net_config_set_mac(cchv_net_config *config, const char *mac);

/**
 * cchv_net_config_set_mtu() - set the MTU
 * @config: the network device's settings
 * @mtu:    bytes, 68 to 65535; by default the tap's own
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_net_config_set_mtu(cchv_net_config *config, uint32_t mtu);

/**
 * cchv_net_config_set_queues() - set the number of queue pairs
 * @config: the network device's settings
 * @pairs:  1 to 64; by default one for each tap fd, or one for each vCPU where the tap is
 *          multi-queue
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_net_config_set_queues(cchv_net_config *config, uint32_t pairs);

/**
 * cchv_net_config_set_guest_name() - set the interface's name in the guest
 * @config: the network device's settings
 * @name:   1 to 15 bytes without '/' and white space; by default eth0, eth1, ... in the order of
 *          adding
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_net_config_set_guest_name(cchv_net_config *config, const char *name);

/**
 * cchv_net_config_add_address() - give the interface an address
 * @config: the network device's settings
 * @cidr:   an IPv4 or IPv6 address with its prefix length, such as "10.0.0.2/24" or "fd00::2/64"
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_net_config_add_address(cchv_net_config *config, const char *cidr);

/**
 * cchv_net_config_add_route() - add a route through the interface
 * @config:      the network device's settings
 * @destination: network with its prefix length; "0.0.0.0/0" and "::/0" are the default routes
 * @gateway:     address of the next hop; NULL for a destination that is on the link itself
 * @metric:      the route's metric; 0 for the kernel's default
 *
 * Routes are set in the order of adding, after all addresses.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_net_config_add_route(cchv_net_config *config, const char *destination, const char *gateway,
			      uint32_t metric);

/**
 * cchv_net_config_set_route_source() - set the source address of the route that was added last
 * @config: the network device's settings
 * @ip:     an address of the interface, of the same family as the route
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_STATE when there is no route yet.
 */
int cchv_net_config_set_route_source(cchv_net_config *config, const char *ip);

/**
 * cchv_net_config_set_route_mtu() - set the MTU of the route that was added last
 * @config: the network device's settings
 * @mtu:    bytes, 68 to 65535; by default the interface's own
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_STATE when there is no route yet.
 */
int cchv_net_config_set_route_mtu(cchv_net_config *config, uint32_t mtu);

/**
 * cchv_net_config_set_route_onlink() - say that the last route's gateway is on the link
 * @config: the network device's settings
 * @onlink: 1: the gateway is reached through the interface, whether or not one of its addresses
 *          says so; 0 (the default)
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_STATE when there is no route yet.
 */
int cchv_net_config_set_route_onlink(cchv_net_config *config, int onlink);

/**
 * cchv_net_config_add_neighbour() - add a permanent neighbour (ARP or NDP) entry
 * @config: the network device's settings
 * @ip:     IPv4 or IPv6 address
 * @mac:    six pairs of hex digits with colons
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_net_config_add_neighbour(cchv_net_config *config, const char *ip, const char *mac);

/**
 * cchv_net_config_set_route_localnet() - let the interface carry 127.0.0.0/8
 * @config:   the network device's settings
 * @localnet: 1: what comes for 127.0.0.1 is taken, and answered; 0 (the default): it is dropped
 *
 * The guest's net.ipv4.conf.IF.route_localnet: who can send to the tap reaches what listens on the
 * guest's loopback alone. The caller keeps strangers from it.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_net_config_set_route_localnet(cchv_net_config *config, int localnet);

/**
 * cchv_net_config_add_dns_server() - add a name server to the guest's resolv.conf
 * @config: the network device's settings
 * @ip:     IPv4 or IPv6 address
 *
 * The lines of all devices of a VM are put together, in the order of adding. Containers without a
 * resolv.conf of their own see the result.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_net_config_add_dns_server(cchv_net_config *config, const char *ip);

/**
 * cchv_net_config_add_dns_search() - add a search domain to the guest's resolv.conf
 * @config: the network device's settings
 * @domain: a domain, without white space
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_net_config_add_dns_search(cchv_net_config *config, const char *domain);

/**
 * cchv_net_config_add_dns_option() - add an option to the guest's resolv.conf
 * @config: the network device's settings
 * @option: one option, such as "ndots:5", without white space
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_net_config_add_dns_option(cchv_net_config *config, const char *option);

/* ---- pmem: a read-only image file of the host, mapped into the guest's address space (DAX) ---- */

/**
 * cchv_pmem_config_new() - make the settings of a pmem device
 * @path:       absolute path of a file of the host whose size is a multiple of 2 MiB
 * @ret_config: receives the object (free it with cchv_pmem_config_free())
 *
 * All VMs that map one file share its pages on the host. A pmem device stays until the VM ends
 * where the VMM cannot unplug it (cchv_vm_detach() then answers CCHV_ERR_UNSUPPORTED).
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_pmem_config_new(const char *path, cchv_pmem_config **ret_config);

/**
 * cchv_pmem_config_free() - free the settings of a pmem device
 * @config: the object; NULL is allowed
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 */
void cchv_pmem_config_free(cchv_pmem_config *config);

/**
 * cchv_pmem_config_set_id() - name the device
 * @config: the pmem device's settings
 * @id:     1 to 64 letters, digits, '-', '_', '.', the first one a letter or a digit
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_pmem_config_set_id(cchv_pmem_config *config, const char *id);

/**
 * cchv_pmem_config_set_discard_writes() - keep the guest's writes out of the file
 * @config:         the pmem device's settings
 * @discard_writes: 1 (the default): the guest's writes stay in its own memory; 0: they go to the
 *                  file
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_pmem_config_set_discard_writes(cchv_pmem_config *config, int discard_writes);

/* ---- fs: a directory of the host, shared by virtio-fs; the library runs and ends virtiofsd ---- */

/**
 * cchv_fs_config_new() - make the settings of a shared directory
 * @tag:        name by which mounts refer to it, 1 to 36 letters, digits, '-', '_', '.'; unique in
 *              the VM
 * @directory:  absolute path of an existing directory of the host
 * @ret_config: receives the object (free it with cchv_fs_config_free())
 *
 * A VM needs shared memory for it (cchv_vm_config_set_shared_memory()).
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_fs_config_new(const char *tag, const char *directory, cchv_fs_config **ret_config);

/**
 * cchv_fs_config_free() - free the settings of a shared directory
 * @config: the object; NULL is allowed
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 */
void cchv_fs_config_free(cchv_fs_config *config);

/**
 * cchv_fs_config_set_id() - name the device
 * @config: the shared directory's settings
 * @id:     1 to 64 letters, digits, '-', '_', '.', the first one a letter or a digit; by default
 *          the tag
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_fs_config_set_id(cchv_fs_config *config, const char *id);

/**
 * cchv_fs_config_set_readonly() - refuse the guest's writes on the host's side
 * @config:   the shared directory's settings
 * @readonly: 1 or 0 (the default)
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_fs_config_set_readonly(cchv_fs_config *config, int readonly);

CCHV_END_DECLS

#endif /* CCHV_DEVICE_H */
