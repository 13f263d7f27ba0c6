# SPDX-License-Identifier: Apache-2.0
"""Snapshots on the fake VMM: what one holds, what a VM that is made of it gets, what is refused, and that nothing is left
of what fails."""
import fcntl
import json
import os
import shutil
import signal
import threading
import time

import cchv
from cchv import ContainerState, RestoreConfig, Start, Stream, VmState

from support import PATIENCE, Case, main

MIB = 1 << 20


class SnapshotCase(Case):
    def setUp(self):
        super().setUp()
        self.disk = self.file("disk", b"a disk", MIB)
        self.image = self.file("image", b"an image", 2 * MIB)
        self.kept = os.path.join(self.directory, "kept")
        os.mkdir(self.kept)
        self.snap = os.path.join(self.kept, "snap")
        self.disks = os.path.join(self.directory, "disks")
        os.mkdir(self.disks)

    def source(self, **settings):
        return self.boot(disks=[cchv.Disk(self.disk, id="d"), cchv.Disk(self.image, id="ro", readonly=True)],
                         pmems=[cchv.Pmem(self.image, id="p")], memory=256 * MIB, vcpus=2, **settings)

    def restore(self, directory=None, timeout=PATIENCE, context=None, **settings):
        with RestoreConfig(directory or self.snap, **{"disk_dir": self.disks, **settings}) as config:
            vm = cchv.Vm.restore(config, context=context or self.context, timeout=timeout)
        self.vms.append(vm)
        return vm

    def names(self, vm):
        return [call[0] for call in self.calls(vm)]

    def asked(self, vm):
        return [(request["method"], request.get("params") or {}) for request in self.calls(vm, "requests")]

    def nothing_is_left(self):
        self.assertEqual(os.listdir(self.kept), [])

    def nothing_was_restored(self, *vms):
        self.assertEqual(sorted(self.context.list_vms()), sorted(vm.id for vm in vms))
        self.assertEqual(os.listdir(self.disks), [])

    def edit(self, change):
        path = os.path.join(self.snap, "snapshot.json")
        with open(path, encoding="utf-8") as file:
            info = json.load(file)
        change(info)
        os.chmod(path, 0o600)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(info, file)


class Taking(SnapshotCase):
    def test_what_is_kept(self):
        vm = self.source()
        before = self.read(self.disk)
        vm.snapshot(self.snap, PATIENCE)
        self.assertEqual(vm.state, VmState.RUNNING)
        self.assertEqual(self.names(vm)[-5:], ["vm.info", "vm.pause", "vm.snapshot", "vm.resume", "test.calls"])
        # Output is held, what was written is written, before; the clock is set after.
        self.assertEqual([method for method, _ in self.asked(vm)][-5:],
                         ["container.list", "vm.hold", "vm.sync", "vm.configure", "vm.hold"])
        info = cchv.snapshot_info(self.snap)
        self.assertEqual((info["format"], info["vm"], info["vcpus"], info["memory_bytes"]), (1, vm.id, 2, 256 * MIB))
        self.assertEqual(info["vmm"], {"kind": "cloud-hypervisor", "version": "53.0.0"})
        self.assertEqual([(d["id"], d["kind"], d["path"], d["bytes"], d.get("copy")) for d in info["devices"]],
                         [("d", "disk", self.disk, MIB, "disks/d.img"), ("ro", "disk", self.image, 2 * MIB, None),
                          ("p", "pmem", self.image, 2 * MIB, None)])
        self.assertEqual(sorted(f["name"] for f in info["files"]),
                         ["disks/d.img", "vmm/config.json", "vmm/memory-ranges", "vmm/state.json"])
        self.assertEqual(self.read(os.path.join(self.snap, "disks", "d.img")), before)
        self.assertEqual(os.stat(self.snap).st_mode & 0o777, 0o700)
        self.assertEqual(os.listdir(self.kept), ["snap"])

    def test_a_client_takes_one(self):
        vm = self.source()
        client = self.open(vm.id)
        client.snapshot(self.snap, PATIENCE)
        self.assertEqual(len(cchv.snapshot_info(self.snap)["devices"]), 3)
        client.close()
        vm.pause(PATIENCE)
        # What runs in it only its owner knows then.
        client = self.open(vm.id)
        with self.refused(cchv.StateError, "paused"):
            client.snapshot(self.snap + "2", PATIENCE)
        vm.snapshot(self.snap + "2", PATIENCE)
        self.assertEqual(vm.state, VmState.PAUSED)
        vm.resume(PATIENCE)

    def test_refused_before_it_stands_still(self):
        vm = self.source()
        for wrong in ("relative", "/", self.snap + "/", self.kept + "/."):
            with self.refused(cchv.InvalidError, "path"):
                vm.snapshot(wrong, PATIENCE)
        with self.refused(cchv.NotFoundError, "nowhere"):
            vm.snapshot(os.path.join(self.kept, "nowhere", "x"), PATIENCE)
        os.mkdir(self.snap)
        with self.refused(cchv.ExistsError, "exists"):
            vm.snapshot(self.snap, PATIENCE)
        os.rmdir(self.snap)
        created = self.create()
        with self.refused(cchv.StateError, "created"):
            created.snapshot(self.snap, PATIENCE)
        self.assertNotIn("vm.pause", self.names(vm))
        self.nothing_is_left()

    def test_memory_of_others_cannot_be_kept(self):
        vm = self.boot()
        self.order(vm, config={"fs": [{"id": "f", "tag": "t", "pci_device_id": 9}]})
        self.until(lambda: self.calls(vm, "vm.info")["config"].get("fs"), "the VMM has it", vm)
        with self.refused(cchv.UnsupportedError, "shared directory"):
            vm.snapshot(self.snap, PATIENCE)
        self.order(vm, config={"fs": [], "memory": {"zones": [{"id": "m0", "file": "ram", "shared": True}]}})
        self.until(lambda: not self.calls(vm, "vm.info")["config"]["fs"], "the VMM has it", vm)
        with self.refused(cchv.UnsupportedError, "shared with other processes"):
            vm.snapshot(self.snap, PATIENCE)
        self.assertEqual(vm.state, VmState.RUNNING)
        self.nothing_is_left()

    def test_the_vm_goes_on_after_every_failure(self):
        for call, action, error in (("vm.snapshot", {"status": 500, "body": "no space left on device"}, cchv.VmmError),
                                    ("vm.pause", {"status": 500, "body": "no"}, cchv.VmmError)):
            self.plan({"api": {call: action}})
            vm = self.source()
            with self.refused(error, vm.id):
                vm.snapshot(self.snap, PATIENCE)
            self.assertEqual(vm.state, VmState.RUNNING, (call, action))
            self.nothing_is_left()
            vm.close()
        self.plan({})
        vm = self.source()
        os.unlink(self.disk)
        with self.refused(cchv.NotFoundError, "'d'"):
            vm.snapshot(self.snap, PATIENCE)
        self.assertEqual(vm.state, VmState.RUNNING)
        self.nothing_is_left()

    def test_a_vm_that_does_not_go_on(self):
        self.plan({"api": {"vm.resume": {"status": 500, "body": "no"}}})
        vm = self.source()
        with self.refused(cchv.VmmError, "does not go on"):
            vm.snapshot(self.snap, PATIENCE)
        self.assertEqual(vm.state, VmState.PAUSED)
        self.nothing_is_left()

    def test_a_vmm_that_dies_of_it(self):
        self.plan({"api": {"vm.snapshot": {"signal": signal.SIGSEGV}}})
        vm = self.source()
        with self.assertRaises(cchv.VmmGoneError):
            vm.snapshot(self.snap, PATIENCE)
        self.nothing_is_left()

    def test_a_full_disk(self):
        small = os.path.join(self.directory, "small")
        os.mkdir(small)
        if os.system(f"mount -t tmpfs -o size=512k tmpfs {small} 2>/dev/null") != 0:
            self.skipTest("needs root")
        try:
            with open(self.disk, "r+b") as file:
                file.write(os.urandom(MIB))
            vm = self.source()
            with self.refused(cchv.SystemCallError, "No space left"):
                vm.snapshot(os.path.join(small, "x"), PATIENCE)
            self.assertEqual(vm.state, VmState.RUNNING)
            self.assertEqual(os.listdir(small), [])
        finally:
            os.system(f"umount {small}")

    def test_prune_takes_what_dead_processes_left(self):
        kept = os.path.join(self.directory, "state", "snapshots")
        for name in (".snapshot-1-1/disks", ".snapshot-1-2", "whole"):
            os.makedirs(os.path.join(kept, name))
        held = os.open(os.path.join(kept, ".snapshot-1-2"), os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        self.context.prune()
        self.assertEqual(sorted(os.listdir(kept)), [".snapshot-1-2", "whole"])
        os.close(held)
        self.context.prune()
        self.assertEqual(os.listdir(kept), ["whole"])

    def test_what_a_dead_process_left_is_cleared_away(self):
        self.plan({"api": {"vm.snapshot": {"stall": True, "after": True}}})
        vm = self.source()
        pid = os.fork()
        if pid == 0:
            try:
                client = cchv.Vm.open(vm.id, context=self.new_context())
                client.snapshot(self.snap, PATIENCE)
            finally:
                os._exit(1)
        self.until(lambda: any(os.path.exists(os.path.join(self.kept, name, "vmm", "memory-ranges"))
                               for name in os.listdir(self.kept)), "it has written")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        draft, = os.listdir(self.kept)
        self.assertTrue(draft.startswith(".snapshot-"))
        with self.refused(cchv.NotFoundError, "no snapshot"):
            cchv.snapshot_info(self.snap)
        # One that somebody is at stays.
        mine = os.path.join(self.kept, ".snapshot-1-2")
        os.mkdir(mine)
        held = os.open(mine, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        vm.close()
        self.plan({})
        self.source().snapshot(self.snap, PATIENCE)
        self.assertEqual(sorted(os.listdir(self.kept)), [".snapshot-1-2", "snap"])
        os.close(held)

    def test_two_at_once_take_one_name(self):
        vms = [self.boot(), self.boot()]
        results = []

        def take(vm):
            try:
                vm.snapshot(self.snap, PATIENCE)
                results.append("taken")
            except cchv.ExistsError:
                results.append("exists")

        threads = [threading.Thread(target=take, args=(vm,)) for vm in vms]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(results), ["exists", "taken"])
        self.assertEqual(os.listdir(self.kept), ["snap"])
        cchv.snapshot_info(self.snap)


class Restoring(SnapshotCase):
    def test_restore(self):
        vm = self.source()
        vm.snapshot(self.snap, PATIENCE)
        with open(self.disk, "r+b") as file:
            file.write(b"later")
        again = self.restore(id="again")
        self.assertEqual((again.id, again.state, again.start, again.is_owner),
                         ("again", VmState.CREATED, (Start.SNAPSHOT, None), True))
        self.assertEqual(self.names(again), ["vmm.ping", "vm.restore", "vm.info", "test.calls"])
        with open(os.path.join(self.run, "again", "restore", "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        copy = os.path.join(self.disks, "d.img")
        self.assertEqual([d["path"] for d in config["disks"]], [copy, self.image])
        self.assertEqual(config["pmem"][0]["file"], self.image)
        self.assertEqual(self.read(copy)[:6], b"a disk")
        again.boot(PATIENCE)
        self.assertEqual(again.state, VmState.RUNNING)
        self.assertEqual([n for n in self.names(again) if n in ("vm.boot", "vm.create", "vm.resume")], ["vm.resume"])
        # Randomness and identity before anything else.
        first, params = self.asked(again)[0]
        self.assertEqual((first, params["hostname"], len(params["machine_id"])), ("vm.configure", "again", 32))
        self.assertEqual([(d["id"], d.get("path"), d["address"]) for d in again.info(PATIENCE)["devices"]],
                         [(d["id"], copy if d["id"] == "d" else d["path"], d["address"])
                          for d in vm.info(PATIENCE)["devices"]])
        self.assertEqual(self.open("again").start, (Start.SNAPSHOT, None))
        again.resize(memory=200 * MIB, timeout=PATIENCE)
        # And as often as wanted: also of one that was restored.
        third = self.restore(disks={"d": os.path.join(self.disks, "third.img")})
        third.boot(PATIENCE)
        again.snapshot(self.snap + "2", PATIENCE)
        fourth = self.restore(self.snap + "2", disks={"d": os.path.join(self.disks, "fourth.img")}, disk_dir=None)
        fourth.boot(PATIENCE)
        for one in (again, third, fourth):
            one.shutdown(PATIENCE)
            one.close()
        # The copies are the caller's.
        self.assertEqual(sorted(os.listdir(self.disks)), ["d.img", "fourth.img", "third.img"])
        self.assertEqual(vm.state, VmState.RUNNING)

    def test_a_clone_can_be_kept(self):
        """Memory that began as a template's file."""
        kernels = os.path.join(self.directory, "state", "kernels")
        os.makedirs(kernels)
        for name in ("vmlinux", "initramfs.img"):
            shutil.copy(os.path.join(self.directory, name), kernels)
        self.context.build_template(timeout=PATIENCE)
        vm = cchv.Vm(cchv.VmConfig(vcpus=1, max_vcpus=2, start=Start.TEMPLATE), context=self.context, timeout=PATIENCE)
        self.vms.append(vm)
        vm.boot(PATIENCE)
        vm.snapshot(self.snap, PATIENCE)
        vm.close()
        again = self.restore()
        with open(os.path.join(self.run, again.id, "restore", "config.json"), encoding="utf-8") as file:
            self.assertNotIn("file", json.load(file)["memory"]["zones"][0])
        again.boot(PATIENCE)

    def test_containers_and_their_streams(self):
        vm = self.source()
        spec = {"ociVersion": "1.2.0", "process": {"args": ["/bin/it"], "cwd": "/"}, "linux": {"namespaces": []}}
        root = self.file("root", size=MIB)
        container = vm.create_container(cchv.ContainerConfig("first", spec=spec, rootfs_disk=root), PATIENCE)
        waiting = vm.create_container(cchv.ContainerConfig("waiting", spec=spec, rootfs_disk=self.file("r2", size=MIB)),
                                      PATIENCE)
        container.start(timeout=PATIENCE)
        vm.snapshot(self.snap, PATIENCE)
        self.assertEqual([c["id"] for c in cchv.snapshot_info(self.snap)["containers"]], ["first", "waiting"])
        with self.refused(cchv.ExistsError, "'first'", "in use"):
            self.restore()
        self.nothing_was_restored(vm)
        with self.refused(cchv.ExistsError, "two containers"):
            self.restore(containers={"first": "same", "waiting": "same"})
        self.nothing_was_restored(vm)
        again = self.restore(containers={"first": "second", "waiting": "waiting2"})
        again.boot(PATIENCE)
        self.assertEqual([p for m, p in self.asked(again) if m == "container.rename"],
                         [{"container": "first", "name": "second"}, {"container": "waiting", "name": "waiting2"}])
        self.assertEqual(again.list_containers(PATIENCE), ["second", "waiting2"])
        second = again.open_container("second", PATIENCE)
        self.assertEqual((second.state, second.spec["process"]["args"]), (ContainerState.RUNNING, ["/bin/it"]))
        self.assertEqual(again.open_container("waiting2", PATIENCE).state, ContainerState.CREATED)
        init = second.open_exec(None, PATIENCE)
        with self.refused(cchv.TimedOutError, "not ended"):
            init.wait(0)
        log = os.path.join(self.directory, "log")
        stdio = cchv.Stdio()
        stdio.set_log(Stream.STDOUT, log)
        stdio.set_log(Stream.STDERR, log)
        init.reconnect(stdio, PATIENCE)
        # Another process uses the new id, as with any container.
        client = self.open(again.id)
        self.assertEqual(client.open_container("second", PATIENCE).state, ContainerState.RUNNING)
        client.close()
        self.order(again, exited=["second", 7 << 8])
        self.assertEqual(init.wait(PATIENCE).exit_code, 7)
        self.assertEqual(self.read(log), b"again")
        with self.refused(cchv.StateError, "ended"):
            init.reconnect(stdio, PATIENCE)
        self.assertEqual(container.state, ContainerState.RUNNING)
        # It is as any other by now: it can be deleted, and leaves nothing.
        second.delete(PATIENCE)
        self.assertFalse(os.path.exists(os.path.join(self.directory, "state", "containers", "second")))
        waiting.delete(PATIENCE)

    def test_one_that_ended_in_between(self):
        vm = self.boot()
        spec = {"ociVersion": "1.2.0", "process": {"args": ["/bin/it"], "cwd": "/"}, "linux": {"namespaces": []}}
        container = vm.create_container(cchv.ContainerConfig("c", spec=spec, rootfs_disk=self.disk), PATIENCE)
        container.start(timeout=PATIENCE)
        vm.snapshot(self.snap, PATIENCE)
        vm.close()
        path = os.path.join(self.snap, "vmm", "state.json")
        # As if it had been taken a moment later.
        with open(path, encoding="utf-8") as file:
            state = json.load(file)
        os.chmod(path, 0o600)
        state["containers"]["c"] = 3 << 8
        with open(path, "w", encoding="utf-8") as file:
            json.dump(state, file)
        with self.refused(cchv.ProtocolError, "state.json"):
            self.restore()

        def sign(info):
            import hashlib
            for entry in info["files"]:
                if entry["name"] == "vmm/state.json":
                    data = self.read(path)
                    entry.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        self.edit(sign)
        again = self.restore()
        again.boot(PATIENCE)
        c = again.open_container("c", PATIENCE)
        self.assertEqual((c.state, c.open_exec(None, PATIENCE).wait(PATIENCE).exit_code), (ContainerState.STOPPED, 3))


class Refusing(SnapshotCase):
    def setUp(self):
        super().setUp()
        self.vm = self.source()
        self.vm.snapshot(self.snap, PATIENCE)

    def tearDown(self):
        # Whatever was refused left nothing.
        self.nothing_was_restored(*[vm for vm in self.vms if not vm.closed])
        super().tearDown()

    def test_another_vmm(self):
        self.plan({"version": "53.0.1"})
        with self.refused(cchv.UnsupportedError, "53.0.0", "53.0.1"):
            self.restore()
        self.plan({})
        self.edit(lambda info: info["vmm"].update(kind="cchv-qemu"))
        with self.refused(cchv.UnsupportedError, "taken by cchv-qemu"):
            self.restore()

    def test_another_processor(self):
        self.edit(lambda info: info["cpu"].update(sha256="0" * 64, model="Some Other Processor"))
        with self.refused(cchv.UnsupportedError, "Some Other Processor"):
            self.restore()

    def test_another_format(self):
        self.edit(lambda info: info.update(format=2))
        with self.refused(cchv.UnsupportedError, "format"):
            self.restore()

    def test_images_that_are_gone_or_others(self):
        with open(self.image, "r+b") as file:
            file.write(b"x")
        with self.refused(cchv.StateError, self.image, "not what it was"):
            self.restore()
        os.rename(self.image, self.image + ".away")
        with self.refused(cchv.NotFoundError, self.image):
            self.restore()

    def test_initramfs_that_is_gone(self):
        os.unlink(self.initramfs)
        with self.refused(cchv.NotFoundError, "initramfs"):
            self.restore()

    def test_damaged(self):
        whole = os.path.join(self.directory, "whole")
        shutil.copytree(self.snap, whole)
        for name, how in (("vmm/config.json", "change"), ("vmm/state.json", "cut"), ("vmm/memory-ranges", "cut"),
                          ("disks/d.img", "remove"), ("snapshot.json", "cut"), ("vmm/state.json", "link")):
            path = os.path.join(self.snap, name)
            data = self.read(path)
            os.unlink(path)
            if how == "link":
                os.symlink(os.path.join(whole, name), path)
            elif how != "remove":
                with open(path, "wb") as file:
                    file.write(data[:-1] + b"#" if how == "change" else data[:-3])
            with self.subTest(name=name, how=how), self.refused(cchv.Error, self.snap):
                self.restore()
            with self.subTest(name=name, how=how), self.assertRaises(cchv.Error):
                cchv.snapshot_info(self.snap)
            shutil.rmtree(self.snap)
            shutil.copytree(whole, self.snap)
        self.edit(lambda info: info["files"].append({"name": "../../x", "bytes": 1}))
        with self.refused(cchv.ProtocolError, "list of files"):
            self.restore()
        os.unlink(os.path.join(self.snap, "snapshot.json"))
        with self.refused(cchv.NotFoundError, "no snapshot"):
            self.restore()

    def test_settings_that_mean_nothing_or_are_missing(self):
        for wrong, part in (({"disk_dir": None}, "place for its copy"), ({"taps": {"net0": "tap0"}}, "'net0'"),
                            ({"disks": {"x": "/x"}}, "'x'"), ({"containers": {"y": "z"}}, "'y'")):
            with self.refused(cchv.InvalidError, part):
                self.restore(**wrong)
        self.edit(lambda info: info["devices"].append({"id": "net0", "kind": "net", "tap": "t", "slot": 20}))
        with self.refused(cchv.InvalidError, "tap of its own"):
            self.restore()
        for wrong in ({"id": "../x"}, {"disk_dir": "relative"}, {"disks": {"d": "relative"}}, {"taps": {"n": "t" * 16}},
                      {"containers": {"a": "b/c"}}):
            with self.assertRaises(cchv.InvalidError):
                RestoreConfig(self.snap, **wrong)
        with self.assertRaises(cchv.InvalidError):
            RestoreConfig("relative")

    def test_ids_and_files_in_use(self):
        with self.refused(cchv.ExistsError, self.vm.id):
            self.restore(id=self.vm.id)
        mine = self.file("mine", b"mine")
        with self.refused(cchv.ExistsError, mine):
            self.restore(disks={"d": mine})
        self.assertEqual(self.read(mine), b"mine")

    def test_a_vmm_that_refuses_or_dies(self):
        for action in ({"status": 500, "body": "no"}, {"signal": 9}, {"raw": "HTTP/1.1 rubbish"}):
            self.plan({"api": {"vm.restore": action}})
            with self.assertRaises(cchv.Error):
                self.restore()
            self.nothing_was_restored(self.vm)

    def test_time(self):
        self.plan({"api": {"vm.restore": {"stall": True}}})
        with self.assertRaises(cchv.TimedOutError):
            self.restore(timeout=0.5)

    def test_a_full_disk(self):
        small = os.path.join(self.directory, "small")
        os.mkdir(small)
        if os.system(f"mount -t tmpfs -o size=512k tmpfs {small} 2>/dev/null") != 0:
            self.skipTest("needs root")
        try:
            self.vm.close()
            with open(self.disk, "r+b") as file:
                file.write(os.urandom(MIB))
            self.source().snapshot(self.snap + "2", PATIENCE)
            with self.refused(cchv.SystemCallError, "No space left"):
                self.restore(self.snap + "2", disk_dir=small)
            self.assertEqual(os.listdir(small), [])
        finally:
            os.system(f"umount {small}")

    def test_removing(self):
        fd = os.open(self.snap, os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_SH)
        with self.refused(cchv.ExistsError, "in use"):
            cchv.remove_snapshot(self.snap)
        os.close(fd)
        cchv.remove_snapshot(self.snap)
        self.nothing_is_left()
        for wrong in (self.snap, self.directory):
            with self.refused(cchv.NotFoundError, "no snapshot"):
                cchv.remove_snapshot(wrong)
        self.assertTrue(os.path.isdir(self.directory))


if __name__ == "__main__":
    main()
