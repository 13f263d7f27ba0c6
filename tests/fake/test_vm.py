# SPDX-License-Identifier: Apache-2.0
"""VMs on the fake VMM: the main path, and every way in which a VMM or agent can let its owner down."""
import json
import os
import signal
import threading
import time

import cchv
from cchv import EventType, Stop, VmState

from support import PATIENCE, Case, main

MIB = 1 << 20


class MainPath(Case):
    def test_life(self):
        vm = self.create(memory=256 * MIB, max_memory=1024 * MIB)
        self.assertEqual(vm.state, VmState.CREATED)
        self.assertTrue(vm.is_owner)
        vm.boot(PATIENCE)
        self.assertEqual(vm.state, VmState.RUNNING)
        vm.boot(PATIENCE)
        vm.pause(PATIENCE)
        self.assertEqual(vm.state, VmState.PAUSED)
        vm.pause(PATIENCE)
        with self.refused(cchv.StateError, "paused"):
            vm.power_button(PATIENCE)
        vm.resume(PATIENCE)
        vm.resize(vcpus=2, memory=512 * MIB, timeout=PATIENCE)
        with self.refused(cchv.LimitError, "maximum"):
            vm.resize(vcpus=3, timeout=PATIENCE)
        with self.refused(cchv.LimitError, "maximum"):
            vm.resize(memory=1025 * MIB, timeout=PATIENCE)
        info = vm.info(PATIENCE)
        self.assertEqual(info["vcpus"], 2)
        self.assertEqual(info["memory_bytes"], 512 * MIB)
        self.assertEqual(info["vm_memory_bytes"], (512 + 8 + 96) * MIB)
        self.assertEqual(info["owner_pid"], os.getpid())
        vm.shutdown(PATIENCE)
        self.assertEqual(vm.wait(0), Stop.GUEST_POWEROFF)
        vm.shutdown(PATIENCE)
        vm.kill()
        events = self.drain(vm)
        self.assertEqual([e.state for e in events if e.type == EventType.STATE],
                         [VmState.BOOTING, VmState.RUNNING, VmState.PAUSED, VmState.RUNNING, VmState.STOPPED])
        self.assertEqual(events[-1].type, EventType.STOPPED)
        self.assertEqual(events[-1].reason, Stop.GUEST_POWEROFF)
        with self.refused(cchv.GuestGoneError, "switched itself off"):
            vm.pause(PATIENCE)
        self.assertEqual(vm.info(PATIENCE)["stop_reason"], "guest_poweroff")

    def test_what_the_vmm_is_told(self):
        disk = self.file("disk", size=MIB)
        vm = self.create(memory=256 * MIB, disks=[cchv.Disk(disk, id="d")], cmdline="loglevel=7")
        calls = self.calls(vm)
        self.assertEqual([c[0] for c in calls[:3]], ["vmm.ping", "vm.create", "vm.info"])
        body = calls[1][1]
        self.assertEqual(body["cpus"], {"boot_vcpus": 1, "max_vcpus": 2, "nested": False})
        self.assertEqual(body["memory"]["size"], 0)
        zone = body["memory"]["zones"][0]
        self.assertEqual(zone["size"], 128 * MIB)
        self.assertEqual(zone["hotplugged_size"], (256 + 4 + 96 - 128) * MIB)
        self.assertEqual(zone["hotplug_size"] % (128 * MIB), 0)
        self.assertEqual(body["console"]["mode"], "Pty")
        self.assertEqual(body["vsock"], {"id": "vsock", "pci_device_id": 6, "cid": 3, "socket": "vsock.sock"})
        self.assertEqual(body["balloon"]["free_page_reporting"], True)
        self.assertTrue(body["pvpanic"])
        self.assertEqual(body["disks"][0]["image_type"], "Raw")
        self.assertEqual(body["disks"][0]["pci_device_id"], 8)
        self.assertTrue(body["payload"]["cmdline"].endswith(" loglevel=7"))
        self.assertEqual(vm.info(PATIENCE)["devices"], [{"id": "d", "kind": "disk", "path": disk, "slot": 8}])
        vm.boot(PATIENCE)
        self.assertEqual(vm.info(PATIENCE)["devices"][0]["address"], "0000:00:08.0")

    def test_process(self):
        vm = self.create()
        pid = self.vmm_pid(vm)
        self.assertEqual(os.readlink(f"/proc/{pid}/cwd"), os.path.join(self.run, vm.id))
        with open(f"/proc/{pid}/status") as f:
            self.assertIn("NoNewPrivs:\t1", f.read())
        with open(f"/proc/{pid}/limits") as f:
            limits = f.read()
        self.assertRegex(limits, r"Max core file size\s+0\s+0")
        self.assertRegex(limits, r"Max open files\s+4096\s")
        self.assertEqual(os.getpgid(pid), pid)
        fds = {os.readlink(f"/proc/{pid}/fd/{n}") for n in ("0", "1", "2")}
        self.assertEqual(fds, {"/dev/null", os.path.join(self.run, vm.id, "log")})
        self.assertEqual(os.stat(os.path.join(self.run, vm.id)).st_mode & 0o777, 0o700)

    def test_button(self):
        vm = self.boot()
        vm.power_button(PATIENCE)
        self.assertEqual(vm.wait(PATIENCE), Stop.GUEST_POWEROFF)

    def test_shutdown_before_boot(self):
        vm = self.create()
        vm.shutdown(PATIENCE)
        self.assertEqual(vm.wait(0), Stop.KILLED)

    def test_console_and_log_are_bounded(self):
        vm = self.boot()
        log, console = os.path.join(self.run, vm.id, "vmm.log"), vm.console_path
        server = threading.Thread(target=lambda: vm.wait(PATIENCE))
        server.start()
        self.order(vm, console="first line\r\n", log="a word of the VMM")
        self.until(lambda: b"a word of the VMM" in self.read(log), "log")
        self.until(lambda: b"first line" in self.read(console), "console")
        for n in range(60):
            self.order(vm, console=f"{n} " + "x" * 30000 + "\n", log=f"{n} " + "y" * 30000)
        self.until(lambda: b"\n59 " in self.read(log), "log")
        self.until(lambda: b"\n59 " in self.read(console), "console")
        self.assertLess(os.path.getsize(log), MIB + 1)
        self.assertLess(os.path.getsize(console), 256 * 1024 + 1)
        vm.kill()
        server.join()

    def test_two_threads_boot_once(self):
        vm = self.create()
        errors = []

        def run():
            try:
                vm.boot(PATIENCE)
            except cchv.Error as error:
                errors.append(error)
        threads = [threading.Thread(target=run) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])
        self.assertEqual([c[0] for c in self.calls(vm)].count("vm.boot"), 1)

    def test_long_run_directory(self):
        """Longer than a socket's address."""
        self.run = os.path.join(self.directory, "r" * 100, "s" * 100)
        self.context = self.new_context()
        vm = self.boot()
        vm.shutdown(PATIENCE)

    def test_events_reach_an_own_loop(self):
        vm = self.boot()
        self.drain(vm)
        import select
        p = select.poll()
        p.register(vm.fileno(), select.POLLIN)
        vm.dispatch()
        self.assertEqual(p.poll(300), [])
        self.order(vm, exit=7, log="out of something")
        reasons = []
        while not reasons:
            self.assertTrue(p.poll(PATIENCE * 1000))
            vm.dispatch()
            reasons = [e.reason for e in self.drain(vm) if e.type == EventType.STOPPED]
        self.assertEqual(reasons, [Stop.VMM_FAULT])
        self.assertIn("out of something", vm.stop_text)


class Refusals(Case):
    def test_old_version(self):
        self.plan({"version": "52.0.0"})
        with self.refused(cchv.UnsupportedError, "52.0.0", "53"):
            self.create()

    def test_dies_at_once(self):
        self.plan({"argv": {"exit": 1, "log": "Error: cannot open /dev/kvm"}})
        with self.refused(cchv.VmmGoneError, "cannot open /dev/kvm"):
            self.create()

    def test_create_fails(self):
        for action, error, part in (
                ({"status": 500, "body": '["Error from API","outer","the inner cause"]'}, cchv.VmmError, "inner cause"),
                ({"status": 400, "body": '{ "error": "Invalid\n body" }'}, cchv.VmmError, "Invalid body"),
                ({"status": 500, "body": ""}, cchv.VmmError, "status 500"),
                ({"raw": "rubbish\r\n\r\n"}, cchv.ProtocolError, "vm.create"),
                ({"close": True}, cchv.VmmGoneError, "vm.create"),
                ({"signal": 9}, cchv.VmmGoneError, "signal 9"),
                ({"exit": 3, "log": "last words"}, cchv.VmmGoneError, "last words")):
            self.plan({"api": {"vm.create": action}})
            with self.refused(error, part):
                self.create()
            self.assertEqual(os.listdir(self.run), [])

    def test_info_rubbish(self):
        self.plan({"api": {"vm.info": {"status": 200, "body": '{"state": 5}'}}})
        with self.refused(cchv.ProtocolError):
            self.create()

    def test_create_stalls(self):
        self.plan({"api": {"vm.create": {"stall": True}}})
        begun = time.monotonic()
        with self.refused(cchv.TimedOutError):
            self.create(timeout=1)
        self.assertLess(time.monotonic() - begun, 20)

    def test_boot_fails(self):
        for action, error, part in (
                ({"status": 500, "body": '["Error from API","disk is locked"]'}, cchv.VmmError, "disk is locked"),
                ({"signal": 6}, cchv.VmmGoneError, "signal 6"),
                ({"exit": 1, "log": "boot trouble"}, cchv.VmmGoneError, "boot trouble")):
            self.plan({"api": {"vm.boot": action}})
            vm = self.create()
            with self.refused(error, part):
                vm.boot(PATIENCE)
            self.assertEqual(vm.state, VmState.STOPPED)
            vm.close()

    def test_boot_stalls_and_goes_on(self):
        self.plan({"agent": {"announce": False}})
        vm = self.create()
        with self.refused(cchv.TimedOutError, "agent to announce itself; its console is silent"):
            vm.boot(0.5)
        self.assertEqual(vm.state, VmState.BOOTING)
        self.order(vm, console="one\r\nVFS: \x1b[1mno root\r\n\r\n")
        self.until(lambda: b"no root" in self.read(vm.console_path), "console", vm)
        with self.refused(cchv.TimedOutError, 'last on its console: "VFS:  [1mno root"'):
            vm.boot(0.1)
        with self.refused(cchv.StateError, "booting"):
            vm.pause(PATIENCE)
        with self.refused(cchv.TimedOutError):
            vm.boot(0)
        vm.kill()
        self.assertEqual(vm.wait(PATIENCE), Stop.KILLED)

    def test_agent_rubbish(self):
        for agent in ({"hello": "rubbish"}, {"hello": {"version": 2}}, {"hello": {"boot_id": None}}):
            self.plan({"agent": agent})
            vm = self.create()
            with self.assertRaises(cchv.Error, msg=agent) as caught:
                vm.boot(PATIENCE)
            self.assertNotIsInstance(caught.exception, cchv.TimedOutError, agent)
            self.assertEqual(vm.state, VmState.STOPPED)
            vm.close()

    def test_announcement_rubbish(self):
        self.plan({"agent": {"announce": "rubbish"}})
        vm = self.boot()
        self.assertEqual(vm.state, VmState.RUNNING)

    def test_agent_refuses_configuration(self):
        self.plan({"agent": {"calls": {"vm.configure": {"error": {"errno": "EPERM", "kind": "other",
                                                                 "message": "no identity"}}}}})
        vm = self.create()
        with self.assertRaises(cchv.Error) as caught:
            vm.boot(PATIENCE)
        self.assertIn("no identity", str(caught.exception))
        self.assertEqual(vm.state, VmState.STOPPED)

    def test_pause_refused_and_stalled(self):
        self.plan({"api": {"vm.pause": {"status": 500, "body": '["no"]'}, "vm.resume": {"stall": True}}})
        vm = self.boot()
        with self.refused(cchv.VmmError, "no"):
            vm.pause(PATIENCE)
        self.assertEqual(vm.state, VmState.RUNNING)

    def test_missing_things(self):
        with self.refused(cchv.NotFoundError, "/nonexistent/kernel"):
            cchv.Vm(cchv.VmConfig(kernel="/nonexistent/kernel"), context=self.context)
        with self.refused(cchv.NotFoundError, "no-such-vmm"):
            cchv.Vm(self.config(), context=cchv.Context(runtime_dir=self.run, vmm="no-such-vmm"))
        with self.refused(cchv.NotFoundError, "device 'd'"):
            self.create(disks=[cchv.Disk("/nonexistent/disk", id="d")])
        with self.refused(cchv.InvalidError, "multiple of 512"):
            self.create(disks=[cchv.Disk(self.file("odd", size=1000))])
        with self.refused(cchv.NotFoundError, "nosuchtap"):
            self.create(nets=[cchv.Net(tap="nosuchtap")])
        with self.refused(cchv.InvalidError, "no tap"):
            self.create(nets=[cchv.Net(tap="lo")])
        with self.refused(cchv.UnsupportedError, "template"):
            self.create(start=cchv.Start.TEMPLATE)

    def test_id_is_taken(self):
        self.create(id="one")
        with self.refused(cchv.ExistsError, "one"):
            self.create(id="one")

    def test_disk_in_use(self):
        path = self.file("disk", size=MIB)
        self.create(disks=[cchv.Disk(path)])
        with self.refused(cchv.ExistsError, "in use"):
            self.create(disks=[cchv.Disk(path)])
        with self.refused(cchv.ExistsError, "in use"):
            self.create(disks=[cchv.Disk(path, readonly=True)])
        shared = self.file("shared", size=MIB)
        self.create(disks=[cchv.Disk(shared, readonly=True)])
        self.create(disks=[cchv.Disk(shared, readonly=True)])
        with self.refused(cchv.ExistsError, "in use"):
            self.create(disks=[cchv.Disk(shared)])


class Ends(Case):
    def stop(self, vm, reason, *parts):
        self.assertEqual(vm.wait(PATIENCE), reason)
        for part in parts:
            self.assertIn(part, vm.stop_text)

    def test_killed(self):
        vm = self.boot()
        vm.kill()
        self.stop(vm, Stop.KILLED)

    def test_signal_of_a_stranger(self):
        vm = self.boot()
        os.kill(self.vmm_pid(vm), signal.SIGKILL)
        self.stop(vm, Stop.VMM_SIGNAL, "signal 9")
        with self.refused(cchv.VmmGoneError, "signal 9"):
            vm.resume(PATIENCE)

    def test_fault(self):
        vm = self.boot()
        self.order(vm, exit=1, log="ERROR: thread panicked")
        self.stop(vm, Stop.VMM_FAULT, "code 1", "thread panicked")

    def test_exit_0_proves_nothing(self):
        vm = self.boot()
        self.order(vm, exit=0)
        self.stop(vm, Stop.VMM_FAULT, "without a word")

    def test_power_off_without_goodbye(self):
        vm = self.boot()
        self.order(vm, agent={"rude": True})
        vm.power_button(PATIENCE)
        self.stop(vm, Stop.VMM_FAULT, "without a word")

    def test_reset(self):
        vm = self.boot()
        self.order(vm, event=["vm", "rebooting"])
        self.stop(vm, Stop.GUEST_RESET)

    def test_panic(self):
        vm = self.boot()
        self.order(vm, console="[    1.2] Kernel panic - not syncing: Attempted to kill init!\r\n[ 1.3] more\r\n",
                   event=["guest", "panic", {"event": "panic"}])
        self.stop(vm, Stop.GUEST_PANIC, "Attempted to kill init!")

    def test_words_of_a_panic_that_come_after_its_event(self):
        vm = self.boot()
        self.order(vm, event=["guest", "panic", {"event": "panic"}],
                   late_console="[    1.2] Kernel panic - not syncing: Fatal exception\r\n")
        self.stop(vm, Stop.GUEST_PANIC, "Fatal exception")

    def test_panic_without_words(self):
        vm = self.boot()
        self.order(vm, event=["guest", "panic", {"event": "panic"}])
        self.stop(vm, Stop.GUEST_PANIC, "guest kernel panic")

    def test_another_boot_id_is_a_reset(self):
        vm = self.boot()
        self.order(vm, agent={"hello": {"boot_id": "99999999-2222-3333-4444-555555555555"}}, drop_agent=True)
        self.stop(vm, Stop.GUEST_RESET, "reset")

    def test_connection_breaks_and_heals(self):
        vm = self.boot()
        self.order(vm, drop_agent=True)
        self.until(lambda: any("broke" in line for line in self.lines), "broken connection", vm)
        self.assertEqual(vm.stats(PATIENCE)["guest.memory.used_bytes"], 40)
        self.assertEqual(vm.state, VmState.RUNNING)

    def test_events_with_holes(self):
        vm = self.boot()
        self.order(vm, raw_event='{\n  "timestamp": {\n    "secs": 1,\n\n"source": "vm",\n')
        self.order(vm, event=["vm", "rebooting"])
        self.stop(vm, Stop.GUEST_RESET)

    def test_dies_in_the_middle_of_a_request(self):
        self.plan({"agent": {"calls": {"vm.stats": {"die": {"signal": 9}}}}})
        vm = self.boot()
        with self.refused(cchv.VmmGoneError):
            vm.stats(PATIENCE)
        self.stop(vm, Stop.VMM_SIGNAL)

    def test_stubborn_guest(self):
        self.plan({"agent": {"stubborn": True}})
        vm = self.boot()
        with self.refused(cchv.TimedOutError):
            vm.shutdown(0.5)
        self.assertEqual(vm.state, VmState.RUNNING)
        vm.kill()
        self.stop(vm, Stop.KILLED)

    def test_kill_passes_a_blocked_call(self):
        self.plan({"api": {"vm.pause": {"stall": True}}})
        vm = self.boot()
        results = []

        def pause():
            try:
                vm.pause(PATIENCE)
            except cchv.Error as error:
                results.append(error)
        t = threading.Thread(target=pause)
        t.start()
        self.until(lambda: any(c[0] == "vm.pause" for c in self.calls(vm)) or True, "pause")
        time.sleep(0.3)
        begun = time.monotonic()
        vm.kill()
        self.stop(vm, Stop.KILLED)
        t.join()
        self.assertLess(time.monotonic() - begun, 10)
        self.assertIsInstance(results[0], cchv.VmmGoneError)

    def test_free_in_a_forked_child(self):
        vm = self.boot()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                try:
                    vm.pause(1)
                except cchv.ForkedError:
                    code = 0
                vm.close()
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        vm.pause(PATIENCE)
        vm.resume(PATIENCE)
        self.order(vm, event=["vm", "rebooting"])
        self.stop(vm, Stop.GUEST_RESET)


class Devices(Case):
    def test_hot_and_cold(self):
        path = self.file("disk", size=MIB)
        vm = self.create()
        vm.attach_disk(cchv.Disk(path, id="cold"), PATIENCE)
        self.assertEqual(self.calls(vm)[-2][0], "vm.add-disk")
        vm.detach("cold", PATIENCE)
        vm.attach_disk(cchv.Disk(path, id="cold"), PATIENCE)
        vm.boot(PATIENCE)
        self.drain(vm)
        vm.attach_disk(cchv.Disk(self.file("other", size=MIB)), PATIENCE)
        devices = {d["id"]: d for d in vm.info(PATIENCE)["devices"]}
        self.assertEqual(devices["cold"]["address"], "0000:00:08.0")
        self.assertEqual(devices["disk0"]["address"], "0000:00:09.0")
        with self.refused(cchv.ExistsError, "cold"):
            vm.attach_disk(cchv.Disk(self.file("third", size=MIB), id="cold"), PATIENCE)
        vm.detach("cold", PATIENCE)
        with self.refused(cchv.NotFoundError, "cold"):
            vm.detach("cold", PATIENCE)
        # Its file is free again.
        vm.attach_disk(cchv.Disk(path, id="again"), PATIENCE)
        kinds = [(e.type, e.device_id) for e in self.drain(vm)]
        self.assertEqual(kinds, [(EventType.DEVICE_PLUGGED, "disk0"), (EventType.DEVICE_REMOVED, "cold"),
                                 (EventType.DEVICE_PLUGGED, "again")])

    def test_slots_end(self):
        vm = self.create()
        path = self.file("ro", size=MIB)
        for n in range(24):
            vm.attach_disk(cchv.Disk(path, id=f"d{n}", readonly=True), PATIENCE)
        with self.refused(cchv.LimitError, "slot"):
            vm.attach_disk(cchv.Disk(path, readonly=True), PATIENCE)

    def test_busy_in_the_guest(self):
        self.plan({"agent": {"calls": {"device.release": {"error": {"errno": "EBUSY", "kind": "device",
                                                                   "message": "mounted"}}}}})
        vm = self.boot(disks=[cchv.Disk(self.file("disk", size=MIB), id="d")])
        with self.refused(cchv.ExistsError, "in use"):
            vm.detach("d", PATIENCE)

    def test_guest_does_not_let_go(self):
        self.plan({"api": {"vm.remove-device": {"status": 204, "body": ""}}})
        vm = self.boot(disks=[cchv.Disk(self.file("disk", size=MIB), id="d")])
        self.drain(vm)
        with self.refused(cchv.TimedOutError, "let go"):
            vm.detach("d", 0.5)
        self.order(vm, event=["vm", "device-removed", {"id": "d", "bdf": "0000:00:08.0"}])
        self.until(lambda: not vm.info(PATIENCE)["devices"], "removal", vm)

    def test_refused_plug_leaves_nothing(self):
        path = self.file("disk", size=MIB)
        self.plan({"api": {"vm.add-disk": {"status": 500, "body": '["no more disks"]'}}})
        vm = self.boot()
        with self.refused(cchv.VmmError, "no more disks"):
            vm.attach_disk(cchv.Disk(path, id="d"), PATIENCE)
        self.assertEqual(vm.info(PATIENCE)["devices"], [])

    def test_lying_reply(self):
        self.plan({"api": {"vm.add-disk": {"status": 200, "body": '{"id":"d","bdf":"../../x"}'}}})
        vm = self.boot()
        with self.refused(cchv.ProtocolError, "PCI address"):
            vm.attach_disk(cchv.Disk(self.file("disk", size=MIB), id="d"), PATIENCE)

    def test_counters_and_stats(self):
        vm = self.boot()
        counters = vm.counters(PATIENCE)
        self.assertEqual(counters["disk.disk0.read_bytes"], 2 ** 64 - 1)
        self.assertEqual(counters["net.net0.rx_packets"], 2)
        stats = vm.stats(PATIENCE)
        self.assertEqual(stats["guest.memory.used_bytes"], 40)
        self.assertGreater(stats["vmm.private_bytes"], 0)
        self.assertEqual(stats["vm.vcpus"], 1)
        vm.pause(PATIENCE)
        self.assertNotIn("guest.memory.used_bytes", vm.stats(PATIENCE))


if __name__ == "__main__":
    main()
