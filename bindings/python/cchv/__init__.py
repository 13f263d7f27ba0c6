# SPDX-License-Identifier: Apache-2.0
"""Containers in microVMs of their own, by libcchv.

    import cchv
    print(cchv.run("debian", ["uname", "-r"], capture_output=True, text=True).stdout)

Everything of the C library is here: Context, Image, VmConfig, Vm, Pool, ContainerConfig, Container, Exec, and Popen and run()
in the form of the module subprocess; cchv.aio serves a VM in asyncio. Objects are context managers. A failure is an
exception below cchv.Error, one class for each error code. Timeouts are seconds, None is for ever."""
from ._ffi import load
from .constants import (ContainerState, DiskFormat, EventType, ExecState, LogLevel, Mount, SignalTarget, Start, Stop,
                        Stream, Upper, VmState)
from .containers import Container, ContainerConfig
from .context import Context, Finding, default_context, version
from .devices import Disk, Fs, Net, Pmem
from .errors import (DeniedError, Error, ExistsError, ForkedError, GuestError, GuestGoneError, InvalidError, LimitError,
                     NoMemoryError, NotFoundError, NotOwnerError, ProtocolError, StateError, SystemCallError,
                     TimedOutError, UnsupportedError, VmmError, VmmGoneError)
from .events import Event
from .execs import Exec, ExecConfig, Exit, Stdio
from .images import Image, Progress
from .pool import Pool
from .process import DEVNULL, PIPE, STDOUT, CompletedProcess, Popen
from .quick import run
from .snapshots import RestoreConfig, remove_snapshot, snapshot_info
from .stats import Stats
from .vm import Vm
from .vm_config import VmConfig

__version__ = "0.1.0"
__all__ = [
    "load", "version", "run", "default_context", "Context", "Finding", "Image", "Progress", "VmConfig", "Vm", "Disk",
    "Net", "Pmem", "Fs", "ContainerConfig", "Container", "Exec", "ExecConfig", "Exit", "Stdio", "Pool", "Popen",
    "CompletedProcess", "PIPE", "STDOUT", "DEVNULL", "Event", "Stats", "ContainerState", "DiskFormat", "EventType",
    "ExecState", "LogLevel", "Mount", "SignalTarget", "Start", "Stop", "Stream", "Upper", "VmState", "Error",
    "DeniedError", "ExistsError", "ForkedError", "GuestError", "GuestGoneError", "InvalidError", "LimitError",
    "NoMemoryError", "NotFoundError", "NotOwnerError", "ProtocolError", "StateError", "SystemCallError",
    "TimedOutError", "UnsupportedError", "VmmError", "VmmGoneError", "RestoreConfig", "remove_snapshot", "snapshot_info",
]


def __getattr__(name):
    # asyncio is large: it is imported by those who use it.
    if name == "aio":
        import importlib
        return importlib.import_module("cchv.aio")
    raise AttributeError(f"module 'cchv' has no attribute '{name}'")
