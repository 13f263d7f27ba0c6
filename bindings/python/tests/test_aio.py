# SPDX-License-Identifier: Apache-2.0
"""Serving a VM in asyncio, against the stand-in for the library."""
import asyncio
import os
import time
import unittest

import cchv
from cchv import PIPE


class Aio(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.vm = cchv.Vm()
        self.vm.boot()

    async def test_communicate(self):
        data = os.urandom(8 << 20)
        async with cchv.aio.serve(self.vm) as server:
            process = await server.popen(self.vm, ["sh", "-c", "cat; echo err >&2; exit 9"], stdin=PIPE, stdout=PIPE,
                                         stderr=PIPE)
            out, err = await asyncio.wait_for(process.communicate(data), 60)
            self.assertEqual((out == data, err, process.returncode), (True, b"err\n", 9))

    async def test_many_at_once_do_not_block_the_loop(self):
        async with cchv.aio.serve(self.vm) as server:
            running, go = asyncio.Semaphore(0), asyncio.Event()

            async def one(number):
                process = await server.popen(self.vm, ["sh", "-c", f"cat; exit {number}"], stdin=PIPE, stdout=PIPE)
                output = asyncio.ensure_future(process.stdout.read())
                running.release()
                # Reading waits for what is only sent when all ten run and read: a loop that is held never gets there.
                await go.wait()
                process.stdin.write(b"%d" % number)
                process.stdin.close()
                out = await output
                await process.wait()
                return out, process.returncode

            async def conduct():
                for _ in range(10):
                    await running.acquire()
                go.set()

            conductor = asyncio.ensure_future(conduct())
            results = await asyncio.wait_for(asyncio.gather(*map(one, range(10))), 60)
            await conductor
            self.assertEqual(results, [(b"%d" % n, n) for n in range(10)])

    async def test_dialogue_and_signal(self):
        async with cchv.aio.serve(self.vm) as server:
            process = await server.popen(self.vm, ["cat"], stdin=PIPE, stdout=PIPE)
            process.stdin.write(b"one\n")
            self.assertEqual(await asyncio.wait_for(process.stdout.readline(), 20), b"one\n")
            self.assertIsNone(process.returncode)
            await process.kill()
            self.assertEqual(await asyncio.wait_for(process.wait(), 20), -9)
            process.close()

    async def test_wait_for_one_that_has_ended(self):
        async with cchv.aio.serve(self.vm) as server:
            process = await server.popen(self.vm, ["true"])
            while process.exec.state != cchv.ExecState.EXITED:
                await asyncio.sleep(0.01)
            self.assertEqual(await asyncio.wait_for(process.wait(), 20), 0)
            self.assertEqual(await process.wait(), 0)

    async def test_events(self):
        async with cchv.aio.serve(self.vm) as server:
            seen = []

            async def listen():
                async for event in server.events():
                    seen.append(event.type.name)

            listener = asyncio.ensure_future(listen())
            await asyncio.sleep(0)
            process = await server.popen(self.vm, ["true"])
            await process.wait()
            await server.call(self.vm.shutdown)
            await asyncio.wait_for(listener, 20)
            self.assertEqual(seen, ["EXEC_EXITED", "STATE", "STOPPED"])

    async def test_end_of_the_vm_ends_all_waiting(self):
        async with cchv.aio.serve(self.vm) as server:
            process = await server.popen(self.vm, ["sleep", "1000"])
            waiting = asyncio.ensure_future(process.wait())
            await asyncio.sleep(0.05)
            await server.call(self.vm.shutdown)
            with self.assertRaises(cchv.TimedOutError):  # the stand-in's process is still there
                await asyncio.wait_for(waiting, 20)
            process.exec.signal(9)

    async def test_missing_program(self):
        async with cchv.aio.serve(self.vm) as server:
            with self.assertRaises(cchv.NotFoundError):
                await server.popen(self.vm, ["/no/such/program"], stdin=PIPE)

    async def test_idle_server_does_not_spin(self):
        async with cchv.aio.serve(self.vm) as server:
            await server.popen(self.vm, ["sleep", "2"])
            begin = time.process_time()
            await asyncio.sleep(0.5)
            self.assertLess(time.process_time() - begin, 0.2)


if __name__ == "__main__":
    unittest.main()
