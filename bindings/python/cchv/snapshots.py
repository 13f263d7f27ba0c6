# SPDX-License-Identifier: Apache-2.0
"""VMs that are kept, and made again; see cchv/snapshot.h. Vm.snapshot() takes one, Vm.restore() makes a VM of it."""
import json

from . import _ffi


class RestoreConfig(_ffi.Handle):
    """Settings of a VM that is made of a snapshot. disk_dir: where copies of its disks go; disks: paths of single ones, by
    device; taps: one for each network device; containers: new ids, by those that they had."""

    _free = "cchv_restore_config_free"

    def __init__(self, directory, *, id=None, disk_dir=None, disks=None, taps=None, containers=None,
                 kill_with_thread=None):
        super().__init__(_ffi.new_handle("cchv_restore_config_new", _ffi.to_bytes(directory)))
        if id is not None:
            self._set("cchv_restore_config_set_id", _ffi.to_bytes(id))
        if disk_dir is not None:
            self._set("cchv_restore_config_set_disk_dir", _ffi.to_bytes(disk_dir))
        for device, path in (disks or {}).items():
            self._set("cchv_restore_config_set_disk", _ffi.to_bytes(device), _ffi.to_bytes(path))
        for device, tap in (taps or {}).items():
            self._set("cchv_restore_config_set_tap", _ffi.to_bytes(device), _ffi.to_bytes(tap))
        for container, new_id in (containers or {}).items():
            self._set("cchv_restore_config_rename_container", _ffi.to_bytes(container), _ffi.to_bytes(new_id))
        if kill_with_thread is not None:
            self._set("cchv_restore_config_set_kill_with_thread", int(bool(kill_with_thread)))


def snapshot_info(directory):
    """What is known of a snapshot; a damaged one is an error."""
    return json.loads(_ffi.call_for_string("cchv_snapshot_get_info_json", _ffi.to_bytes(directory)))


def remove_snapshot(directory):
    """Remove a snapshot; VMs that were made of it keep what they need."""
    _ffi.call("cchv_snapshot_remove", _ffi.to_bytes(directory))
