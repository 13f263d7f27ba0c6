# SPDX-License-Identifier: Apache-2.0
"""Objects, errors, events and callbacks, against the stand-in for the library."""
import gc
import os
import threading
import time
import unittest

import cchv
from cchv import _ffi


class Errors(unittest.TestCase):
    def test_error_object_becomes_exception(self):
        with self.assertRaises(cchv.ExistsError) as caught:
            cchv.Vm(cchv.VmConfig(id="taken"))
        error = caught.exception
        self.assertEqual((error.code, error.origin, error.errno, str(error)),
                         (-7, 3, 17, "VM 'taken' exists"))

    def test_setter_becomes_exception(self):
        with self.assertRaisesRegex(cchv.InvalidError, "cchv_vm_config_set_memory: invalid"):
            cchv.VmConfig(memory=0)

    def test_builtin_exceptions_catch(self):
        with self.assertRaises(LookupError):
            cchv.Image("missing")
        with self.assertRaises(TimeoutError):
            cchv.Vm().wait(0)
        self.assertTrue(issubclass(cchv.NoMemoryError, MemoryError))

    def test_unknown_code(self):
        error = _ffi.errors.make(-99, "new")
        self.assertEqual((type(error), error.code), (cchv.Error, -99))

    def test_function_that_the_library_lacks(self):
        with self.assertRaisesRegex(cchv.UnsupportedError, r"no cchv_vm_pause\(\)"):
            cchv.Vm().pause()
        with self.assertRaises(AttributeError):
            _ffi.lib().cchv_no_such_thing


class Conversions(unittest.TestCase):
    def test_timeouts(self):
        for seconds, ms in ((None, -1), (0, 0), (-1, 0), (0.0001, 1), (0.0015, 2), (1, 1000), (1e9, 0x7fffffff)):
            self.assertEqual(_ffi.to_ms(seconds), ms, seconds)

    def test_bytes_survive(self):
        raw = bytes(range(1, 256))
        self.assertEqual(os.fsencode(_ffi.to_str(raw)), raw)
        self.assertEqual(_ffi.to_bytes(raw), raw)
        self.assertEqual(_ffi.to_bytes("ä"), "ä".encode())


class Log(unittest.TestCase):
    def test_lines_and_release(self):
        lines = []
        context = cchv.Context(log=lambda level, line: lines.append((level, line)))
        self.assertEqual(lines, [(cchv.LogLevel.INFO, "log is on \udcff")])
        kept = len(_ffi._callbacks)
        context.close()
        self.assertEqual(len(_ffi._callbacks), kept - 1)

    def test_level(self):
        lines = []
        with cchv.Context(log=lambda *line: lines.append(line), log_level=cchv.LogLevel.ERROR):
            self.assertEqual(lines, [])

    def test_exception_in_log_is_reported_and_stays_outside_the_library(self):
        import sys
        seen = []
        hook, sys.excepthook = sys.excepthook, lambda kind, value, trace: seen.append(value)
        try:
            cchv.Context(log=lambda level, line: 1 / 0).close()
        finally:
            sys.excepthook = hook
        self.assertIsInstance(seen[0], ZeroDivisionError)


class Lifetimes(unittest.TestCase):
    def test_collector_frees(self):
        freed = []

        class Probe(cchv.VmConfig):
            def close(self):
                if not self.closed:
                    freed.append(1)
                super().close()

        probe = Probe()
        del probe
        gc.collect()
        self.assertEqual(freed, [1])

    def test_failed_constructor_is_no_trouble(self):
        for _ in range(3):
            with self.assertRaises(cchv.NotFoundError):
                cchv.Image("missing")
        gc.collect()


class Events(unittest.TestCase):
    def test_life_of_a_vm(self):
        vm = cchv.Vm(cchv.VmConfig(id="one"))
        self.assertEqual((vm.id, vm.state), ("one", cchv.VmState.CREATED))
        self.assertFalse(vm.poll(0))
        self.assertIsNone(vm.next_event())
        vm.boot()
        vm.exec(["sh", "-c", "exit 7"])
        events = []
        for event in vm.events():
            events.append(event)
            if event.type == cchv.EventType.EXEC_EXITED:
                vm.shutdown()
        self.assertEqual([e.type.name for e in events], ["STATE", "EXEC_EXITED", "STATE", "STOPPED"])
        state, exited, _, stopped = events
        self.assertIs(state.state, cchv.VmState.RUNNING)
        self.assertEqual((exited.container_id, exited.exec_id, exited.exit_code, exited.signal), ("main", "e1", 7, 0))
        self.assertIs(stopped.reason, cchv.Stop.GUEST_POWEROFF)
        self.assertIsNone(stopped.exit_code)
        self.assertEqual(list(vm.events()), [])
        self.assertIs(vm.wait(), cchv.Stop.GUEST_POWEROFF)

    def test_time_limit(self):
        vm = cchv.Vm()
        begin = time.monotonic()
        self.assertEqual(list(vm.events(0.2)), [])
        self.assertGreaterEqual(time.monotonic() - begin, 0.19)

    def test_wait_in_another_thread(self):
        vm = cchv.Vm()
        vm.boot()
        reasons = []
        thread = threading.Thread(target=lambda: reasons.append(vm.wait()))
        thread.start()
        vm.shutdown()
        thread.join(20)
        self.assertEqual(reasons, [cchv.Stop.GUEST_POWEROFF])

    def test_state_error(self):
        vm = cchv.Vm()
        vm.boot()
        with self.assertRaises(cchv.StateError):
            vm.boot()


if __name__ == "__main__":
    unittest.main()
