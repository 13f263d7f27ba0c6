# SPDX-License-Identifier: Apache-2.0
"""A VM; see cchv/vm.h and event.h. The process that creates it is its owner and serves it: call dispatch() when
fileno() is readable, or poll(), or sit in any blocking call."""
import json
import time

from . import _ffi, constants, errors, events, stats
from .containers import Container
from .context import default_context
from .execs import Exec, ExecConfig
from .process import Runner
from .vm_config import VmConfig


class Vm(_ffi.Handle, Runner):
    """Vm(config) creates one and owns it: close(), and the end of a with block, kill it (shutdown() is the clean
    end). Vm.open(id) is a client of one that exists. run() and popen() start processes in its only container."""

    _free = "cchv_vm_free"

    def __init__(self, config=None, *, context=None, timeout=None):
        super().__init__(None)
        own = config is None
        config = VmConfig() if own else config
        try:
            self._pointer = _ffi.call_for_handle("cchv_vm_create", (context or default_context()).pointer,
                                                 config.pointer, _ffi.to_ms(timeout))
        finally:
            if own:
                config.close()

    @classmethod
    def open(cls, id, *, context=None):
        vm = cls.__new__(cls)
        _ffi.Handle.__init__(vm, _ffi.call_for_handle("cchv_vm_open", (context or default_context()).pointer,
                                                      _ffi.to_bytes(id)))
        return vm

    @classmethod
    def restore(cls, config, *, context=None, timeout=None):
        """Make a VM of a snapshot and own it; boot() lets it go on. config: a RestoreConfig."""
        vm = cls.__new__(cls)
        _ffi.Handle.__init__(vm, _ffi.call_for_handle("cchv_vm_create_restored", (context or default_context()).pointer,
                                                      config.pointer, _ffi.to_ms(timeout)))
        return vm

    def adopt(self):
        """Become the owner of an orphan."""
        _ffi.call("cchv_vm_adopt", self.pointer)

    @property
    def id(self):
        return _ffi.to_str(_ffi.lib().cchv_vm_get_id(self.pointer))

    @property
    def is_owner(self):
        return bool(_ffi.check(_ffi.lib().cchv_vm_is_owner(self.pointer), "cchv_vm_is_owner"))

    @property
    def state(self):
        return constants.named(constants.VmState,
                               _ffi.check(_ffi.lib().cchv_vm_get_state(self.pointer), "cchv_vm_get_state"))

    @property
    def start(self):
        """(how it was started, why no template was used or None)"""
        why = _ffi.new_lent_string()
        start = _ffi.check(_ffi.lib().cchv_vm_get_start(self.pointer, _ffi.ref(why)), "cchv_vm_get_start")
        return constants.named(constants.Start, start), _ffi.to_str(why.value)

    @property
    def stop_text(self):
        """One line on why it has stopped, or None."""
        return _ffi.to_str(_ffi.lib().cchv_vm_get_stop_text(self.pointer))

    @property
    def console_path(self):
        return _ffi.to_str(_ffi.lib().cchv_vm_get_console_path(self.pointer))

    def boot(self, timeout=None):
        """Start the guest and wait for its agent."""
        _ffi.call("cchv_vm_boot", self.pointer, _ffi.to_ms(timeout))

    def pause(self, timeout=None):
        _ffi.call("cchv_vm_pause", self.pointer, _ffi.to_ms(timeout))

    def resume(self, timeout=None):
        _ffi.call("cchv_vm_resume", self.pointer, _ffi.to_ms(timeout))

    def resize(self, *, vcpus=0, memory=0, timeout=None):
        """Change vCPUs and memory; 0 keeps one."""
        _ffi.call("cchv_vm_resize", self.pointer, vcpus, memory, _ffi.to_ms(timeout))

    def snapshot(self, directory, timeout=None):
        """Keep it as it is now, in a directory that does not exist yet; it goes on."""
        _ffi.call("cchv_vm_snapshot", self.pointer, _ffi.to_bytes(directory), _ffi.to_ms(timeout))

    def shutdown(self, timeout=None):
        """End it cleanly and wait until it is gone."""
        _ffi.call("cchv_vm_shutdown", self.pointer, _ffi.to_ms(timeout))

    def power_button(self, timeout=None):
        _ffi.call("cchv_vm_power_button", self.pointer, _ffi.to_ms(timeout))

    def kill(self):
        _ffi.call("cchv_vm_kill", self.pointer)

    def wait(self, timeout=None):
        """Wait until it has stopped and return the reason, one of Stop."""
        reason = _ffi.new_int()
        _ffi.wait_in_slices(timeout, lambda ms: _ffi.call("cchv_vm_wait", self.pointer, ms, _ffi.ref(reason)))
        return constants.named(constants.Stop, reason.value)

    def attach_disk(self, disk, timeout=None):
        _ffi.call("cchv_vm_attach_disk", self.pointer, disk.pointer, _ffi.to_ms(timeout))

    def attach_net(self, net, timeout=None):
        _ffi.call("cchv_vm_attach_net", self.pointer, net.pointer, _ffi.to_ms(timeout))

    def attach_pmem(self, pmem, timeout=None):
        _ffi.call("cchv_vm_attach_pmem", self.pointer, pmem.pointer, _ffi.to_ms(timeout))

    def attach_fs(self, fs, timeout=None):
        _ffi.call("cchv_vm_attach_fs", self.pointer, fs.pointer, _ffi.to_ms(timeout))

    def detach(self, device_id, timeout=None):
        _ffi.call("cchv_vm_detach", self.pointer, _ffi.to_bytes(device_id), _ffi.to_ms(timeout))

    def info(self, timeout=None):
        """A dict that describes the VM; see cchv_vm_get_info_json() for its stable members."""
        out = _ffi.call_for_string("cchv_vm_get_info_json", self.pointer, _ffi.to_ms(timeout))
        return json.loads(out)

    def counters(self, timeout=None):
        return stats.take(_ffi.call_for_handle("cchv_vm_get_counters", self.pointer, _ffi.to_ms(timeout)))

    def stats(self, timeout=None):
        return stats.take(_ffi.call_for_handle("cchv_vm_get_stats", self.pointer, _ffi.to_ms(timeout)))

    # Containers and processes

    def create_container(self, config, timeout=None):
        """Make a container; before boot() it is the fastest."""
        return Container(_ffi.call_for_handle("cchv_container_create", self.pointer, config.pointer,
                                              _ffi.to_ms(timeout)), self)

    def open_container(self, id, timeout=None):
        return Container(_ffi.call_for_handle("cchv_vm_open_container", self.pointer, _ffi.to_bytes(id),
                                              _ffi.to_ms(timeout)), self)

    def list_containers(self, timeout=None):
        return _ffi.call_for_list("cchv_vm_list_containers", self.pointer, _ffi.to_ms(timeout))

    def exec(self, config, timeout=None):
        """Run a process in the VM's only container, or in the bare guest."""
        if not isinstance(config, ExecConfig):
            with ExecConfig(config) as own:
                return self.exec(own, timeout)
        return Exec(_ffi.call_for_handle("cchv_vm_exec", self.pointer, config.pointer, _ffi.to_ms(timeout)), self)

    # Events

    def fileno(self):
        """The fd to poll: readable means dispatch(). It is the same for the life of the object."""
        return _ffi.check(_ffi.lib().cchv_vm_get_fd(self.pointer), "cchv_vm_get_fd")

    def dispatch(self):
        """Serve the VM without blocking."""
        _ffi.call("cchv_vm_dispatch", self.pointer)

    def poll(self, timeout=None):
        """Serve the VM until there is an event; False when the time is over first."""
        def once(ms):
            if not _ffi.call("cchv_vm_poll", self.pointer, ms):
                raise errors.TimedOutError("no event")
        try:
            _ffi.wait_in_slices(timeout, once)
        except errors.TimedOutError:
            return False
        return True

    def next_event(self):
        """The oldest event, or None."""
        return events.next_event(self.pointer)

    def events(self, timeout=None):
        """Serve the VM and yield its events until it has stopped, or until the time is over."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(0, deadline - time.monotonic())
            event = self.next_event()
            if event is None:
                if self.state == constants.VmState.STOPPED or not self.poll(left):
                    return
                continue
            yield event
            if event.type == constants.EventType.STOPPED:
                return
