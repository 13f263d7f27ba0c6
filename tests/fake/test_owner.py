# SPDX-License-Identifier: Apache-2.0
"""Owners, clients, orphans: who may do what, who learns what, what is left."""
import json
import os
import signal
import subprocess
import time

import cchv
from cchv import EventType, Stop, VmState

from support import PATIENCE, Case, main


class Clients(Case):
    def test_rights(self):
        vm = self.boot(id="one")
        client = self.open("one")
        self.assertFalse(client.is_owner)
        self.assertEqual(client.state, VmState.RUNNING)
        self.assertEqual(client.stats(PATIENCE)["guest.memory.used_bytes"], 40)
        info = client.info(PATIENCE)
        self.assertEqual(info["owner_pid"], os.getpid())
        self.assertIn("asked for", info["vmm"]["reason"])
        for call in (lambda: client.boot(PATIENCE), lambda: client.resize(vcpus=2, timeout=PATIENCE),
                     lambda: client.detach("x", PATIENCE),
                     lambda: client.attach_disk(cchv.Disk(self.file("d", size=1 << 20)), PATIENCE)):
            with self.refused(cchv.NotOwnerError, "owner"):
                call()
        with self.refused(cchv.StateError, "owner lives"):
            client.adopt()
        vm.adopt()
        client.pause(PATIENCE)
        self.assertEqual(client.state, VmState.PAUSED)
        client.resume(PATIENCE)

    def test_client_sees_the_owners_states(self):
        vm = self.boot(id="one")
        client = self.open("one")
        vm.pause(PATIENCE)
        with self.refused(cchv.StateError, "paused"):
            client.power_button(PATIENCE)
        self.assertEqual(client.state, VmState.PAUSED)

    def test_unknown(self):
        for id in ("none", "../one", ""):
            with self.refused(cchv.NotFoundError):
                self.open(id)

    def test_shutdown_by_a_client(self):
        vm = self.boot(id="one")
        client = self.open("one")
        import threading
        t = threading.Thread(target=lambda: vm.wait(PATIENCE))
        t.start()
        client.shutdown(PATIENCE)
        t.join()
        self.assertEqual(vm.wait(0), Stop.GUEST_POWEROFF)
        self.assertEqual(client.wait(PATIENCE), Stop.GUEST_POWEROFF)

    def test_kill_by_a_client(self):
        vm = self.boot(id="one")
        client = self.open("one")
        client.kill()
        self.assertEqual(vm.wait(PATIENCE), Stop.KILLED)
        self.assertEqual(client.wait(PATIENCE), Stop.KILLED)

    def lives(self, *handles, until):
        """(type, container, exec, pid) of each start and end that the handles hear, up to the end of that exec."""
        for handle in handles:
            heard = []
            while not heard or heard[-1][0] != EventType.EXEC_EXITED or heard[-1][2] != until:
                self.assertTrue(handle.poll(PATIENCE), heard)
                heard += [(e.type, e.container_id, e.exec_id, e.pid) for e in self.drain(handle)
                          if e.type in (EventType.EXEC_STARTED, EventType.EXEC_EXITED, EventType.LOST_EVENTS)]
            yield heard

    def test_a_start_is_told_to_all_and_once(self):
        vm = self.boot(id="one")
        client = self.open("one")
        client.stats(PATIENCE)
        with cchv.ExecConfig(["true"], id="ours") as config:
            vm.exec(config, PATIENCE)
        # Of the owner's own; of a third host's; then what is no start, and an event that nobody knows.
        for message in ({"event": "started", "container": "", "exec": "ours", "pid": 7, "time_ns": 1},
                        {"event": "started", "container": "box", "exec": "", "pid": 8, "time_ns": 1},
                        {"event": "started", "container": "box", "exec": "copies", "pid": 9, "archive": True},
                        {"event": "started", "container": "box", "exec": "odd", "pid": -1},
                        {"event": "started", "container": "box", "exec": "odd"},
                        {"event": "of the future", "container": "box"},
                        *({"event": "exited", "container": container, "exec": exec, "pid": 7, "status": 0, "time_ns": 1,
                           "archive": exec == "copies"} for container, exec in (("", "ours"), ("box", "copies"), ("box", "")))):
            self.order(vm, notify=message)
        started, exited = EventType.EXEC_STARTED, EventType.EXEC_EXITED
        owners, clients = self.lives(vm, client, until="init")
        # The reply of this agent names no pid.
        self.assertEqual(owners, [(started, "", "ours", 0), (started, "box", "init", 8), (exited, "", "ours", 0),
                                  (exited, "box", "init", 0)])
        self.assertEqual(clients, [(started, "", "ours", 7), *owners[1:]])
        self.assertTrue(any("no sensible way" in line for line in self.lines))

    def test_the_owners_verdict_is_told(self):
        vm = self.boot(id="one")
        client = self.open("one")
        self.order(vm, exit=5, log="the last line")
        self.assertEqual(vm.wait(PATIENCE), Stop.VMM_FAULT)
        vm.close()
        self.assertFalse(os.path.exists(os.path.join(self.run, "one")))
        begun = time.monotonic()
        self.assertEqual(client.wait(PATIENCE), Stop.VMM_FAULT)
        self.assertLess(time.monotonic() - begun, 10)
        self.assertIn("the last line", client.stop_text)

    def test_a_client_waits_while_the_owner_writes(self):
        vm = self.boot(id="one")
        client = self.open("one")
        os.kill(self.vmm_pid(vm), signal.SIGKILL)
        # The owner does not look for now: the client gives it a second, and tells what it knows then.
        begun = time.monotonic()
        self.assertEqual(client.wait(PATIENCE), Stop.VMM_SIGNAL)
        self.assertGreater(time.monotonic() - begun, 0.5)
        self.assertIn("vanished", client.stop_text)
        self.assertEqual(vm.wait(PATIENCE), Stop.VMM_SIGNAL)


class Orphans(Case):
    def owner(self, **settings):
        def make():
            self.kept = vm = cchv.Vm(self.config(id="one", **settings), context=self.new_context(), timeout=PATIENCE)
            vm.boot(PATIENCE)
            return self.vmm_pid(vm)
        return self.in_child(make)

    def end(self, pid):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def test_prune(self):
        pid, vmm = self.owner()
        self.assertEqual(self.context.prune(), [])
        client = self.open("one")
        self.end(pid)
        self.assertEqual(self.context.list_vms(), ["one"])
        self.assertEqual(client.state, VmState.RUNNING)
        findings = self.context.prune()
        self.assertEqual([f.name for f in findings], ["vm"])
        self.assertIn("'one'", findings[0].text)
        self.assertFalse(os.path.exists(f"/proc/{vmm}/cwd"))
        self.assertEqual(self.context.list_vms(), [])
        self.assertEqual(client.wait(PATIENCE), Stop.OWNER_DIED)
        self.assertEqual(self.context.prune(), [])

    def test_adopt(self):
        pid, vmm = self.owner(memory=256 << 20, max_memory=1 << 30,
                              disks=[cchv.Disk(self.file("disk", size=1 << 20), id="d")])
        self.end(pid)
        vm = self.open("one")
        vm.adopt()
        self.assertTrue(vm.is_owner)
        self.assertEqual(self.context.prune(), [])
        self.assertEqual(vm.info(PATIENCE)["owner_pid"], os.getpid())
        self.assertEqual([d["address"] for d in vm.info(PATIENCE)["devices"]], ["0000:00:08.0"])
        vm.resize(memory=512 << 20, timeout=PATIENCE)
        vm.attach_disk(cchv.Disk(self.file("second", size=1 << 20)), PATIENCE)
        self.order(vm, console="heard again\n")
        self.until(lambda: b"heard again" in self.read(vm.console_path), "console", vm)
        vm.shutdown(PATIENCE)
        self.assertEqual(vm.wait(0), Stop.GUEST_POWEROFF)

    def owner_of_containers(self, booted=True):
        """An owner with three containers: one whose scratch disk is to be kept, one without a scratch disk."""
        image = os.path.join(self.directory, "image")
        os.makedirs(image)
        subprocess.run(["mkfs.erofs", "--quiet", image + ".erofs", image], check=True, stdout=subprocess.DEVNULL)
        kept = os.path.join(self.directory, "kept.img")

        def make():
            context = self.new_context()
            self.kept = vm = cchv.Vm(self.config(id="one"), context=context, timeout=PATIENCE)
            erofs = cchv.Image(image + ".erofs", context=context)
            self.boxes = [vm.create_container(cchv.ContainerConfig(id, erofs, ["x"], upper_bytes=16 << 20, **settings), PATIENCE)
                          for id, settings in (("plain", {}), ("keeper", {"scratch_path": kept, "keep_scratch": True}),
                                               ("readonly", {"upper": cchv.Upper.NONE}))]
            if booted:
                vm.boot(PATIENCE)
            return self.vmm_pid(vm)
        pid, vmm = self.in_child(make)
        self.containers = os.path.join(self.directory, "state", "containers")
        self.assertEqual(sorted(os.listdir(self.containers)), ["keeper", "plain", "readonly"])
        return pid, vmm, kept

    def test_adopted_containers_are_deleted_whole(self):
        self.plan({"agent": {"calls": {"container.state": {"result": {"state": "stopped", "pid": 0, "execs": [""]}},
                                       "exec.state": {"result": {"state": "exited", "pid": 9, "status": 256, "time_ns": 1}}}}})
        pid, vmm, kept = self.owner_of_containers()
        self.end(pid)
        vm = self.open("one")
        vm.adopt()
        # They are its own now: nothing that prune would take for a dead owner's.
        self.assertEqual(self.context.prune(), [])
        self.assertEqual(vm.list_containers(), ["plain", "keeper", "readonly"])
        disks = {d["path"]: d["id"] for d in vm.info(PATIENCE)["devices"]}
        scratch = os.path.join(self.containers, "plain", "scratch.img")
        self.assertIn(scratch, disks)
        for id in vm.list_containers():
            box = vm.open_container(id, PATIENCE)
            self.assertEqual(box.state, cchv.ContainerState.STOPPED)
            self.assertEqual(box.open_exec().wait(PATIENCE), (1, 0))
            # Known by this owner, as it would be by one that started it.
            self.assertTrue(os.path.exists(os.path.join(self.containers, id, "exit.json")))
            box.delete(PATIENCE)
        self.assertEqual(os.listdir(self.containers), [])
        self.assertTrue(os.path.exists(kept))
        self.assertEqual(vm.list_containers(), [])
        # Images stay in a VM that cannot let them go; disks do not.
        self.assertFalse({scratch, kept} & {d["path"] for d in vm.info(PATIENCE)["devices"]})
        vm.shutdown(PATIENCE)
        self.assertEqual(vm.wait(0), Stop.GUEST_POWEROFF)

    def test_adopted_containers_that_the_guest_has_not(self):
        self.plan({"agent": {"calls": {"container.state": {"error": {"errno": "ENOENT", "kind": "container", "message": "no"}}}}})
        pid, vmm, kept = self.owner_of_containers()
        self.end(pid)
        vm = self.open("one")
        vm.adopt()
        vm.open_container("plain", PATIENCE).delete(PATIENCE)
        # Of a VM that has ended meanwhile, too.
        vm.shutdown(PATIENCE)
        self.assertEqual(vm.wait(PATIENCE), Stop.GUEST_POWEROFF)
        for id in ("keeper", "readonly"):
            vm.open_container(id, PATIENCE).delete(PATIENCE)
        self.assertEqual(os.listdir(self.containers), [])

    def test_adopted_before_the_boot(self):
        pid, vmm, kept = self.owner_of_containers(booted=False)
        self.end(pid)
        vm = self.open("one")
        vm.adopt()
        for id in vm.list_containers():
            box = vm.open_container(id, PATIENCE)
            with self.refused(cchv.StateError, "not booted"):
                box.start(timeout=PATIENCE)
            box.delete(PATIENCE)
        self.assertEqual(os.listdir(self.containers), [])

    def test_a_container_that_cannot_be_taken_over_is_left(self):
        pid, vmm, kept = self.owner_of_containers()
        self.end(pid)
        os.unlink(os.path.join(self.containers, "plain", "lock"))
        vm = self.open("one")
        vm.adopt()
        self.assertTrue(any("not taken over whole" in line for line in self.lines), self.lines)
        self.assertEqual(sorted(vm.list_containers()), ["keeper", "plain", "readonly"])
        vm.kill()
        vm.wait(PATIENCE)

    def test_adopted_vmm_vanishes(self):
        pid, vmm = self.owner()
        self.end(pid)
        vm = self.open("one")
        vm.adopt()
        os.kill(vmm, signal.SIGKILL)
        self.assertEqual(vm.wait(PATIENCE), Stop.VMM_SIGNAL)

    def test_kill_an_orphan(self):
        pid, vmm = self.owner()
        self.end(pid)
        vm = self.open("one")
        vm.kill()
        self.assertEqual(vm.wait(PATIENCE), Stop.KILLED)
        self.context.prune()

    def test_both_die(self):
        pid, vmm = self.owner()
        client = self.open("one")
        self.end(pid)
        os.kill(vmm, signal.SIGKILL)
        self.assertEqual(client.wait(PATIENCE), Stop.OWNER_DIED)
        self.assertEqual(len(self.context.prune()), 1)

    def test_kill_with_thread(self):
        pid, vmm = self.owner(kill_with_thread=True)
        client = self.open("one")
        self.end(pid)
        self.assertEqual(client.wait(PATIENCE), Stop.OWNER_DIED)
        self.context.prune()

    def test_unfinished_directories(self):
        os.makedirs(os.path.join(self.run, ".new-00000000-x"))
        self.assertEqual(self.context.prune(), [])
        old = time.time() - 3600
        os.utime(os.path.join(self.run, ".new-00000000-x"), (old, old))
        self.assertEqual(len(self.context.prune()), 1)

    def test_rubbish_is_reported_and_left(self):
        os.makedirs(os.path.join(self.run, "odd"))
        findings = self.context.prune()
        self.assertEqual([f.status for f in findings], [cchv.constants.Finding.WARN])
        os.rmdir(os.path.join(self.run, "odd"))


class Probe(Case):
    def test_names(self):
        findings = {f.name: f for f in self.context.probe()}
        for name in ("vmm", "kvm", "cpu", "kernel", "initramfs", "runtime_dir", "state_dir", "libcurl",
                     "cloud-hypervisor", "cchv-qemu", "qemu", "virtiofsd", "mkfs.erofs", "mkfs.ext4", "umoci", "skopeo"):
            self.assertIn(name, findings)
            self.assertTrue(findings[name].text, name)
            self.assertEqual(findings[name].advice is None, findings[name].status == 0, findings[name])
        self.assertIn("fake_vmm.py", findings["vmm"].text)
        self.assertIn("asked for", findings["vmm"].text)


if __name__ == "__main__":
    main()
