# SPDX-License-Identifier: Apache-2.0
"""Owners, clients, orphans: who may do what, who learns what, what is left."""
import json
import os
import signal
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
