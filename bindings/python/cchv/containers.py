# SPDX-License-Identifier: Apache-2.0
"""Containers: a root file system and an OCI specification in a VM; see cchv/container_config.h and container.h."""
import json

from . import _ffi, constants, stats
from .execs import Exec, ExecConfig
from .process import Runner


class ContainerConfig(_ffi.Handle):
    """Settings of a container. With an image it runs what the image says; args replace the image's Cmd, and with
    clear_entrypoint its Entrypoint too. env maps names to values, None removes one. mounts are for add_mount()."""

    _free = "cchv_container_config_free"

    def __init__(self, id, image=None, args=None, *, clear_entrypoint=False, env=None, cwd=None, user=None, tty=None,
                 hostname=None, readonly=False, memory_limit=None, cpu_limit=None, pids_limit=None, images=(),
                 upper=None, upper_bytes=0, scratch_path=None, keep_scratch=False, rootfs_fs=None, rootfs_disk=None,
                 mounts=(), spec=None):
        super().__init__(None)
        if image is None:
            self._pointer = _ffi.new_handle("cchv_container_config_new", _ffi.to_bytes(id))
        else:
            self._pointer = _ffi.call_for_handle("cchv_container_config_new_from_image", _ffi.to_bytes(id),
                                                 image.pointer)
        if spec is not None:
            self._set("cchv_container_config_set_spec_json", _ffi.to_bytes(json.dumps(spec)))
        if clear_entrypoint:
            self._set("cchv_container_config_clear_args")
        elif args is not None:
            self._set("cchv_container_config_clear_cmd")
        for arg in args or ():
            self._set("cchv_container_config_add_arg", _ffi.to_bytes(arg))
        for name, value in (env or {}).items():
            if value is None:
                self._set("cchv_container_config_unset_env", _ffi.to_bytes(name))
            else:
                self._set("cchv_container_config_set_env", _ffi.to_bytes(name), _ffi.to_bytes(value))
        for name, value in (("cwd", cwd), ("user", user), ("hostname", hostname), ("scratch_path", scratch_path),
                            ("rootfs_fs", rootfs_fs)):
            if value is not None:
                self._set("cchv_container_config_set_" + name, _ffi.to_bytes(value))
        if tty is not None:
            self._set("cchv_container_config_set_tty", 1)
            self._set("cchv_container_config_set_console_size", *tty)
        if keep_scratch:
            self._set("cchv_container_config_set_keep_scratch", 1)
        if rootfs_disk is not None:
            self._set("cchv_container_config_set_rootfs_disk", _ffi.to_bytes(rootfs_disk), int(readonly))
        if readonly:
            self._set("cchv_container_config_set_readonly", 1)
        for name, value in (("memory", memory_limit), ("cpu", cpu_limit), ("pids", pids_limit)):
            if value is not None:
                self._set(f"cchv_container_config_set_{name}_limit", value)
        for more in images:
            self._set("cchv_container_config_add_image", more.pointer)
        if upper is not None:
            self._set("cchv_container_config_set_upper", upper, upper_bytes)
        for mount in mounts:
            self.add_mount(*mount)

    def add_mount(self, destination, kind, source=None, options=None):
        """Add a mount to the specification; kind is one of Mount."""
        self._set("cchv_container_config_add_mount", _ffi.to_bytes(destination), kind, _ffi.to_bytes(source),
                  _ffi.to_bytes(options))

    def map_mount(self, destination, kind, source=None):
        """Say what stands behind a mount that the specification has."""
        self._set("cchv_container_config_map_mount", _ffi.to_bytes(destination), kind, _ffi.to_bytes(source))

    @property
    def spec(self):
        """The OCI runtime specification as it is now."""
        return json.loads(_ffi.call_for_string("cchv_container_config_get_spec_json", self.pointer))


class Container(_ffi.Handle, Runner):
    """A container of a VM. run() and popen() start further processes in it; see process.py."""

    _free = "cchv_container_free"

    def __init__(self, pointer, vm=None):
        super().__init__(pointer)
        self.vm = vm

    @property
    def id(self):
        return _ffi.to_str(_ffi.lib().cchv_container_get_id(self.pointer))

    @property
    def state(self):
        return constants.named(constants.ContainerState, _ffi.check(
            _ffi.lib().cchv_container_get_state(self.pointer), "cchv_container_get_state"))

    @property
    def create_time_ns(self):
        return _ffi.lib().cchv_container_get_create_time(self.pointer)

    @property
    def spec(self):
        """The OCI runtime specification as it was at creation."""
        return json.loads(_ffi.call_for_string("cchv_container_get_spec_json", self.pointer))

    def start(self, stdio=None, timeout=None):
        """Start init and return it as an Exec."""
        return Exec(_ffi.call_for_handle("cchv_container_start", self.pointer,
                                         None if stdio is None else stdio.pointer, _ffi.to_ms(timeout)), self.vm)

    def exec(self, config, timeout=None):
        """Run another process, described by an ExecConfig or a list of arguments, and return it as an Exec."""
        if not isinstance(config, ExecConfig):
            with ExecConfig(config) as own:
                return self.exec(own, timeout)
        return Exec(_ffi.call_for_handle("cchv_container_exec", self.pointer, config.pointer, _ffi.to_ms(timeout)), self.vm)

    def open_exec(self, id=None, timeout=None):
        """An existing process; init without an id."""
        return Exec(_ffi.call_for_handle("cchv_container_open_exec", self.pointer, _ffi.to_bytes(id),
                                         _ffi.to_ms(timeout)), self.vm)

    def list_execs(self, timeout=None):
        return _ffi.call_for_list("cchv_container_list_execs", self.pointer, _ffi.to_ms(timeout))

    def pause(self, timeout=None):
        _ffi.call("cchv_container_pause", self.pointer, _ffi.to_ms(timeout))

    def resume(self, timeout=None):
        _ffi.call("cchv_container_resume", self.pointer, _ffi.to_ms(timeout))

    def update(self, resources, timeout=None):
        """Change limits: resources is an OCI linux.resources object."""
        _ffi.call("cchv_container_update", self.pointer, _ffi.to_bytes(json.dumps(resources)), _ffi.to_ms(timeout))

    def stats(self, timeout=None):
        return stats.take(_ffi.call_for_handle("cchv_container_get_stats", self.pointer, _ffi.to_ms(timeout)))

    def copy_out(self, path, fd, timeout=None, max_bytes=0):
        """Write the file or directory as a tar stream to fd; of more than max_bytes (0: no limit) it is an error."""
        _ffi.call("cchv_container_copy_out", self.pointer, _ffi.to_bytes(path), fd, max_bytes, _ffi.to_ms(timeout))

    def copy_in(self, directory, fd, timeout=None):
        """Unpack the tar stream that fd gives into the directory."""
        _ffi.call("cchv_container_copy_in", self.pointer, _ffi.to_bytes(directory), fd, _ffi.to_ms(timeout))

    def copy_changes(self, fd, timeout=None, max_bytes=0):
        """Write what the container has written over its images, as a layer, to fd; more than max_bytes is an error."""
        _ffi.call("cchv_container_copy_changes", self.pointer, fd, max_bytes, _ffi.to_ms(timeout))

    def delete(self, timeout=None):
        """Remove the container, which must not run."""
        _ffi.call("cchv_container_delete", self.pointer, _ffi.to_ms(timeout))
