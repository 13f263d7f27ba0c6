# SPDX-License-Identifier: Apache-2.0
"""Templates on the fake VMM: what is kept and what a clone gets of it, who starts cold and why, and builders that fail,
are killed, or meet."""
import contextlib
import fcntl
import hashlib
import json
import os
import signal
import threading
import time

import cchv
from cchv import Start, VmState

from support import PATIENCE, Case, main

MIB = 1 << 20
BASE = 128 * MIB


class TemplateCase(Case):
    def setUp(self):
        super().setUp()
        self.kernels = os.path.join(self.directory, "state", "kernels")
        self.templates = os.path.join(self.directory, "state", "templates")
        os.makedirs(self.kernels)
        for name in ("vmlinux", "initramfs.img"):
            with open(os.path.join(self.kernels, name), "wb") as file:
                file.write(name.encode())

    def config(self, **settings):
        return cchv.VmConfig(**{"vcpus": 1, "max_vcpus": 2, **settings})

    def build(self, context=None):
        return (context or self.context).build_template(timeout=PATIENCE)

    def unfinished(self):
        path = os.path.join(self.templates, "tmp")
        return os.listdir(path) if os.path.isdir(path) else []

    def hashes(self, key):
        directory = os.path.join(self.templates, key)
        return {name: hashlib.sha256(self.read(os.path.join(directory, name))).hexdigest()
                for name in os.listdir(directory)}

    def names(self, vm):
        return [call[0] for call in self.calls(vm)]

    def expect_cold(self, vm, reason):
        self.assertEqual(vm.start[0], Start.COLD)
        self.assertIn(reason, vm.start[1])
        self.assertIn("vm.create", self.names(vm))


class MainPath(TemplateCase):
    def test_build(self):
        key = self.build()
        self.assertEqual(self.context.list_templates(), [key])
        info = self.context.template_info(key)
        self.assertEqual((info["key"], info["vmm"]["version"], info["memory_bytes"]), (key, "53.0.0", BASE))
        self.assertEqual(info["kernel"], os.path.join(self.kernels, "vmlinux"))
        self.assertEqual(info["memory_used_bytes"], 2 * 4096)
        self.assertEqual(sorted(self.hashes(key)), ["config.json", "ram", "state.json", "template.json"])
        self.assertEqual([os.stat(os.path.join(self.templates, key, name)).st_mode & 0o777 for name in self.hashes(key)],
                         [0o400] * 4)
        self.assertEqual(self.unfinished(), [])
        with open(os.path.join(self.templates, key, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        zone = config["memory"]["zones"][0]
        self.assertEqual((zone["file"], zone["shared"], zone["size"], zone["hotplugged_size"]), ("ram", True, BASE, 0))
        self.assertEqual(config["cpus"], {"boot_vcpus": 1, "max_vcpus": 8, "nested": False})
        # Which pty the VMM had was chance: two templates of one key have the same settings.
        self.assertEqual(config["console"], {"mode": "Pty", "id": "console", "pci_device_id": 4})
        self.assertEqual([d for kind in ("disks", "net", "pmem", "fs") for d in config[kind]], [])
        before = self.hashes(key), info
        self.assertEqual(self.build(), key)
        self.assertEqual((self.hashes(key), self.context.template_info(key)), before)

    def test_start(self):
        key = self.build()
        before = self.hashes(key)
        disk = self.file("disk", size=MIB)
        vm = self.create(start=Start.TEMPLATE, memory=256 * MIB, vcpus=2, disks=[cchv.Disk(disk, id="d")])
        self.assertEqual(vm.start, (Start.TEMPLATE, None))
        self.assertEqual(vm.state, VmState.CREATED)
        # The size before the devices, and all of it while the guest stands still.
        self.assertEqual(self.names(vm)[:6],
                         ["vmm.ping", "vm.restore", "vm.info", "vm.resize", "vm.resize-zone", "vm.add-disk"])
        calls = {name: body for name, body, _ in self.calls(vm)}
        self.assertEqual(calls["vm.resize"], {"desired_vcpus": 2})
        self.assertEqual(calls["vm.resize-zone"], {"id": "m0", "desired_ram": (256 + 4 + 96) * MIB})
        with open(os.path.join(self.run, vm.id, "restore", "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.assertEqual((config["memory"]["shared"], config["memory"]["zones"][0]["shared"]), (False, False))
        self.assertNotIn("file", config["console"])
        self.assertEqual(vm.info(PATIENCE)["devices"],
                         [{"id": "d", "kind": "disk", "path": disk, "slot": 8, "address": "0000:00:08.0"}])
        vm.boot(PATIENCE)
        self.assertEqual(vm.state, VmState.RUNNING)
        self.assertEqual([name for name in self.names(vm) if name in ("vm.boot", "vm.create", "vm.resume")], ["vm.resume"])
        self.assertEqual(vm.info(PATIENCE)["template"], key)
        self.assertEqual(vm.info(PATIENCE)["boot_id"], "11111111-2222-3333-4444-555555555555")
        self.assertEqual(self.open(vm.id).start, (Start.TEMPLATE, None))
        vm.resize(memory=512 * MIB, timeout=PATIENCE)
        with self.refused(cchv.LimitError, "maximum"):
            vm.resize(vcpus=3, timeout=PATIENCE)
        vm.shutdown(PATIENCE)
        self.assertEqual(self.hashes(key), before)

    def test_the_smallest_is_not_resized(self):
        self.build()
        vm = self.create(start=Start.TEMPLATE, memory=16 * MIB)
        self.assertEqual(self.names(vm), ["vmm.ping", "vm.restore", "vm.info", "test.calls"])

    def test_pause_and_resume(self):
        self.build()
        vm = self.create(start=Start.TEMPLATE)
        vm.boot(PATIENCE)
        vm.pause(PATIENCE)
        vm.resume(PATIENCE)
        self.assertEqual(vm.state, VmState.RUNNING)

    def test_a_device_goes_before_the_guest_runs(self):
        self.build()
        path = self.file("disk", size=MIB)
        vm = self.create(start=Start.TEMPLATE, disks=[cchv.Disk(path, id="d")])
        self.plan({})
        vm.detach("d", PATIENCE)
        vm.boot(PATIENCE)
        self.until(lambda: vm.info(PATIENCE)["devices"] == [], "the device goes", vm)
        vm.attach_disk(cchv.Disk(path, id="d"), PATIENCE)

    def test_shared_memory_is_a_copy(self):
        key = self.build()
        before = self.hashes(key)
        vm = self.create(start=Start.TEMPLATE, shared_memory=True)
        with open(os.path.join(self.run, vm.id, "restore", "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.assertEqual((config["memory"]["shared"], config["memory"]["zones"][0]["shared"]), (True, True))
        # The fake wrote to it, as a guest would; the copy has no name any more.
        vm.boot(PATIENCE)
        self.assertEqual(self.hashes(key), before)
        self.assertEqual(self.unfinished(), [])
        self.assertFalse(os.path.exists(os.path.join(self.run, vm.id, "ram")))

    def test_a_copy_of_an_owner_that_died(self):
        self.build()
        self.plan({"api": {"vm.restore": {"stall": True}}})
        pid = os.fork()
        if pid == 0:
            try:
                cchv.Vm(self.config(shared_memory=True, kill_with_thread=True), context=self.new_context(), timeout=PATIENCE)
            finally:
                os._exit(1)
        # It is locked before it is filled. While its owner lives it is not taken away, whoever cleans up.
        self.until(lambda: [name for name in self.unfinished() if name.endswith(".ram") and
                            os.path.getsize(os.path.join(self.templates, "tmp", name)) == BASE], "the copy is there")
        self.context.prune()
        self.assertEqual(len(self.unfinished()), 1)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.until(lambda: not any(self.residents()), "the VMM goes with its owner")
        self.assertIn("unfinished", {finding.name: finding.text for finding in self.context.prune()}["template"])
        self.assertEqual(self.unfinished(), [])

    def test_clients_and_adopters(self):
        self.build()

        def make():
            self.kept = cchv.Vm(self.config(id="orphan", start=Start.TEMPLATE), context=self.new_context(), timeout=PATIENCE)
            return self.kept.id
        pid, id = self.in_child(make)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        vm = self.open(id)
        self.assertEqual(vm.start, (Start.TEMPLATE, None))
        vm.adopt()
        vm.boot(PATIENCE)
        self.assertEqual(vm.state, VmState.RUNNING)

    def test_remove(self):
        key = self.build()
        vm = self.create(start=Start.TEMPLATE)
        self.context.remove_template(key)
        self.assertEqual((self.context.list_templates(), self.unfinished()), ([], []))
        vm.boot(PATIENCE)
        with self.refused(cchv.NotFoundError, key):
            self.context.remove_template(key)
        with self.refused(cchv.NotFoundError, key):
            self.context.template_info(key)
        for wrong in ("", "../..", "x" * 64, key[:12]):
            with self.refused(cchv.NotFoundError):
                self.context.remove_template(wrong)
        self.assertEqual(self.build(), key)


class Choice(TemplateCase):
    def test_automatic(self):
        self.expect_cold(self.create(), "there is none")
        with self.refused(cchv.NotFoundError, "cannot start from a template", "there is none"):
            self.create(start=Start.TEMPLATE)
        self.build()
        self.assertEqual(self.create().start, (Start.TEMPLATE, None))
        vm = self.create(start=Start.COLD)
        self.assertEqual(vm.start, (Start.COLD, None))
        self.assertEqual(self.open(vm.id).start, (Start.COLD, None))

    def test_who_starts_cold(self):
        self.build()
        huge = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") + (1 << 30)
        for settings, reason in ((dict(kernel=self.kernel), "a kernel of its own"),
                                 (dict(initramfs=self.initramfs), "an initramfs of its own"),
                                 (dict(cmdline="loglevel=7"), "words of its own"),
                                 (dict(vcpus=1, max_vcpus=9), "more vCPUs"), (dict(max_memory=huge), "more memory"),
                                 (dict(uid=os.getuid(), gid=os.getgid()), "another user")):
            with self.subTest(reason):
                vm = self.create(**settings)
                self.expect_cold(vm, reason)
                self.assertIn(reason, self.open(vm.id).start[1])
                with self.refused(cchv.UnsupportedError, reason):
                    self.create(start=Start.TEMPLATE, **settings)
                with self.refused(cchv.UnsupportedError, reason):
                    self.context.build_template(self.config(**settings), PATIENCE)
        config = self.config()
        config.merge_json('{"memory": {"hugepages": true}}')
        vm = cchv.Vm(config, context=self.context, timeout=PATIENCE)
        self.vms.append(vm)
        self.expect_cold(vm, "JSON of its own")

    def test_another_part_is_another_template(self):
        first = self.build()
        for name in ("vmlinux", "initramfs.img"):
            with open(os.path.join(self.kernels, name), "ab") as file:
                file.write(b" new")
            self.expect_cold(self.create(), "there is none")
        second = self.build()
        self.assertNotEqual(first, second)
        self.assertEqual(self.context.list_templates(), sorted([first, second]))
        self.assertEqual(self.create().info(PATIENCE)["template"], second)

    def test_another_version_of_the_vmm(self):
        self.build()
        self.plan({"version": "53.1.0"})
        self.expect_cold(self.create(), "version 53.0.0 of the VMM, not 53.1.0")
        with self.refused(cchv.UnsupportedError, "version 53.0.0"):
            self.create(start=Start.TEMPLATE)

    def test_a_template_that_does_not_work(self):
        self.build()
        for action in ({"status": 500, "body": '["Error restoring", "no such state"]'}, {"exit": 1, "log": "no such state"},
                       {"raw": "HTTP/1.1 rubbish\r\n\r\n"}):
            self.plan({"api": {"vm.restore": action}})
            self.expect_cold(self.create(), "from template")
            with self.refused(cchv.Error, "from template"):
                self.create(start=Start.TEMPLATE)
        self.assertTrue(any("starting cold" in line for line in self.lines))
        self.plan({})
        self.assertEqual(self.create().start[0], Start.TEMPLATE)

    def test_what_is_no_fault_of_the_template(self):
        self.build()
        with self.refused(cchv.NotFoundError, "device 'd'"):
            self.create(disks=[cchv.Disk("/nonexistent/disk", id="d")])
        self.assertFalse(any("starting cold" in line for line in self.lines))

    def test_a_damaged_template(self):
        key = self.build()
        for name, content, reason in (("ram", b"short", "not 134217728"), ("template.json", b"{", "template"),
                                      ("template.json", b'{"key": "x"}', "damaged"), ("ram", None, "its memory")):
            path = os.path.join(self.templates, key, name)
            os.unlink(path)
            if content is not None:
                with open(path, "wb") as file:
                    file.write(content)
            self.expect_cold(self.create(), reason)
            with self.refused(cchv.ProtocolError, key[:12]):
                self.create(start=Start.TEMPLATE)
            self.assertEqual(self.build(), key)
            self.assertEqual(self.create().start[0], Start.TEMPLATE)


class Builders(TemplateCase):
    def expect_nothing(self):
        self.assertEqual((self.context.list_templates(), self.unfinished()), ([], []))
        self.assertEqual(os.listdir(self.run), [])

    def test_failures(self):
        refusal = {"status": 500, "body": '["no"]'}
        for plan, error in (({"argv": {"exit": 1, "log": "no"}}, cchv.VmmGoneError), ({"api": {"vm.boot": refusal}}, cchv.VmmError),
                            ({"api": {"vm.pause": refusal}}, cchv.VmmError), ({"api": {"vm.snapshot": refusal}}, cchv.VmmError),
                            ({"api": {"vm.snapshot": {"signal": 9, "after": True}}}, cchv.VmmGoneError),
                            ({"agent": {"calls": {"vm.settle": {"error": {"errno": "EIO", "kind": "other", "message": "no"}}}}},
                             cchv.GuestError),
                            ({"agent": {"calls": {"vm.settle": "drop"}}}, cchv.GuestGoneError)):
            with self.subTest(plan=plan):
                self.plan(plan)
                with self.refused(error, "building template"):
                    self.build()
                self.expect_nothing()
        self.plan({"agent": {"announce": False}})
        with self.refused(cchv.TimedOutError, "announce"):
            self.context.build_template(timeout=2)
        self.expect_nothing()
        self.plan({})
        self.build()

    def test_memory_that_is_written_to_after_the_snapshot(self):
        self.plan({"memory": {"mib": 100, "restless": True}})
        with self.refused(cchv.VmmError, "written to after the snapshot"):
            self.build()
        self.expect_nothing()

    def test_a_builder_is_killed(self):
        self.plan({"api": {"vm.snapshot": {"stall": True, "after": True}}})
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            try:
                self.build(self.new_context())
            finally:
                os._exit(1)
        os.close(writer)
        self.until(lambda: any(os.path.exists(os.path.join(self.templates, "tmp", name, "state.json"))
                               for name in self.unfinished()), "the snapshot is there")
        # Somebody else neither takes it away nor builds a second one meanwhile.
        self.assertEqual(self.context.prune(), [])
        with self.refused(cchv.TimedOutError, "another process is still building"):
            self.context.build_template(timeout=0.1)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reader)
        self.expect_cold(self.create(), "there is none")
        for vm in self.vms:
            vm.close()
        self.until(lambda: not any(self.residents()), "the VMM goes with its builder")
        found = {finding.name: finding.text for finding in self.context.prune()}
        self.assertIn("1 unfinished template", found["template"])
        self.expect_nothing()
        self.plan({})
        self.build()

    def test_what_a_killed_builder_left_is_gone_after_the_next(self):
        os.makedirs(os.path.join(self.templates, "tmp", "old"))
        self.file("state/templates/tmp/old/ram", b"x")
        self.build()
        self.assertEqual(self.unfinished(), [])

    def test_several_at_once_build_one(self):
        keys = []
        threads = [threading.Thread(target=lambda: keys.append(self.build(self.new_context()))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(keys)), 1)
        self.assertEqual(len(keys), 4)
        self.assertEqual(sum("VMM event vm/snapshotted" in line for line in self.lines), 1)


class Automatic(TemplateCase):
    """What is built and removed by itself."""

    def setUp(self):
        super().setUp()
        self.context = self.new_context(template_building=True)
        self.vmlinux = os.path.join(self.kernels, "vmlinux")

    def tearDown(self):
        for pid in self.builders():
            os.kill(pid, signal.SIGKILL)
        self.until(lambda: not self.builders(), "builders end")
        for vm in self.vms:
            vm.close()
        self.until(lambda: not any(self.residents()), "their VMMs end with them")
        self.context.prune()
        super().tearDown()

    def builders(self):
        """The builders' pids; not what a builder has forked and what has not yet become another program."""
        found = {}
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                words = self.read(f"/proc/{name}/cmdline").decode().split("\0") if name.isdigit() else []
                if "--detach" in words and any(word.startswith(self.directory) for word in words):
                    # "pid (name) state ppid": a name may have parentheses of its own.
                    found[int(name)] = int(self.read(f"/proc/{name}/stat").rsplit(b")", 1)[1].split()[1])
        return [pid for pid, parent in found.items() if parent not in found]

    def until_built(self):
        self.until(lambda: self.context.list_templates() and not self.builders(), "a template is built")

    def note(self, key):
        return os.path.join(self.templates, key + ".failed")

    def test_built_after_a_cold_start(self):
        vm = self.create()
        self.expect_cold(vm, "it is built when this VM is up")
        self.assertEqual((self.builders(), self.context.list_templates()), ([], []))
        vm.boot(PATIENCE)
        self.until_built()
        self.assertEqual((vm.state, vm.start[0]), (VmState.RUNNING, Start.COLD))
        self.assertEqual(self.create().start, (Start.TEMPLATE, None))
        self.assertEqual(self.build(), self.context.list_templates()[0])
        self.assertEqual(self.unfinished(), [])

    def test_by_itself_only_where_that_is_wanted(self):
        self.create(start=Start.COLD).boot(PATIENCE)
        self.boot(cmdline="loglevel=7")
        self.context = self.new_context()
        self.boot()
        self.assertEqual(self.builders(), [])
        self.assertFalse(os.path.exists(self.templates))

    def test_one_builder_which_is_replaced_when_it_was_killed(self):
        self.plan({"api": {"vm.snapshot": {"stall": True}}})
        self.boot()
        self.until(self.builders, "a builder")
        first = self.builders()
        self.until(lambda: os.sched_getscheduler(first[0]) == os.SCHED_IDLE, "it steps back")
        self.until(lambda: any("template-" in os.readlink(f"/proc/{pid}/cwd") for pid in self.residents()), "its VM")
        self.boot()
        self.assertEqual(self.builders(), first)
        os.kill(first[0], signal.SIGKILL)
        self.until(lambda: not self.builders(), "it dies")
        self.assertEqual(self.context.list_templates(), [])
        self.plan({})
        self.boot()
        self.until_built()

    def test_it_outlives_the_owner(self):
        def own():
            cchv.Vm(self.config(kill_with_thread=True), context=self.context, timeout=PATIENCE).boot(PATIENCE)
        pid = os.fork()
        if pid == 0:
            try:
                self.context = self.new_context(template_building=True)
                own()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        self.until_built()

    def test_a_failure_is_told_and_not_repeated(self):
        self.plan({"api": {"vm.snapshot": {"status": 500, "body": '["no snapshots here"]'}}})
        self.boot()
        self.until(lambda: os.path.isdir(self.templates) and
                   any(name.endswith(".failed") for name in os.listdir(self.templates)), "a note")
        self.until(lambda: not self.builders(), "the builder ends")
        vm = self.create()
        self.expect_cold(vm, "no snapshots here")
        vm.boot(PATIENCE)
        self.assertEqual(self.builders(), [])
        note, = (os.path.join(self.templates, name) for name in os.listdir(self.templates) if name.endswith(".failed"))
        # Only for an hour, and only as long as nobody has built it by hand.
        os.utime(note, (time.time() - 3601,) * 2)
        self.expect_cold(self.create(), "it is built when")
        self.context.prune()
        self.assertFalse(os.path.exists(note))
        with self.refused(cchv.VmmError, "no snapshots here"):
            self.build()
        self.expect_cold(self.create(), "no snapshots here")
        self.plan({})
        key = self.build()
        self.assertEqual(note, self.note(key))
        self.assertFalse(os.path.exists(note))
        self.assertEqual(self.create().start[0], Start.TEMPLATE)

    def make_old(self, key, days):
        path = os.path.join(self.templates, key, "template.json")
        info = json.loads(self.read(path))
        info["created_ns"] = time.time_ns() - days * 24 * 3600 * 10**9
        os.unlink(path)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(info, file)

    def made(self, key):
        with contextlib.suppress(cchv.NotFoundError):
            return self.context.template_info(key)["created_ns"]
        return 0

    def test_an_old_one_is_replaced(self):
        key, start = self.build(), time.time_ns()
        for days in (-1, 6):
            self.make_old(key, days)
            self.boot()
            self.assertEqual((self.build(), self.builders()), (key, []))
            self.assertLess(self.made(key), start + 2 * 24 * 3600 * 10**9)
        self.make_old(key, 8)
        vm = self.create()
        self.assertEqual(vm.start, (Start.TEMPLATE, None))
        vm.boot(PATIENCE)
        self.until(lambda: self.made(key) > start and not self.builders(), "a new one")
        self.make_old(key, 8)
        self.assertEqual(self.build(), key)
        self.assertGreater(self.made(key), start)
        # Or one of a thousand starts.
        counter = os.path.join(self.templates, key + ".starts")
        self.assertEqual(os.path.getsize(counter), 0)
        self.create()
        self.boot()
        self.assertEqual(os.path.getsize(counter), 2)
        before = self.made(key)
        os.truncate(counter, 998)
        self.assertEqual((self.create().start[0], self.build(), self.made(key)), (Start.TEMPLATE, key, before))
        self.assertEqual((self.create().start[0], self.build()), (Start.TEMPLATE, key))
        self.assertGreater(self.made(key), before)
        self.assertEqual(os.path.getsize(counter), 0)
        self.context.remove_template(key)
        self.assertFalse(os.path.exists(counter))
        self.build()
        # A VM that is just being started from the old one finds all of it.
        self.make_old(key, 8)
        with open(os.path.join(self.templates, key, "template.json")) as held:
            fcntl.flock(held, fcntl.LOCK_SH)
            builder = threading.Thread(target=self.build, args=[self.new_context()])
            builder.start()
            self.until(lambda: any(os.path.exists(os.path.join(self.templates, "tmp", name, "template.json"))
                                   for name in self.unfinished()), "the new one is complete")
            self.assertLess(self.made(key), start)
        builder.join()
        self.assertGreater(self.made(key), start)

    def test_a_clone_that_does_not_come_up(self):
        key = self.build()
        self.plan({"api": {"vm.resume": {"signal": 9}}})
        with self.assertRaises(cchv.VmmGoneError):
            self.create().boot(PATIENCE)
        self.assertEqual(self.context.list_templates(), [key], "what was killed says nothing of the template")
        self.plan({"api": {"vm.resume": {"status": 500, "body": '["no such register"]'}}})
        vm = self.create()
        self.assertEqual(vm.start, (Start.TEMPLATE, None))
        with self.refused(cchv.VmmError, "no such register"):
            vm.boot(PATIENCE)
        self.assertEqual(vm.start[0], Start.TEMPLATE)
        self.assertIn("no such register", vm.start[1])
        self.assertEqual(self.context.list_templates(), [])
        self.assertEqual(sum("is given up" in line for line in self.lines), 1)
        self.plan({})
        vm = self.create()
        self.expect_cold(vm, "did not come up")
        vm.boot(PATIENCE)
        self.assertEqual(self.builders(), [])
        self.assertEqual(self.build(), key)
        self.assertEqual(self.create().start, (Start.TEMPLATE, None))

    def test_prune_takes_what_is_of_no_use(self):
        key = self.build()
        self.assertEqual(self.context.prune(), [])
        self.assertEqual(self.context.list_templates(), [key])
        with open(self.vmlinux, "ab") as file:
            file.write(b" new")
        second = self.build()
        self.assertEqual([(f.name, f.status, f.text) for f in self.context.prune()],
                         [("template", cchv.constants.Finding.REMOVED, f"template '{key[:12]}': of another kernel, agent, VMM or host")])
        self.assertEqual(self.context.list_templates(), [second])
        os.unlink(os.path.join(self.templates, second, "ram"))
        self.assertIn("damaged", self.context.prune()[0].text)
        self.assertEqual((self.context.list_templates(), self.unfinished()), ([], []))
        third = self.build()
        os.unlink(self.vmlinux)
        self.assertIn(third[:12], self.context.prune()[0].text)
        self.assertEqual(self.context.list_templates(), [])


if __name__ == "__main__":
    main()
