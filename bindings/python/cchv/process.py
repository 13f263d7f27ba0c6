# SPDX-License-Identifier: Apache-2.0
"""Processes in the form of the module subprocess. With PIPE the file objects are the streams' own sockets: nobody
copies in between, and reading and writing needs no call to the library. Two things differ from subprocess: a stream
that is not given is /dev/null, and returncode has exit_code and signal beside it."""
import os
import selectors
import subprocess
import time
from io import TextIOWrapper

from . import errors
from .constants import SignalTarget, Stream, VmState
from .execs import ExecConfig, Stdio

PIPE = subprocess.PIPE
STDOUT = subprocess.STDOUT
DEVNULL = subprocess.DEVNULL

_CHUNK = 1 << 16


class CompletedProcess(subprocess.CompletedProcess):
    """What run() returns. exit_code is None where a signal killed the process; signal is 0 where none did."""

    def __init__(self, args, exit, stdout, stderr):
        super().__init__(args, exit.returncode, stdout, stderr)
        self.exit_code, self.signal = exit.exit_code, exit.signal


def _fd_of(file):
    return file if isinstance(file, int) else file.fileno()


class Streams:
    """The stdin, stdout and stderr arguments of a call, made into a Stdio."""

    def __init__(self, stdin=None, stdout=None, stderr=None):
        if stderr == STDOUT:
            if stdout in (None, PIPE, DEVNULL):
                raise ValueError("stderr=STDOUT needs stdout to be a file: the guest has a stream for each")
            stderr = stdout
        self.pipes = [stream for stream, wish in zip(Stream, (stdin, stdout, stderr)) if wish == PIPE]
        self.files = {stream: _fd_of(wish) for stream, wish in zip(Stream, (stdin, stdout, stderr))
                      if wish not in (None, PIPE, DEVNULL)}

    def stdio(self):
        stdio = Stdio()
        for stream in self.pipes:
            stdio.set_pipe(stream)
        for stream, fd in self.files.items():
            stdio.set_fd(stream, fd)
        return stdio

    def take(self, process):
        """{stream: fd} of the pipes of a process that has been started; all of them or none."""
        taken = {}
        try:
            for stream in self.pipes:
                taken[stream] = process.take_fd(stream)
        except BaseException:
            for fd in taken.values():
                os.close(fd)
            raise
        return taken


class Popen:
    """A process that was started in a container or VM; Popen.init() starts a container's own. exec is the Exec behind
    it. At the end of a with block the pipes are closed and the process is waited for."""

    def __init__(self, target, args, *, stdin=None, stdout=None, stderr=None, text=False, encoding=None, errors=None,
                 env=None, cwd=None, user=None, tty=None, id=None, start_timeout=None):
        streams = Streams(stdin, stdout, stderr)
        with streams.stdio() as stdio:
            with ExecConfig(args, id=id, env=env, cwd=cwd, user=user, tty=tty, stdio=stdio) as config:
                process = target.exec(config, start_timeout)
        self._begin(process, args, streams, text, encoding, errors)

    @classmethod
    def init(cls, container, *, stdin=None, stdout=None, stderr=None, text=False, encoding=None, errors=None,
             start_timeout=None):
        """Start a container's init; it is a Popen as any other."""
        streams = Streams(stdin, stdout, stderr)
        with streams.stdio() as stdio:
            process = container.start(stdio, start_timeout)
        popen = cls.__new__(cls)
        popen._begin(process, container.spec["process"]["args"], streams, text, encoding, errors)
        return popen

    def _begin(self, process, args, streams, text, encoding, errors):
        self.exec, self.args = process, args
        self.exit = None
        self.stdin = self.stdout = self.stderr = None
        self._encoding, self._errors = encoding, errors
        self.text_mode = bool(text or encoding or errors)
        try:
            taken = streams.take(process)
        except BaseException:
            process.close()
            raise
        for stream, fd in taken.items():
            file = os.fdopen(fd, "wb" if stream == Stream.STDIN else "rb")
            if self.text_mode:
                file = TextIOWrapper(file, encoding=encoding, errors=errors, write_through=stream == Stream.STDIN)
            setattr(self, stream.name.lower(), file)

    @property
    def pid(self):
        """Process id as the guest's root namespace counts."""
        return self.exec.pid

    @property
    def returncode(self):
        """None while it runs; the exit code, or minus the signal that killed it."""
        return None if self.exit is None else self.exit.returncode

    def poll(self):
        """Look whether it has ended: returncode."""
        if self.exit is None:
            try:
                self.exit = self.exec.wait(0)
            except errors.TimedOutError:
                pass
        return self.returncode

    def wait(self, timeout=None):
        """Wait for its end: returncode. Raises subprocess.TimeoutExpired."""
        if self.exit is None:
            try:
                self.exit = self.exec.wait(timeout)
            except errors.TimedOutError:
                raise subprocess.TimeoutExpired(self.args, timeout) from None
        return self.returncode

    def send_signal(self, number, target=SignalTarget.GROUP):
        """Signal its process group, or it alone. One that has ended is no error."""
        if self.exit is None:
            try:
                self.exec.signal(number, target)
            except errors.NotFoundError:
                pass

    def terminate(self):
        self.send_signal(15)

    def kill(self):
        self.send_signal(9)

    def communicate(self, input=None, timeout=None):
        """Write input to stdin and close it, read stdout and stderr to their ends, wait: (stdout, stderr). After a
        subprocess.TimeoutExpired it can be called again, without input, and nothing is lost."""
        if not hasattr(self, "_exchange"):
            self._exchange = _Exchange(self, input)
        elif input is not None:
            raise ValueError("input was given by the first communicate()")
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._exchange.run(deadline):
            raise subprocess.TimeoutExpired(self.args, timeout, *self._exchange.outputs(raw=True))
        self.wait(None if deadline is None else max(0, deadline - time.monotonic()))
        return self._exchange.outputs()

    def __enter__(self):
        return self

    def __exit__(self, kind, *exception):
        self.close_pipes()
        try:
            self.wait()
        except errors.Error:
            if kind is None:
                raise

    def close_pipes(self):
        """Close what is open of stdin, stdout and stderr; the process runs on."""
        for file in (self.stdin, self.stdout, self.stderr):
            if file is not None:
                try:
                    file.close()
                except (BrokenPipeError, ConnectionResetError):
                    pass

    def delete(self):
        """Drop the guest's record of the process, which must have ended."""
        self.exec.delete()


class _Exchange:
    """All streams of one communicate(), which survives a timeout."""

    def __init__(self, popen, input):
        self.popen = popen
        self.read = {}
        self.selector = selectors.DefaultSelector()
        if popen.stdin is not None and not popen.stdin.closed:
            try:
                popen.stdin.flush()
            except (BrokenPipeError, ConnectionResetError):
                pass
            if isinstance(input, str):
                input = input.encode(popen._encoding or "utf-8", popen._errors or "strict")
            self.input = memoryview(input or b"").cast("B")
            self._watch(popen.stdin, selectors.EVENT_WRITE)
        elif input:
            raise ValueError("input needs stdin=PIPE")
        for file in (popen.stdout, popen.stderr):
            if file is not None:
                self.read[file] = []
                if not file.closed:
                    self._watch(file, selectors.EVENT_READ)

    def _watch(self, file, event):
        os.set_blocking(file.fileno(), False)
        self.selector.register(file, event)

    def _finish(self, file):
        self.selector.unregister(file)
        try:
            file.close()
        except (BrokenPipeError, ConnectionResetError):
            pass

    def run(self, deadline):
        """Move bytes until all streams have ended: True; False when the time is over first. The VM is served meanwhile:
        a stream that leads to a file goes nowhere without, and the guest's console is drained."""
        vm = self.popen.exec.vm
        fd = vm.fileno() if vm is not None and not vm.closed and self._open_streams() else None
        if fd is not None:
            self.selector.register(fd, selectors.EVENT_READ)
        try:
            return self._run(vm, fd, deadline)
        finally:
            if fd in (self.selector.get_map() or ()):
                self.selector.unregister(fd)

    def _open_streams(self):
        # A selector that is closed has no map: all has been said.
        return [key for key in (self.selector.get_map() or {}).values() if not isinstance(key.fileobj, int)]

    def _run(self, vm, fd, deadline):
        while self._open_streams():
            if fd in self.selector.get_map():
                vm.dispatch()
                if vm.state == VmState.STOPPED:  # readable from here on, whatever is served
                    self.selector.unregister(fd)
            left = None if deadline is None else max(0, deadline - time.monotonic())
            ready = self.selector.select(left)
            if not ready and left == 0:
                return False
            for key, _ in ready:
                if key.fileobj is self.popen.stdin:
                    self._write(key.fileobj)
                elif not isinstance(key.fileobj, int):
                    self._read(key.fileobj)
        self.selector.close()
        return True

    def _write(self, file):
        try:
            while self.input:
                self.input = self.input[os.write(file.fileno(), self.input[:_CHUNK]):]
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError):
            pass  # the process does not want the rest
        self._finish(file)

    def _read(self, file):
        try:
            data = os.read(file.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if data:
            self.read[file].append(data)
        else:
            self._finish(file)

    def outputs(self, raw=False):
        found = []
        for file in (self.popen.stdout, self.popen.stderr):
            data = b"".join(self.read[file]) if file is not None else None
            if data is not None and self.popen.text_mode and not raw:
                text = data.decode(self.popen._encoding or "utf-8", self.popen._errors or "strict")
                data = text.replace("\r\n", "\n").replace("\r", "\n")
            found.append(data)
        return tuple(found)


def finish(popen, input=None, timeout=None, check=False):
    """Communicate with a process and give its CompletedProcess; a process that is too slow is killed."""
    try:
        stdout, stderr = popen.communicate(input, timeout)
    except subprocess.TimeoutExpired as late:
        popen.kill()
        late.stdout, late.stderr = popen.communicate()
        raise
    except BaseException:
        popen.close_pipes()
        try:
            popen.kill()
        except errors.Error:
            pass  # the first failure is the one to tell, and often this one's cause
        raise
    done = CompletedProcess(popen.args, popen.exit, stdout, stderr)
    if check:
        done.check_returncode()
    return done


def pipes_for(input, capture_output, streams):
    """The stdin, stdout and stderr of a run() with input and capture_output."""
    if input is not None:
        if streams.get("stdin") is not None:
            raise ValueError("stdin and input exclude each other")
        streams["stdin"] = PIPE
    if capture_output:
        if streams.get("stdout") is not None or streams.get("stderr") is not None:
            raise ValueError("stdout and stderr exclude capture_output")
        streams["stdout"] = streams["stderr"] = PIPE
    return streams


class Runner:
    """run() and popen() for what has an exec(): containers and VMs."""

    def popen(self, args, **options):
        """Start a process; see Popen for the options."""
        return Popen(self, args, **options)

    def run(self, args, *, input=None, capture_output=False, timeout=None, check=False, **options):
        """Run a process to its end, as subprocess.run() does, and return a CompletedProcess."""
        popen = Popen(self, args, **pipes_for(input, capture_output, options))
        try:
            return finish(popen, input, timeout, check)
        finally:
            if popen.exit is not None:
                popen.delete()
            popen.exec.close()
