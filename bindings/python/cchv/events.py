# SPDX-License-Identifier: Apache-2.0
"""What happened to a VM; see cchv/event.h."""
from dataclasses import dataclass
from typing import Optional

from . import _ffi, constants


@dataclass(frozen=True)
class Event:
    """One event. Which fields are set depends on the type; the others are None or 0."""
    type: constants.EventType
    time_ns: int
    container_id: Optional[str]
    exec_id: Optional[str]
    device_id: Optional[str]
    exit_code: Optional[int]
    signal: int
    pid: int
    state: int
    reason: int
    count: int
    message: Optional[str]


def next_event(vm_pointer):
    """The oldest event of a VM's queue, or None."""
    library = _ffi.lib()
    out = _ffi.HandleOut()
    if not _ffi.check(library.cchv_vm_next_event(vm_pointer, out.ref), "cchv_vm_next_event"):
        return None
    pointer = out.pointer
    try:
        kind = constants.named(constants.EventType, library.cchv_event_get_type(pointer))
        exit_code = library.cchv_event_get_exit_code(pointer)
        state, reason = library.cchv_event_get_state(pointer), library.cchv_event_get_reason(pointer)
        if kind == constants.EventType.STATE:
            state = constants.named(constants.VmState, state)
        elif kind == constants.EventType.CONTAINER_STATE:
            state = constants.named(constants.ContainerState, state)
        elif kind == constants.EventType.STOPPED:
            reason = constants.named(constants.Stop, reason)
        return Event(kind, library.cchv_event_get_time(pointer),
                     _ffi.to_str(library.cchv_event_get_container_id(pointer)),
                     _ffi.to_str(library.cchv_event_get_exec_id(pointer)),
                     _ffi.to_str(library.cchv_event_get_device_id(pointer)),
                     None if exit_code < 0 else exit_code, library.cchv_event_get_signal(pointer),
                     library.cchv_event_get_pid(pointer), state, reason, library.cchv_event_get_count(pointer),
                     _ffi.to_str(library.cchv_event_get_message(pointer)))
    finally:
        library.cchv_event_free(pointer)
