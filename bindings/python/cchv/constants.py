# SPDX-License-Identifier: Apache-2.0
"""The named numbers of the public headers. A number that a newer library brings stays a plain int (see named())."""
import enum


class LogLevel(enum.IntEnum):
    ERROR = 0
    WARNING = 1
    INFO = 2
    DEBUG = 3


class Finding(enum.IntEnum):
    OK = 0
    WARN = 1
    MISSING = 2
    REMOVED = 3


class DiskFormat(enum.IntEnum):
    RAW = 1


class Start(enum.IntEnum):
    AUTO = 0
    COLD = 1
    TEMPLATE = 2
    SNAPSHOT = 3


class VmState(enum.IntEnum):
    CREATED = 1
    BOOTING = 2
    RUNNING = 3
    PAUSED = 4
    STOPPED = 5


class Stop(enum.IntEnum):
    """Why a VM has stopped."""
    GUEST_POWEROFF = 1
    GUEST_RESET = 2
    GUEST_PANIC = 3
    KILLED = 4
    VMM_FAULT = 5
    VMM_SIGNAL = 6
    HOST_OOM = 7
    OWNER_DIED = 8


class EventType(enum.IntEnum):
    STATE = 1
    STOPPED = 2
    CONTAINER_OOM = 3
    EXEC_STARTED = 4
    EXEC_EXITED = 5
    DEVICE_PLUGGED = 6
    DEVICE_REMOVED = 7
    AGENT_LOST = 8
    LOST_EVENTS = 9
    CONTAINER_STATE = 10


class Stream(enum.IntEnum):
    STDIN = 0
    STDOUT = 1
    STDERR = 2


class ExecState(enum.IntEnum):
    CREATED = 1
    RUNNING = 2
    EXITED = 3


class SignalTarget(enum.IntEnum):
    GROUP = 1
    LEADER = 2
    CONTAINER = 3


class ContainerState(enum.IntEnum):
    CREATED = 1
    RUNNING = 2
    PAUSED = 3
    STOPPED = 4


class Upper(enum.IntEnum):
    """Where what a container writes to its root file system goes."""
    DISK = 1
    TMPFS = 2
    NONE = 3


class Mount(enum.IntEnum):
    """What stands behind a mount."""
    VOLUME = 1
    FS = 2
    COPY = 3
    TMPFS = 4
    SOCKET = 5


# Python name -> enum of the headers, whose members all begin with the prefix.
HEADER_ENUMS = {
    LogLevel: ("cchv_log_level", "CCHV_LOG_"),
    Finding: ("cchv_finding", "CCHV_FINDING_"),
    DiskFormat: ("cchv_disk_format", "CCHV_DISK_"),
    Start: ("cchv_start", "CCHV_START_"),
    VmState: ("cchv_vm_state", "CCHV_VM_"),
    Stop: ("cchv_stop", "CCHV_STOP_"),
    EventType: ("cchv_event_type", "CCHV_EVENT_"),
    Stream: ("cchv_stream", "CCHV_"),
    ExecState: ("cchv_exec_state", "CCHV_EXEC_"),
    SignalTarget: ("cchv_signal_target", "CCHV_SIGNAL_"),
    ContainerState: ("cchv_container_state", "CCHV_CONTAINER_"),
    Upper: ("cchv_upper", "CCHV_UPPER_"),
    Mount: ("cchv_mount", "CCHV_MOUNT_"),
}


def named(kind, value):
    """The member of an enum, or the number itself where this binding does not know it."""
    try:
        return kind(value)
    except ValueError:
        return value
