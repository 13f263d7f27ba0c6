# SPDX-License-Identifier: Apache-2.0
"""asyncio: the VM is served by the event loop, through the fd that Vm.fileno() gives.

    async with cchv.aio.serve(vm) as server:
        await server.call(vm.boot)
        process = await server.popen(container, ["sort"], stdin=PIPE, stdout=PIPE)
        out, _ = await process.communicate(b"b\\na\\n")
        async for event in server.events(): ...

Calls that make a round trip run in a thread by server.call(): the library allows it for VMs, containers and execs."""
import asyncio
import os
import socket

from . import constants
from .execs import ExecConfig
from .process import Streams


class Process:
    """A process whose pipes are asyncio streams: stdin a StreamWriter, stdout and stderr StreamReaders."""

    def __init__(self, server, process):
        self.exec, self._server = process, server
        self.exit = None
        self.stdin = self.stdout = self.stderr = None
        self._writers = []

    @property
    def returncode(self):
        return None if self.exit is None else self.exit.returncode

    async def wait(self):
        """Wait for the end: returncode."""
        if self.exit is None:
            self.exit = await self._server.wait(self.exec)
        return self.returncode

    async def send_signal(self, number, target=constants.SignalTarget.GROUP):
        await self._server.call(self.exec.signal, number, target)

    async def kill(self):
        await self.send_signal(9)

    async def communicate(self, input=None):
        """Write input, close stdin, read the outputs to their ends, wait: (stdout, stderr)."""
        async def feed():
            try:
                if input:
                    self.stdin.write(input)
                    await self.stdin.drain()
                self.stdin.write_eof()
            except (BrokenPipeError, ConnectionResetError):
                pass  # the process does not want the rest

        async def nothing():
            return None

        _, stdout, stderr = await asyncio.gather(
            feed() if self.stdin else nothing(),
            self.stdout.read() if self.stdout else nothing(),
            self.stderr.read() if self.stderr else nothing())
        await self.wait()
        self.close()
        return stdout, stderr

    def close(self):
        """Close the pipes and free the handle; the process runs on."""
        for writer in self._writers:
            writer.close()
        self.exec.close()

    async def _open(self, stream, fd, limit):
        sock = socket.socket(fileno=fd)
        connect = asyncio.open_unix_connection if sock.family == socket.AF_UNIX else asyncio.open_connection
        try:
            reader, writer = await connect(sock=sock, limit=limit)
        except BaseException:
            sock.close()
            raise
        self._writers.append(writer)
        setattr(self, stream.name.lower(), writer if stream == constants.Stream.STDIN else reader)


class Server:
    """Serves one VM in the running event loop; see serve()."""

    def __init__(self, vm):
        self.vm = vm
        self._loop = asyncio.get_running_loop()
        self._listeners = []
        self._waiting = []
        self._failure = None
        self._stopped = False

    async def __aenter__(self):
        self._fd = self.vm.fileno()
        self._loop.add_reader(self._fd, self._ready)
        self._ready()
        return self

    async def __aexit__(self, *exception):
        self._loop.remove_reader(self._fd)
        self._end(asyncio.CancelledError())

    def _end(self, failure):
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(failure)
        self._waiting.clear()
        for queue in self._listeners:
            queue.put_nowait(None)

    def _ready(self):
        try:
            self.vm.dispatch()
            self._drain()
        except Exception as failure:  # whoever waits gets it; nobody would see it in a callback
            self._failure = failure
            self._loop.remove_reader(self._fd)
            self._end(failure)

    def _drain(self):
        while (event := self.vm.next_event()) is not None:
            for queue in self._listeners:
                queue.put_nowait(event)
            if event.type == constants.EventType.STOPPED:
                self._stopped = True
                self._loop.remove_reader(self._fd)
        gone = self._stopped or self.vm.state == constants.VmState.STOPPED
        for process, future in list(self._waiting):
            if gone or process.state == constants.ExecState.EXITED:
                self._waiting.remove((process, future))
                if not future.done():
                    future.set_result(None)

    async def call(self, function, *arguments, **options):
        """Run a blocking call of the library in a thread, and return its result."""
        try:
            return await self._loop.run_in_executor(None, lambda: function(*arguments, **options))
        finally:
            if not self._stopped and self._failure is None and not self.vm.closed:
                self._ready()  # the thread may have queued events and emptied the fd

    async def wait(self, process):
        """Wait for the end of an Exec: its Exit."""
        if self._failure is not None:
            raise self._failure
        future = self._loop.create_future()
        self._waiting.append((process, future))
        self._drain()
        try:
            await future
        finally:
            self._waiting = [pair for pair in self._waiting if pair[1] is not future]
        return await self.call(process.wait, 0)

    async def popen(self, target, args, *, stdin=None, stdout=None, stderr=None, limit=1 << 16, env=None, cwd=None,
                    user=None, tty=None, id=None, start_timeout=None):
        """Start a process in a container or VM: a Process. Streams are given as to Popen."""
        streams = Streams(stdin, stdout, stderr)
        with streams.stdio() as stdio, ExecConfig(args, id=id, env=env, cwd=cwd, user=user, tty=tty,
                                                  stdio=stdio) as config:
            process = Process(self, await self.call(target.exec, config, start_timeout))
        return await self._with_pipes(process, streams, limit)

    async def start(self, container, *, stdin=None, stdout=None, stderr=None, limit=1 << 16, start_timeout=None):
        """Start a container's init: a Process."""
        streams = Streams(stdin, stdout, stderr)
        with streams.stdio() as stdio:
            process = Process(self, await self.call(container.start, stdio, start_timeout))
        return await self._with_pipes(process, streams, limit)

    @staticmethod
    async def _with_pipes(process, streams, limit):
        taken = streams.take(process.exec)
        try:
            while taken:
                stream = next(iter(taken))
                await process._open(stream, taken.pop(stream), limit)
        except BaseException:
            for fd in taken.values():
                os.close(fd)
            process.close()
            raise
        return process

    async def events(self):
        """Events from now on, until the VM has stopped."""
        queue = asyncio.Queue()
        self._listeners.append(queue)
        try:
            while not (self._stopped and queue.empty()):
                event = await queue.get()
                if event is None:
                    if self._failure is not None:
                        raise self._failure
                    return
                yield event
        finally:
            self._listeners.remove(queue)


def serve(vm):
    """A Server for a VM, to be used by async with."""
    return Server(vm)
