# SPDX-License-Identifier: Apache-2.0
"""Cases and their runner. A test program defines functions with @case and ends with main(__file__): each case runs
in a process of its own with a time limit, and prints one line, "ok NAME", "FAILED NAME" or "skipped NAME REASON"."""
import argparse
import faulthandler
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback

import isolate
import leaks
import rootfs
from driver import SLOW, Cchv, wait_for

# The VMs of the program start from a template, where nothing says otherwise.
CLONES = os.environ.get("CCHV_TEST_CLONES") == "1"
FULL = os.environ.get("CCHV_TEST_FULL") == "1"
CASES = []
FIXTURES = {}


class Skip(Exception):
    pass


class Case:
    def __init__(self, function, full, timeout, needs, clean):
        self.function, self.full, self.timeout, self.needs, self.clean = function, full, timeout, needs, clean
        self.name = function.__name__


def case(full=False, timeout=60, needs=(), clean=False):
    """full: only with CCHV_TEST_FULL=1. needs: fixtures. clean: nothing may be left when it has ended."""
    def take(function):
        CASES.append(Case(function, full, timeout, needs, clean))
        return function
    return take


def fixture(function):
    """Something that several cases share: made once, when the first of them begins; gets the Tools."""
    FIXTURES[function.__name__] = function
    return function


def quick(small, large):
    """A length: small in the quick tier, large in the full one."""
    return large if FULL else small


def equal(found, wanted, what=""):
    if found != wanted:
        raise AssertionError(f"{what}: " * bool(what) + f"found {_short(found)}, wanted {_short(wanted)}")


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def holds(text, part):
    if part not in text:
        raise AssertionError(f"{_short(text)} does not have {part!r} in it")


def _short(value):
    text = repr(value)
    return text if len(text) < 2000 else f"{text[:900]} ... {text[-900:]}"


class Tools:
    """What a case gets: the command, directories, images, and a list of what it has to take away."""

    def __init__(self, build, source, work):
        self.build, self.source, self.work = build, source, work
        self.state, self.run = os.path.join(work, "state"), os.path.join(work, "run")
        self.cchv = Cchv(build, source, self.state, self.run)
        self.probe = self.cchv.probe
        self.full = FULL
        self.shared = {}
        self._names = []
        self._roots = {}

    def dir(self, name="d"):
        return tempfile.mkdtemp(prefix=name + "-", dir=os.path.join(self.work, "files"))

    def file(self, name, data=b""):
        path = os.path.join(self.dir(), name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def sparse(self, name, size):
        path = self.file(name)
        os.truncate(path, size)
        return path

    def tiny_root(self):
        """A directory with the tiny root file system, to be used as it is or copied."""
        if "tiny" not in self._roots:
            self._roots["tiny"] = rootfs.tiny(os.path.join(self.work, "files", "tiny"), self.probe)
        return self._roots["tiny"]

    def copy_root(self):
        return rootfs.copy(self.tiny_root(), self.dir("root"))

    def postgres_root(self):
        """A directory with Debian and PostgreSQL (examples/mkimage-postgres.sh)."""
        root = os.path.join(self.build, "tests/e2e/postgres")
        if not os.path.isdir(root):
            raise Skip("no root file system with PostgreSQL (tests/run.sh --full makes it)")
        return root

    def image(self, root, name):
        self.cchv("image", "import", "dir:" + root, "--name", name, code=0, timeout=120)
        return name

    def image_path(self, name):
        return json.loads(self.cchv("inspect", name, code=0).text)[0]["Path"]

    def start(self, name, *command, image="tiny", options=(), timeout=90):
        """A container in the background, removed when the case ends: its id."""
        self._names.append(name)
        return self.cchv.start(name, image, *command, options=options, timeout=timeout)

    def forget_at_end(self, name):
        self._names.append(name)
        return name

    def take_away(self):
        for name in self._names:
            self.cchv("rm", "-f", name, timeout=90)

    def snapshot(self):
        return leaks.Snapshot(self.work, self.run, self.state)


# ---- the fixtures that all programs share ----

@fixture
def tiny(t):
    """The image "tiny"."""
    t.image(t.tiny_root(), "tiny")


@fixture
def box(t):
    """The container "box" of tiny, which sleeps."""
    t.shared["box"] = t.cchv.start("box", "tiny", "sleep", "1000000")


FIXTURE_NEEDS = {"box": ("tiny",)}


# ---- running ----

class Runner:
    def __init__(self, tools, pattern):
        self.t, self.pattern = tools, pattern
        self.made, self.broken = set(), {}
        self.failed = 0

    def make(self, name):
        if name in self.made:
            return
        for other in FIXTURE_NEEDS.get(name, ()):
            self.make(other)
        if name in self.broken:
            raise AssertionError(f"fixture {name}: {self.broken[name]}")
        try:
            FIXTURES[name](self.t)
        except BaseException as e:
            self.broken[name] = f"{e}"[:300]
            print("\n".join("    " + line for line in self.t.cchv.evidence().splitlines()))
            raise
        self.made.add(name)

    def check_fixtures(self):
        """A shared container that died in a case is that case's failure, and is made anew for the next."""
        for name in list(self.t.shared):
            if self.t.cchv.state_of(name)["Status"] != "running":
                state = self.t.cchv.state_of(name)
                self.t.cchv("rm", "-f", name)
                del self.t.shared[name]
                self.made.discard(name)
                raise AssertionError(f"the shared container '{name}' is {state} after it")

    def run(self, one):
        start = time.monotonic()
        if one.full and not FULL:
            print(f"skipped {one.name} full tier")
            return
        try:
            for name in one.needs:
                self.make(name)
            before = self.t.snapshot() if one.clean else None
            outcome, text = self.in_child(one)
            if outcome == "ok":
                if self.t.shared:
                    self.check_fixtures()
                if before:
                    left = leaks.wait_until_clean(self.t.snapshot, before)
                    if left:
                        raise AssertionError("left behind:\n" + "\n".join(left))
        except Exception:
            outcome, text = "FAILED", traceback.format_exc()
        seconds = time.monotonic() - start
        if outcome == "skipped":
            print(f"skipped {one.name} {text}")
        elif outcome == "ok":
            print(f"ok {one.name} ({seconds:.1f} s)")
        else:
            self.failed += 1
            print(f"FAILED {one.name} ({seconds:.1f} s)")
            print("\n".join("    " + line for line in text.splitlines()))

    def in_child(self, one):
        with tempfile.TemporaryFile() as log:
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                self.child(one, log.fileno())
            status = self.await_child(pid, one.timeout * (10 if FULL else 1) * SLOW)
            log.seek(0)
            text = log.read().decode(errors="backslashreplace")
        if status is None:
            return "FAILED", f"no end after {one.timeout} s\n{text}\n{self.t.cchv.evidence()}"
        code = os.waitstatus_to_exitcode(status)
        if code == 77:
            return "skipped", text.splitlines()[-1] if text else ""
        return ("ok", text) if code == 0 else ("FAILED", f"code {code}\n{text}")

    def await_child(self, pid, seconds):
        pidfd = os.pidfd_open(pid)
        try:
            if select.select([pidfd], [], [], seconds)[0]:
                return os.waitpid(pid, 0)[1]
            # First its stack, then its end.
            os.kill(pid, signal.SIGUSR2)
            select.select([pidfd], [], [], 1)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        finally:
            os.close(pidfd)

    def child(self, one, fd):
        """The process of a case: whatever happens, it ends here."""
        code = 1
        try:
            os.dup2(fd, 1)
            os.dup2(fd, 2)
            isolate.die_with_parent()
            faulthandler.enable()
            faulthandler.register(signal.SIGUSR2, all_threads=True)
            try:
                one.function(self.t)
                code = 0
            except Skip as e:
                print(e)
                code = 77
            except BaseException:
                traceback.print_exc()
                print(self.t.cchv.evidence())
            self.t.take_away()
        except BaseException:
            traceback.print_exc()
            code = code or 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def finish(self, before):
        """Take the shared containers away: then nothing may be left of the whole program."""
        for name in self.t.shared:
            self.t.cchv("stop", "-t", "1", name, timeout=60)
            self.t.cchv("rm", "-f", name, timeout=60)
        left = leaks.wait_until_clean(self.t.snapshot, before)
        if left:
            self.failed += 1
            print("FAILED nothing_left")
            print("\n".join("    " + line for line in left))
        else:
            print("ok nothing_left")


def main():
    """The program's end. Arguments: BUILD SOURCE [-k PART_OF_A_NAME]."""
    work = isolate.enter()
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("source")
    parser.add_argument("-k", dest="pattern", default="")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    for name in ("files", "state", "run"):
        os.makedirs(os.path.join(work, name), mode=0o700, exist_ok=True)
    t = Tools(os.path.abspath(options.build), os.path.abspath(options.source), work)
    runner = Runner(t, options.pattern)
    if CLONES:
        t.cchv("template", "build", code=0, timeout=300)
    before = t.snapshot()
    for one in CASES:
        if options.pattern in one.name:
            runner.run(one)
    runner.finish(before)
    sys.exit(1 if runner.failed else 0)


__all__ = ["case", "fixture", "quick", "equal", "check", "holds", "wait_for", "main", "Skip", "FULL", "FIXTURE_NEEDS"]
