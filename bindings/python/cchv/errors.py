# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class for each error code of the library."""


class Error(Exception):
    """A call of the library failed. code and origin are the library's numbers, errno is 0 where none belongs to it."""

    code = 0

    def __init__(self, message, origin=0, errno=0):
        super().__init__(message)
        self.message = message
        self.origin = origin
        self.errno = errno

    def __str__(self):
        return self.message


class NoMemoryError(Error, MemoryError):
    """The library ran out of memory."""
    code = -1


class InvalidError(Error, ValueError):
    """An argument or a setting is wrong; nothing was changed."""
    code = -2


class StateError(Error):
    """Not allowed in the object's present state."""
    code = -3


class TimedOutError(Error, TimeoutError):
    """The time given ran out."""
    code = -4


class NotFoundError(Error, LookupError):
    """The named thing does not exist."""
    code = -6


class ExistsError(Error):
    """The name is taken, or the thing is in use."""
    code = -7


class UnsupportedError(Error):
    """Not offered by this library, VMM, kernel or host."""
    code = -8


class DeniedError(Error):
    """The host or the guest refused for lack of rights."""
    code = -9


class SystemCallError(Error):
    """A system call or a program failed; see errno."""
    code = -10


class VmmError(Error):
    """The VMM refused a request."""
    code = -11


class VmmGoneError(Error):
    """The VMM has ended."""
    code = -12


class GuestError(Error):
    """The guest's agent refused a request."""
    code = -13


class GuestGoneError(Error):
    """The guest's agent does not answer any more."""
    code = -14


class ProtocolError(Error):
    """A peer or a file says something that makes no sense."""
    code = -15


class LimitError(Error):
    """A limit of the library is reached."""
    code = -16


class ForkedError(Error):
    """The object belongs to the parent process."""
    code = -17


class NotOwnerError(Error):
    """Only the VM's owner may do this."""
    code = -18


BY_CODE = {kind.code: kind for kind in Error.__subclasses__()}


def make(code, message, origin=0, errno=0):
    """The exception for an error code; an unknown code of a newer library is a plain Error with that code."""
    error = BY_CODE.get(code, Error)(message, origin, errno)
    error.code = code
    return error
