# SPDX-License-Identifier: Apache-2.0
"""A pool keeps VMs started; see cchv/pool.h. It starts them in your event loop: call dispatch() when fileno() is
readable (in asyncio, loop.add_reader(pool.fileno(), pool.dispatch)), or sit in fill()."""
from . import _ffi, stats
from .context import default_context
from .vm import Vm
from .vm_config import VmConfig


class Pool(_ffi.Handle):
    """Pool(config, 4) keeps four VMs booted and paused; take() gives one that runs. close(), and the end of a with block,
    end those that were not taken. max_bytes bounds their memory, reserve is what the host shall have left beside them,
    start_timeout the seconds that a start may take."""

    _free = "cchv_pool_free"

    def __init__(self, config=None, target=1, *, context=None, max_bytes=None, reserve=None, start_timeout=None):
        super().__init__(None)
        own = config is None
        config = VmConfig() if own else config
        try:
            self._pointer = _ffi.call_for_handle("cchv_pool_new", (context or default_context()).pointer, config.pointer,
                                                 target)
        finally:
            if own:
                config.close()
        self.set(max_bytes=max_bytes, reserve=reserve, start_timeout=start_timeout)

    def set(self, *, target=None, max_bytes=None, reserve=None, start_timeout=None):
        """Change what is given. It takes effect with the next dispatch."""
        if target is not None:
            self._set("cchv_pool_set_target", target)
        if max_bytes is not None:
            self._set("cchv_pool_set_max_bytes", max_bytes)
        if reserve is not None:
            self._set("cchv_pool_set_reserve", reserve)
        if start_timeout is not None:
            self._set("cchv_pool_set_start_timeout", _ffi.to_ms(start_timeout))

    def fileno(self):
        """The fd to poll: readable means dispatch(). It is the same for the life of the object."""
        return _ffi.check(_ffi.lib().cchv_pool_get_fd(self.pointer), "cchv_pool_get_fd")

    def dispatch(self):
        """Do what is to be done now: go on with a start, notice VMs that died, let VMs go."""
        _ffi.call("cchv_pool_dispatch", self.pointer)

    def fill(self, timeout=None):
        """Dispatch until the pool has its VMs; raises what keeps it from that."""
        _ffi.wait_in_slices(timeout, lambda ms: _ffi.call("cchv_pool_fill", self.pointer, ms))

    def check(self):
        """Raise what keeps the pool from its target, if something does."""
        _ffi.call("cchv_pool_check", self.pointer)

    def take(self, hostname=None, timeout=None):
        """A running Vm, which is yours: one that was kept, or one that is started by this call where there is none
        (then vm.was_kept is False)."""
        vm = Vm.__new__(Vm)
        out = _ffi.HandleOut()
        kept = _ffi.call("cchv_pool_take", self.pointer, _ffi.to_bytes(hostname), _ffi.to_ms(timeout), out.ref)
        _ffi.Handle.__init__(vm, out.pointer)
        vm.was_kept = bool(kept)
        return vm

    def stats(self):
        """Counts and bytes: pool.ready, pool.private_bytes and others."""
        return stats.take(_ffi.call_for_handle("cchv_pool_get_stats", self.pointer))
