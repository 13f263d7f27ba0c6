#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fake VMM with an agent that runs processes: those of the containers, here on this machine.

What a container's process does is what the program in its arguments does. Streams, ends, signals and exit statuses are real,
so that what the shim says of them can be compared. Everything else is fake_vmm.py's, plans and orders too.
"""
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fake"))
import fake_vmm  # noqa: E402


class Process:
    """One that runs, with its streams pumped and counted."""

    def __init__(self, agent, params, words, streams, environment):
        self.agent, self.params, self.streams = agent, params, streams
        self.input_end, self.received, self.is_told = None, 0, False
        self.lock = threading.Condition()
        self.popen = subprocess.Popen(words, stdin=subprocess.PIPE if "stdin" in streams else subprocess.DEVNULL,
                                      stdout=subprocess.PIPE if "stdout" in streams else subprocess.DEVNULL,
                                      stderr=subprocess.PIPE if "stderr" in streams else subprocess.DEVNULL,
                                      start_new_session=True, env=environment)
        self.pumps = []
        if "stdin" in streams:
            threading.Thread(target=self.feed, daemon=True).start()
        self.sent = {name: 0 for name in streams if name != "stdin"}
        for name in self.sent:
            thread = threading.Thread(target=self.drain, args=(name,), daemon=True)
            thread.start()
            self.pumps.append(thread)

    def feed(self):
        source, target = self.streams["stdin"], self.popen.stdin
        with self.lock:
            while self.input_end is None or self.received < self.input_end:
                self.lock.release()
                source.settimeout(0.05)
                try:
                    data = source.recv(65536)
                except socket.timeout:
                    data = None
                except OSError:
                    data = b""
                self.lock.acquire()
                if data == b"":
                    break
                if data:
                    self.received += len(data)
                    try:
                        target.write(data)
                        target.flush()
                    except OSError:
                        break
        try:
            target.close()
        except OSError:
            pass

    def drain(self, name):
        source, target = getattr(self.popen, name), self.streams[name]
        while data := source.read1(65536):
            try:
                target.sendall(data)
            except OSError:
                pass
            self.sent[name] += len(data)
        try:
            target.shutdown(socket.SHUT_WR)
            target.recv(1)
        except OSError:
            pass
        target.close()

    def wait(self, finished):
        self.popen.wait()
        for thread in self.pumps:
            thread.join(1)
        code = self.popen.returncode
        finished(self, code << 8 if code >= 0 else -code)

    def signal(self, number, scope):
        if self.popen.poll() is not None:
            return False
        if scope == "leader":
            self.popen.send_signal(number)
        else:
            os.killpg(self.popen.pid, number)
        return True


class Agent(fake_vmm.Agent):
    def __init__(self, vmm, plan):
        super().__init__(vmm, plan)
        self.bound, self.binding = {}, threading.Condition()
        self.specs, self.processes = {}, {}
        self.sending = threading.RLock()

    def notify(self, message):
        # Numbers go out in their order, and frames whole, whichever thread has something to say.
        with self.sending:
            super().notify(message)

    def tell(self, connection, message):
        with self.sending:
            self.send(connection, message)

    def talk(self, connection):
        line = b""
        while not line.endswith(b"\n"):
            byte = connection.recv(1)
            if not byte:
                return
            line += byte
        # A guest that stands still answers when it goes on.
        self.running.wait()
        connection.sendall(b"OK 1073741824\n")
        first = self.receive(connection)
        if first and first.get("kind") == "stream":
            with self.binding:
                self.bound[first["token"]] = connection
                self.binding.notify_all()
            return
        if first is None or first.get("kind") != "control":
            return
        self.send(connection, {"hello": {"version": 1, "agent": "0.0.fake", "boot_id": self.boot_id if self.configured else "",
                                         "features": ["archive", "copy", "net"], "seq": self.seq}})
        self.peers.append(connection)
        while (request := self.receive(connection)) is not None:
            threading.Thread(target=self.answer, args=(connection, request), daemon=True).start()
        # As the agent does: who says no more is answered no more.
        self.peers = [peer for peer in self.peers if peer is not connection]
        connection.close()

    def answer(self, connection, request):
        handler = getattr(self, "on_" + request["method"].replace(".", "_"), None)
        if "record" in self.plan:
            with open(self.plan["record"], "a", encoding="utf-8") as f:
                f.write(json.dumps([request["method"], request.get("params", {})]) + "\n")
        if request["method"] in self.plan.get("calls", {}) or not handler:
            with self.sending:
                super().answer(connection, request)
            return
        try:
            result = handler(request.get("params", {}))
        except OSError as error:
            self.tell(connection, {"id": request["id"], "error": {
                "errno": errno.errorcode.get(error.errno, "EIO"), "kind": "program" if error.filename else "exec",
                "message": f"run '{error.filename}': {os.strerror(error.errno)}"}})
            return
        if result is not None:
            self.tell(connection, {"id": request["id"], "result": result})

    def on_container_create(self, params):
        process = params["spec"].get("process")
        if params.get("check_program") and process and process["args"][0] != "/cchv-pause":
            paths = [entry[5:] for entry in process.get("env", []) if entry.startswith("PATH=")]
            if not shutil.which(process["args"][0], mode=os.F_OK, path=paths[-1] if paths else None):
                raise OSError(errno.ENOENT, "", process["args"][0])
        self.specs[params["container"]] = params["spec"]
        return {}

    def on_container_state(self, params):
        mine = {e: p for (c, e), p in self.processes.items() if c == params["container"]}
        running = "" in mine and mine[""].popen.poll() is None
        return {"state": "running" if running else "stopped" if "" in mine else "created",
                "pid": mine[""].popen.pid if running else 0, "execs": sorted(mine)}

    def streams_of(self, params):
        found = {}
        for name, stream in params.get("streams", {}).items():
            with self.binding:
                if not self.binding.wait_for(lambda: stream["token"] in self.bound, 5):
                    raise OSError(110, "stream")
                found[name] = self.bound.pop(stream["token"])
        return found

    def on_exec_start(self, params):
        process = params.get("process") or self.specs[params["container"]]["process"]
        # Of archives there is one, as the plan has it: what a container has written, or what a program says.
        if "archive" in params:
            process = {"args": self.plan.get("archive") or ["cat", self.plan.get("changes", "/does/not/exist")]}
        streams = self.streams_of(params)
        time.sleep(self.plan.get("slow_start", 0))
        # The program of an image, which no machine but a guest has at that place.
        if process["args"] == ["/cchv-pause"]:
            process = {"args": ["tail", f"--pid={os.getpid()}", "--follow", "/dev/null"]}
        environment = dict(item.split("=", 1) for item in process.get("env", []))
        # There is no terminal here: its process says what it would have been.
        environment["TERMINAL"] = f"{process.get('terminal', False)} {params.get('rows')} {params.get('cols')}"
        try:
            running = Process(self, params, process["args"], streams, {"PATH": os.environ["PATH"], **environment})
        except OSError as error:
            for stream in streams.values():
                stream.close()
            raise OSError(error.errno, "", process["args"][0]) from None
        self.processes[params["container"], params["exec"]] = running
        threading.Timer(0.02, running.wait, (self.finished,)).start()
        return {"pid": running.popen.pid}

    def finished(self, process, status):
        params = process.params
        if params["exec"] == "":
            # Init's end is that of all of its container.
            others = [p for (c, e), p in self.processes.items() if c == params["container"] and e and p.popen.poll() is None]
            for other in others:
                other.signal(signal.SIGKILL, "group")
            for other in others:
                other.popen.wait()
                for thread in other.pumps:
                    thread.join(1)
            time.sleep(0.05 if others and not self.plan.get("init_first") else 0)
        self.notify({"event": "exited", "container": params["container"], "exec": params["exec"], "pid": process.popen.pid,
                     "status": status, "time_ns": time.time_ns(), "bytes": dict(process.sent), "oom": False})
        process.is_told = True

    def find(self, params):
        process = self.processes.get((params["container"], params["exec"]))
        if not process:
            raise OSError(2, "exec")
        return process

    def on_exec_state(self, params):
        process = self.find(params)
        if process.popen.poll() is None:
            return {"state": "running", "pid": process.popen.pid}
        code = process.popen.returncode
        return {"state": "exited", "pid": process.popen.pid, "status": code << 8 if code >= 0 else -code, "time_ns": time.time_ns(),
                "bytes": dict(process.sent), "oom": False}

    def on_exec_signal(self, params):
        self.find(params)
        scope = params.get("scope", "group")
        targets = [p for (c, _), p in self.processes.items() if c == params["container"]] if scope == "container" else \
            [self.find(params)]
        done = [t.signal(params["signal"], scope) for t in targets]
        if not any(done):
            raise OSError(3, "exec")
        # The answer may be slower than the end that the signal brings.
        while self.plan.get("signal_answers_last") and not all(t.is_told for t in targets):
            time.sleep(0.01)
        return {}

    def on_exec_close_stdin(self, params):
        process = self.find(params)
        with process.lock:
            process.input_end = params["bytes"]
        return {}

    def on_vm_stats(self, params):
        return {"memory.total_bytes": 64 << 20, "memory.used_bytes": 3 << 20, "cpu.usage_ns": 7000000, "processes": 9}

    def on_container_stats(self, params):
        return {"cpu.usage_ns": 5000000, "cpu.user_ns": 3000000, "cpu.system_ns": 2000000, "memory.current_bytes": 1 << 20,
                "memory.peak_bytes": 2 << 20, "memory.inactive_file_bytes": 4096, "memory.anon_bytes": 8192, "pids.current": 3,
                "memory.limit_bytes": 64 << 20, "io.read_bytes": 11, "io.write_bytes": 12, "io.read_ops": 13,
                "io.write_ops": 14, "memory.oom_kills": 1}


fake_vmm.Agent = Agent

if __name__ == "__main__":
    fake_vmm.main()
