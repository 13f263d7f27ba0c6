# SPDX-License-Identifier: Apache-2.0
"""Settings of a VM's devices; see cchv/device.h. The same object is added to a VmConfig or attached to a running VM."""
from . import _ffi, constants


class Disk(_ffi.Handle):
    """A file or block device of the host as a disk. Limits are bytes and operations per second; 0 is none."""

    _free = "cchv_disk_config_free"

    def __init__(self, path, *, format=constants.DiskFormat.RAW, id=None, readonly=False, direct=False, queues=None,
                 serial=None, bytes_per_s=0, ops_per_s=0):
        super().__init__(None)
        self._pointer = _ffi.new_handle("cchv_disk_config_new", _ffi.to_bytes(path), format)
        if id is not None:
            self._set("cchv_disk_config_set_id", _ffi.to_bytes(id))
        if readonly:
            self._set("cchv_disk_config_set_readonly", 1)
        if direct:
            self._set("cchv_disk_config_set_direct", 1)
        if queues is not None:
            self._set("cchv_disk_config_set_queues", queues)
        if serial is not None:
            self._set("cchv_disk_config_set_serial", _ffi.to_bytes(serial))
        if bytes_per_s or ops_per_s:
            self._set("cchv_disk_config_set_rate_limit", bytes_per_s, ops_per_s)


class Net(_ffi.Handle):
    """A tap of the host as a network device: its name, or its open fds (which are copied).

    addresses are "10.0.0.2/24"; routes are (destination, gateway or None, metric) and maybe a fourth,
    a dict of "source", "mtu" and "onlink"; neighbours are (ip, mac)."""

    _free = "cchv_net_config_free"

    def __init__(self, *, tap=None, tap_fds=(), id=None, mac=None, mtu=None, queues=None, guest_name=None,
                 addresses=(), routes=(), neighbours=(), dns_servers=(), dns_search=(), dns_options=(),
                 route_localnet=False):
        super().__init__(None)
        self._pointer = _ffi.new_handle("cchv_net_config_new")
        for name, value in (("id", id), ("tap", tap), ("mac", mac), ("guest_name", guest_name)):
            if value is not None:
                self._set("cchv_net_config_set_" + name, _ffi.to_bytes(value))
        for fd in tap_fds:
            self._set("cchv_net_config_add_tap_fd", fd)
        if mtu is not None:
            self._set("cchv_net_config_set_mtu", mtu)
        if queues is not None:
            self._set("cchv_net_config_set_queues", queues)
        for address in addresses:
            self._set("cchv_net_config_add_address", _ffi.to_bytes(address))
        for destination, gateway, metric, *more in routes:
            self._set("cchv_net_config_add_route", _ffi.to_bytes(destination), _ffi.to_bytes(gateway), metric)
            for name, value in (more[0] if more else {}).items():
                self._set("cchv_net_config_set_route_" + name, _ffi.to_bytes(value) if name == "source" else int(value))
        if route_localnet:
            self._set("cchv_net_config_set_route_localnet", 1)
        for ip, neighbour in neighbours:
            self._set("cchv_net_config_add_neighbour", _ffi.to_bytes(ip), _ffi.to_bytes(neighbour))
        for name, values in (("server", dns_servers), ("search", dns_search), ("option", dns_options)):
            for value in values:
                self._set("cchv_net_config_add_dns_" + name, _ffi.to_bytes(value))


class Pmem(_ffi.Handle):
    """A read-only image file of the host, mapped into the guest."""

    _free = "cchv_pmem_config_free"

    def __init__(self, path, *, id=None, discard_writes=True):
        super().__init__(None)
        self._pointer = _ffi.new_handle("cchv_pmem_config_new", _ffi.to_bytes(path))
        if id is not None:
            self._set("cchv_pmem_config_set_id", _ffi.to_bytes(id))
        if not discard_writes:
            self._set("cchv_pmem_config_set_discard_writes", 0)


class Fs(_ffi.Handle):
    """A directory of the host, shared by virtio-fs under a tag."""

    _free = "cchv_fs_config_free"

    def __init__(self, tag, directory, *, id=None, readonly=False):
        super().__init__(None)
        self._pointer = _ffi.new_handle("cchv_fs_config_new", _ffi.to_bytes(tag), _ffi.to_bytes(directory))
        if id is not None:
            self._set("cchv_fs_config_set_id", _ffi.to_bytes(id))
        if readonly:
            self._set("cchv_fs_config_set_readonly", 1)
