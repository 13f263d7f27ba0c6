# SPDX-License-Identifier: Apache-2.0
"""The door to libcchv.so.0: finds and loads it, binds functions at their first use, turns results into values and
errors into exceptions. Nothing above this file uses ctypes."""
import ctypes
import os
import sys
import threading
import time

from . import errors
from ._declarations import DECLARATIONS, LOG_FN, RELEASE_FN

SONAME = "libcchv.so.0"
VARIABLE = "CCHV_LIBRARY"


class Library:
    """The loaded library; each function is an attribute, declared when it is first used."""

    def __init__(self, path):
        self._path = path
        self._dll = ctypes.CDLL(path)

    def __getattr__(self, name):
        try:
            result, *parameters = DECLARATIONS[name]
        except KeyError:
            raise AttributeError(name) from None
        try:
            function = getattr(self._dll, name)
        except AttributeError:
            raise errors.UnsupportedError(f"{self._path} has no {name}(): it is older than this binding") from None
        function.restype = result
        function.argtypes = parameters
        setattr(self, name, function)
        return function


def _build_tree_library():
    """The library of the source tree that this package lies in, or None where it is installed."""
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    path = os.path.join(root, "build", "lib", SONAME)
    if os.path.isfile(os.path.join(root, "include", "cchv", "cchv.h")) and os.path.isfile(path):
        return path
    return None


_lock = threading.Lock()
_library = None


def load(path=None):
    """Load the library: from path, or from the file that the variable CCHV_LIBRARY names, or from the build directory
    of the source tree that this package lies in, or by its soname. It is loaded at the first use otherwise; a process
    can use only one."""
    global _library
    with _lock:
        if _library is None:
            _library = Library(path or os.environ.get(VARIABLE) or _build_tree_library() or SONAME)
        elif path is not None and os.path.realpath(path) != os.path.realpath(_library._path):
            raise RuntimeError(f"libcchv is loaded already, from {_library._path}")
        return _library


def lib():
    return _library if _library is not None else load()


def to_bytes(text):
    """What a string parameter takes: bytes as they are, str and paths as the file system encodes them."""
    if text is None:
        return None
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise ValueError("embedded null byte")
    return encoded


def to_str(data):
    return None if data is None else os.fsdecode(data)


def to_ms(timeout):
    """Seconds, or None for ever, as the library's milliseconds; a little time is never rounded down to none."""
    if timeout is None:
        return -1
    if timeout <= 0:
        return 0
    return min(-int(-timeout * 1000 // 1), 0x7fffffff)


SLICE_S = 0.5


def wait_in_slices(timeout, once):
    """Wait for long by once(milliseconds). Python runs signal handlers (^C) only between calls, and only in the main
    thread: there a long wait is cut into slices."""
    if threading.current_thread() is not threading.main_thread():
        return once(to_ms(timeout))
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        left = None if deadline is None else deadline - time.monotonic()
        last = left is not None and left <= SLICE_S
        try:
            return once(to_ms(left if last else SLICE_S))
        except errors.TimedOutError:
            if last:
                raise


def check(result, what):
    """Result of a call without an error object: the value, or its exception."""
    if result < 0:
        raise errors.make(result, f"{what}: {to_str(lib().cchv_err_text(result))}")
    return result


def call(name, *arguments):
    """Call a function whose last parameter is the error object; its result, or its exception."""
    err = ctypes.c_void_p()
    result = getattr(lib(), name)(*arguments, ctypes.byref(err))
    if result >= 0:
        return result
    library = lib()
    try:
        if not err:
            raise errors.make(result, f"{name}: {to_str(library.cchv_err_text(result))}")
        raise errors.make(result, to_str(library.cchv_error_message(err)), library.cchv_error_origin(err),
                          library.cchv_error_errno(err))
    finally:
        library.cchv_error_free(err)


def call_for_handle(name, *arguments):
    """The same for a function that makes an object: its pointer."""
    out = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(out))
    return out


def new_handle(name, *arguments):
    """Pointer of an object from a constructor without an error object."""
    out = ctypes.c_void_p()
    check(getattr(lib(), name)(*arguments, ctypes.byref(out)), name)
    return out


def call_for_string(name, *arguments):
    """The string that a function hands out, as str."""
    out = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(out))
    try:
        return to_str(ctypes.string_at(out.value))
    finally:
        lib().cchv_free(out)


def call_for_int(name, *arguments):
    out = ctypes.c_int()
    call(name, *arguments, ctypes.byref(out))
    return out.value


def call_for_list(name, *arguments):
    """The strings of a cchv_list."""
    out = call_for_handle(name, *arguments)
    library = lib()
    try:
        return [to_str(library.cchv_list_get(out, i)) for i in range(library.cchv_list_get_count(out))]
    finally:
        library.cchv_list_free(out)


class HandleOut:
    """A place for an object that a function hands out beside its result."""

    def __init__(self):
        self.pointer = ctypes.c_void_p()
        self.ref = ctypes.byref(self.pointer)


def new_int():
    return ctypes.c_int()


def new_u64():
    return ctypes.c_uint64()


def new_lent_string():
    return ctypes.c_char_p()


def ref(variable):
    return ctypes.byref(variable)


class Handle:
    """An object of the library. close() frees it; so does the end of a with block, and the garbage collector."""

    _free = None  # name of the function that frees it

    def __init__(self, pointer):
        self._pointer = pointer

    @property
    def closed(self):
        return getattr(self, "_pointer", None) is None

    @property
    def pointer(self):
        if self.closed:
            raise ValueError(f"{type(self).__name__} is closed")
        return self._pointer

    def close(self):
        """Free the object; a second call does nothing."""
        pointer, self._pointer = getattr(self, "_pointer", None), None
        if pointer is not None:
            getattr(lib(), self._free)(pointer)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __del__(self):
        if not self.closed and _library is not None:
            self.close()

    def _set(self, name, *arguments):
        check(getattr(lib(), name)(self.pointer, *arguments), name)


_callbacks = {}
_released = []


def set_log(ctx, max_level, function):
    """Let a context log to function(level, line). The pair of callbacks lives until the library releases it."""
    token = object()
    key = id(token)

    def log(level, message, _):
        try:
            function(level, to_str(message))
        except Exception:  # an exception cannot cross the library
            sys.excepthook(*sys.exc_info())

    def release(_):
        # The pair is running while it is released: it goes when this function has returned.
        _released.append(_callbacks.pop(key, None))

    _released.clear()
    _callbacks[key] = (token, LOG_FN(log), RELEASE_FN(release))
    check(lib().cchv_ctx_set_log(ctx, max_level, _callbacks[key][1], None, _callbacks[key][2]), "cchv_ctx_set_log")
