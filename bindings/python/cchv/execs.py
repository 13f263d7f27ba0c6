# SPDX-License-Identifier: Apache-2.0
"""A process in the guest: its settings, its streams, its end; see cchv/exec.h. process.py is like subprocess."""
from typing import NamedTuple, Optional

from . import _ffi, constants, stats


class Stdio(_ffi.Handle):
    """Where the streams of a process lead; /dev/null where nothing is set."""

    _free = "cchv_stdio_config_free"

    def __init__(self):
        super().__init__(_ffi.new_handle("cchv_stdio_config_new"))

    def set_fd(self, stream, fd):
        """Connect a stream with an fd, which is copied; the VM's owner moves the bytes."""
        self._set("cchv_stdio_config_set_fd", stream, fd)

    def set_pipe(self, stream):
        """Let Exec.take_fd() hand out the stream."""
        self._set("cchv_stdio_config_set_pipe", stream)

    def set_log(self, stream, path, max_bytes=0):
        """Append the stream to a log file, which is rotated at max_bytes."""
        self._set("cchv_stdio_config_set_log", stream, _ffi.to_bytes(path), max_bytes)

    def set_attachable(self, stream):
        """Keep the stream open for clients that attach."""
        self._set("cchv_stdio_config_set_attachable", stream)

    def set_tty_size(self, rows, cols):
        """The terminal's size from the first instruction on; it counts more than that of the specification."""
        self._set("cchv_stdio_config_set_tty_size", rows, cols)


class ExecConfig(_ffi.Handle):
    """What to run; environment, directory and user are those of the container's init where they are not set."""

    _free = "cchv_exec_config_free"

    def __init__(self, args=(), *, id=None, env=None, cwd=None, user=None, tty=None, stdio=None, process_json=None):
        super().__init__(_ffi.new_handle("cchv_exec_config_new"))
        if id is not None:
            self._set("cchv_exec_config_set_id", _ffi.to_bytes(id))
        if process_json is not None:
            self._set("cchv_exec_config_set_process_json", _ffi.to_bytes(process_json))
        for arg in args:
            self._set("cchv_exec_config_add_arg", _ffi.to_bytes(arg))
        for name, value in (env or {}).items():
            if value is None:
                self._set("cchv_exec_config_unset_env", _ffi.to_bytes(name))
            else:
                self._set("cchv_exec_config_set_env", _ffi.to_bytes(name), _ffi.to_bytes(value))
        if cwd is not None:
            self._set("cchv_exec_config_set_cwd", _ffi.to_bytes(cwd))
        if user is not None:
            self._set("cchv_exec_config_set_user", _ffi.to_bytes(user))
        if tty is not None:
            self._set("cchv_exec_config_set_tty", *tty)
        if stdio is not None:
            self._set("cchv_exec_config_set_stdio", stdio.pointer)


class Exit(NamedTuple):
    """The end of a process: an exit code, or the signal that killed it."""
    exit_code: Optional[int]
    signal: int

    @property
    def returncode(self):
        """As in the module subprocess: the exit code, or minus the signal."""
        return -self.signal if self.signal else self.exit_code


class Exec(_ffi.Handle):
    """One process. close() frees the handle; the process runs on. vm is the Vm that it was started by."""

    _free = "cchv_exec_free"

    def __init__(self, pointer, vm=None):
        super().__init__(pointer)
        self.vm = vm

    @property
    def id(self):
        return _ffi.to_str(_ffi.lib().cchv_exec_get_id(self.pointer))

    @property
    def pid(self):
        """Process id as the guest's root namespace counts."""
        return _ffi.check(_ffi.lib().cchv_exec_get_pid(self.pointer), "cchv_exec_get_pid")

    @property
    def state(self):
        return constants.named(constants.ExecState,
                               _ffi.check(_ffi.lib().cchv_exec_get_state(self.pointer), "cchv_exec_get_state"))

    @property
    def start_time_ns(self):
        return _ffi.lib().cchv_exec_get_start_time(self.pointer)

    @property
    def exit_time_ns(self):
        return _ffi.lib().cchv_exec_get_exit_time(self.pointer)

    def take_fd(self, stream):
        """The socket of a stream that was set by set_pipe(): yours to read, write and close."""
        return _ffi.call_for_int("cchv_exec_take_fd", self.pointer, stream)

    def close_stdin(self):
        _ffi.call("cchv_exec_close_stdin", self.pointer)

    def signal(self, number, target=constants.SignalTarget.GROUP, timeout=None):
        """Send a signal to the process group, or to the process alone."""
        _ffi.call("cchv_exec_signal", self.pointer, number, target, _ffi.to_ms(timeout))

    def resize_tty(self, rows, cols, timeout=None):
        _ffi.call("cchv_exec_resize_tty", self.pointer, rows, cols, _ffi.to_ms(timeout))

    def wait(self, timeout=None):
        """Wait for the end and return an Exit; TimedOutError when the time is over first."""
        code, signal = _ffi.new_int(), _ffi.new_int()
        _ffi.wait_in_slices(timeout, lambda ms: _ffi.call("cchv_exec_wait", self.pointer, ms, _ffi.ref(code),
                                                          _ffi.ref(signal)))
        return Exit(None if code.value < 0 else code.value, signal.value)

    def stats(self):
        """Bytes of the streams that the owner moved."""
        return stats.take(_ffi.call_for_handle("cchv_exec_get_stats", self.pointer))

    def attach(self, stdio, timeout=None):
        """Connect to the streams of a running process: output from now on."""
        _ffi.call("cchv_exec_attach", self.pointer, stdio.pointer, _ffi.to_ms(timeout))

    def reconnect(self, stdio, timeout=None):
        """Give a running process of a restored or adopted VM other streams."""
        _ffi.call("cchv_exec_reconnect", self.pointer, stdio.pointer, _ffi.to_ms(timeout))

    def detach(self):
        _ffi.call("cchv_exec_detach", self.pointer)

    def close_output(self):
        """Have done with the output of a process that has ended: what a child still writes is discarded."""
        _ffi.call("cchv_exec_close_output", self.pointer)

    def delete(self, timeout=None):
        """Drop the record of a process that has ended."""
        _ffi.call("cchv_exec_delete", self.pointer, _ffi.to_ms(timeout))
