# SPDX-License-Identifier: Apache-2.0
"""Settings of a VM; see cchv/vm_config.h. An empty one is good: 2 GiB, at most 4 vCPUs, no network."""
from . import _ffi


class VmConfig(_ffi.Handle):
    """memory is bytes for the containers, vcpus those at the start (max_vcpus: what resize() may set)."""

    _free = "cchv_vm_config_free"

    def __init__(self, *, id=None, hostname=None, vcpus=None, max_vcpus=None, memory=None, max_memory=None,
                 shared_memory=None, kernel=None, initramfs=None, cmdline=None, start=None, netns_fd=None, cgroup=None,
                 uid=None, gid=None, kill_with_thread=None, disks=(), nets=(), pmems=(), fs=()):
        super().__init__(None)
        self._pointer = _ffi.new_handle("cchv_vm_config_new")
        for name, value in (("id", id), ("hostname", hostname), ("kernel", kernel), ("initramfs", initramfs),
                            ("cmdline", cmdline), ("cgroup", cgroup)):
            if value is not None:
                self._set("cchv_vm_config_set_" + name, _ffi.to_bytes(value))
        for name, value in (("memory", memory), ("memory_max", max_memory), ("start", start), ("netns_fd", netns_fd)):
            if value is not None:
                self._set("cchv_vm_config_set_" + name, value)
        for name, value in (("shared_memory", shared_memory), ("kill_with_thread", kill_with_thread)):
            if value is not None:
                self._set("cchv_vm_config_set_" + name, int(bool(value)))
        if vcpus is not None:
            self._set("cchv_vm_config_set_vcpus", vcpus, vcpus if max_vcpus is None else max_vcpus)
        elif max_vcpus is not None:
            raise ValueError("max_vcpus needs vcpus")
        if (uid is None) != (gid is None):
            raise ValueError("uid and gid belong together")
        if uid is not None:
            self._set("cchv_vm_config_set_uid", uid, gid)
        for kind, devices in (("disk", disks), ("net", nets), ("pmem", pmems), ("fs", fs)):
            for device in devices:
                self._set("cchv_vm_config_add_" + kind, device.pointer)

    def copy(self):
        """Another VmConfig with the same settings."""
        twin = VmConfig.__new__(VmConfig)
        _ffi.Handle.__init__(twin, _ffi.new_handle("cchv_vm_config_copy", self.pointer))
        return twin

    def set_id(self, id):
        self._set("cchv_vm_config_set_id", _ffi.to_bytes(id))

    def set_rlimit(self, resource, soft, hard):
        """A limit of the VMM: resource is a constant of the module resource, None means no limit."""
        no_limit = 2 ** 64 - 1
        self._set("cchv_vm_config_set_rlimit", resource, no_limit if soft is None else soft,
                  no_limit if hard is None else hard)

    def add_disk(self, disk):
        self._set("cchv_vm_config_add_disk", disk.pointer)

    def add_net(self, net):
        self._set("cchv_vm_config_add_net", net.pointer)

    def add_pmem(self, pmem):
        self._set("cchv_vm_config_add_pmem", pmem.pointer)

    def add_fs(self, fs):
        self._set("cchv_vm_config_add_fs", fs.pointer)

    def merge_json(self, text):
        """Merge JSON into what is sent to the VMM. Not stable."""
        self._set("cchv_vm_config_merge_json", _ffi.to_bytes(text))

    @property
    def vm_memory(self):
        """Bytes of memory that the VM itself will have, for what its containers get."""
        out = _ffi.new_u64()
        self._set("cchv_vm_config_get_vm_memory", _ffi.ref(out))
        return out.value

    def to_json(self):
        """The settings as they would be sent to the VMM, for people."""
        return _ffi.call_for_string("cchv_vm_config_to_json", self.pointer)
