# SPDX-License-Identifier: Apache-2.0
"""Pools on the fake VMM: what is kept and handed over, in whose event loop it is started, what bounds it, and VMs that
fail, stall and die."""
import asyncio
import json
import os
import select
import signal
import threading
import time

import cchv
from cchv import Start, VmState

from support import PATIENCE, Case, main

MIB = 1 << 20


class PoolCase(Case):
    def setUp(self):
        super().setUp()
        self.kernels = os.path.join(self.directory, "state", "kernels")
        os.makedirs(self.kernels)
        for name in ("vmlinux", "initramfs.img"):
            with open(os.path.join(self.kernels, name), "wb") as file:
                file.write(name.encode())
        self.pools = []

    def tearDown(self):
        for pool in self.pools:
            pool.close()
        super().tearDown()

    def config(self, **settings):
        return cchv.VmConfig(**{"vcpus": 1, "max_vcpus": 2, **settings})

    def pool(self, target, *, config=None, **settings):
        pool = cchv.Pool(config or self.config(), target, context=self.context, **{"reserve": 0, **settings})
        self.pools.append(pool)
        return pool

    def take(self, pool, *arguments, timeout=PATIENCE, **settings):
        vm = pool.take(*arguments, timeout=timeout, **settings)
        self.vms.append(vm)
        return vm

    def ids(self):
        return set(self.context.list_vms())

    def number(self, pool, name):
        return pool.stats()["pool." + name]

    def serve_until(self, pool, condition, what):
        """As a program with an event loop does: dispatch is called when the fd is readable, and then only."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            if select.select([pool], [], [], 1)[0]:
                pool.dispatch()

    def tell(self, id, **order):
        """An order to a VM that is kept, in force when this returns."""
        (what, changes), = order.items()
        with cchv.Vm.open(id, context=self.context) as vm:
            self.order(vm, **order)
            self.until(lambda: changes.items() <= self.calls(vm, "plan")[what].items(), "the order is in force")

    def identities(self, vm):
        """Who the agent was told to be, each time."""
        return [request["params"] for request in self.calls(vm, "requests") if request["method"] == "vm.configure"]


class MainPath(PoolCase):
    def test_kept_and_taken(self):
        key = self.context.build_template(timeout=PATIENCE)
        pool = self.pool(2, config=self.config(memory=256 * MIB))
        pool.fill(PATIENCE)
        kept = self.ids()
        self.assertEqual(len(kept), 2)
        oldest = self.context.list_vms()[0]
        self.assertEqual({self.open(id).state for id in kept}, {VmState.PAUSED})
        self.assertEqual((self.number(pool, "ready"), self.number(pool, "started")), (2, 2))
        # Measured: a Python program each, and the sum is theirs.
        self.assertGreater(self.number(pool, "private_bytes"), 2 * MIB)
        vm = self.take(pool)
        self.assertTrue(vm.was_kept)
        self.assertEqual(vm.id, oldest)
        self.assertEqual((vm.state, vm.start, vm.is_owner), (VmState.RUNNING, (Start.TEMPLATE, None), True))
        self.assertEqual(vm.info(PATIENCE)["template"], key)
        names = [call[0] for call in self.calls(vm)]
        self.assertEqual([name for name in names if name in ("vm.restore", "vm.resume", "vm.pause")],
                         ["vm.restore", "vm.resume", "vm.pause", "vm.resume"])
        # What happened to it before is not its owner's business.
        self.assertEqual([(event.type, event.state) for event in self.drain(vm)],
                         [(cchv.EventType.STATE, VmState.RUNNING)])
        # It is whole: it can be grown, run, shut down.
        vm.resize(memory=512 * MIB, timeout=PATIENCE)
        vm.shutdown(PATIENCE)
        pool.fill(PATIENCE)
        self.assertEqual([self.number(pool, name) for name in ("ready", "started", "taken", "missed", "failed", "died")],
                         [2, 3, 1, 0, 0, 0])

    def test_identity_is_of_the_moment_it_is_taken(self):
        pool = self.pool(1, config=self.config(hostname="worker"))
        pool.fill(PATIENCE)
        before = time.time_ns()
        named = self.take(pool, "somebody")
        pool.fill(PATIENCE)
        plain = self.take(pool)
        told = [self.identities(vm) for vm in (named, plain)]
        self.assertEqual([[who["hostname"] for who in one] for one in told],
                         [["worker", "somebody"], ["worker", "worker"]])
        self.assertLess(told[0][0]["time_ns"], before)
        self.assertGreater(told[0][1]["time_ns"], before)
        for what in ("random", "machine_id"):
            self.assertEqual(len({json.dumps(who[what]) for one in told for who in one}), 4, what)
        # It is asked to be somebody before anything else is asked of it, and after it goes on.
        self.assertEqual([request["method"] for request in self.calls(plain, "requests")],
                         ["vm.configure", "vm.online", "vm.configure"])

    def test_cold(self):
        pool = self.pool(1, config=self.config(start=Start.COLD))
        pool.fill(PATIENCE)
        vm = self.take(pool)
        self.assertEqual((vm.was_kept, vm.start[0], vm.state), (True, Start.COLD, VmState.RUNNING))
        self.assertEqual([name for name, _, _ in self.calls(vm) if name in ("vm.boot", "vm.pause", "vm.resume")],
                         ["vm.boot", "vm.pause", "vm.resume"])

    def test_empty(self):
        pool = self.pool(0)
        self.assertEqual(select.select([pool], [], [], 0)[0], [pool])
        pool.dispatch()
        self.assertEqual(select.select([pool], [], [], 0)[0], [])
        vm = self.take(pool, "somebody")
        self.assertEqual((vm.was_kept, vm.state), (False, VmState.RUNNING))
        self.assertEqual(self.identities(vm)[0]["hostname"], "somebody")
        self.assertEqual((self.number(pool, "missed"), self.number(pool, "started")), (1, 0))
        with self.assertRaises(cchv.TimedOutError):
            pool.take(timeout=0)
        for wrong in ("", "x" * 65):
            with self.refused(cchv.InvalidError, "hostname"):
                pool.take(wrong)

    def test_what_all_can_share(self):
        disk, image = self.file("disk", size=MIB), self.file("image", size=2 * MIB)
        shared = dict(disks=[cchv.Disk(disk, id="d", readonly=True)], pmems=[cchv.Pmem(image, id="p")])
        pool = self.pool(2, config=self.config(**shared))
        pool.fill(PATIENCE)
        vm = self.take(pool)
        self.assertEqual([device["id"] for device in vm.info(PATIENCE)["devices"]], ["d", "p"])
        vm.attach_disk(cchv.Disk(self.file("own", size=MIB), id="own"), PATIENCE)
        keeps = cchv.Pmem(image, id="p", discard_writes=False)
        for settings, words in ((dict(id="one"), "id"), (dict(cgroup="/one"), "cgroup"),
                                (dict(disks=[cchv.Disk(disk)]), "a disk that is written to"),
                                (dict(pmems=[keeps]), "a pmem device"),
                                (dict(nets=[cchv.Net(tap="tap0")]), "a network device"),
                                (dict(fs=[cchv.Fs("tag", self.directory)], shared_memory=True), "a shared directory")):
            with self.subTest(words), self.refused(cchv.InvalidError, words, "each VM needs its own"):
                self.pool(1, config=self.config(**settings))
        with self.refused(cchv.InvalidError, "4097"):
            self.pool(4097)

    def test_the_context_and_the_pool_may_go_first(self):
        context = self.new_context()
        pool = cchv.Pool(self.config(), 2, context=context, reserve=0)
        context.close()
        pool.fill(PATIENCE)
        vm = self.take(pool)
        pool.close()
        self.assertEqual(self.ids(), {vm.id})
        vm.pause(PATIENCE)
        vm.resume(PATIENCE)
        vm.close()
        self.assertEqual(self.ids(), set())

    def test_a_child_of_a_fork(self):
        pool = self.pool(1)
        pool.fill(PATIENCE)
        fd = pool.fileno()
        pid = os.fork()
        if pid == 0:
            try:
                for call in (pool.dispatch, pool.take, pool.check, pool.stats, pool.fileno, lambda: pool.set(target=0)):
                    try:
                        call()
                        os._exit(1)
                    except cchv.ForkedError:
                        pass
                pool.close()
                os._exit(0 if not os.path.exists(f"/proc/self/fd/{fd}") else 2)
            finally:
                os._exit(3)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertTrue(self.take(pool).was_kept)

    def test_an_owner_that_dies(self):
        def make():
            context = self.new_context()
            self.kept = cchv.Pool(self.config(), 2, context=context, reserve=0)
            self.kept.fill(PATIENCE)
            return sorted(context.list_vms())
        pid, ids = self.in_child(make)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        removed = [finding.text for finding in self.context.prune()]
        for id in ids:
            self.assertTrue([text for text in removed if id in text], removed)
        self.assertEqual(self.ids(), set())


class Serving(PoolCase):
    def test_nothing_starts_without_dispatch(self):
        pool = self.pool(1)
        self.assertEqual(select.select([pool], [], [], 0.5)[0], [pool])
        self.assertEqual(self.ids(), set())
        self.serve_until(pool, lambda: self.number(pool, "ready") == 1, "it is filled")
        # Nothing to do: nobody is woken.
        pool.dispatch()
        self.assertEqual(select.select([pool], [], [], 0.5)[0], [])
        vm = self.take(pool)
        self.assertEqual(select.select([pool], [], [], 0)[0], [pool])
        self.serve_until(pool, lambda: self.number(pool, "ready") == 1, "it is filled again")
        pool.dispatch()
        # What a VM that was taken does is no business of the pool's.
        self.drain(vm)
        vm.dispatch()
        self.order(vm, console="what the guest says\n")
        self.assertEqual(select.select([vm], [], [], PATIENCE)[0], [vm])
        self.assertEqual(select.select([pool], [], [], 0.5)[0], [])

    def test_dispatch_waits_for_nobody(self):
        self.plan({"api": {"vm.restore": {"stall": True}, "vm.create": {"stall": True}}})
        pool = self.pool(1)
        self.serve_until(pool, lambda: self.number(pool, "starting") == 1 and any(self.residents()), "a start is under way")
        # The VMM says nothing; the fd has nothing to say either, and what is called is back at once.
        self.serve_until(pool, lambda: not select.select([pool], [], [], 0.5)[0], "the fd is silent")
        start = time.monotonic()
        for _ in range(100):
            pool.dispatch()
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual(self.number(pool, "starting"), 1)
        # Others are not kept waiting by it, and freeing the pool ends it.
        self.plan({})
        self.assertFalse(self.take(pool).was_kept)

    def test_asyncio(self):
        async def work(pool):
            ticks = 0
            asyncio.get_running_loop().add_reader(pool.fileno(), pool.dispatch)
            while self.number(pool, "ready") < 2:
                await asyncio.sleep(0.005)
                ticks += 1
            vm = await asyncio.get_running_loop().run_in_executor(None, lambda: self.take(pool))
            async with cchv.aio.serve(vm):
                while self.number(pool, "ready") < 2:
                    await asyncio.sleep(0.005)
            asyncio.get_running_loop().remove_reader(pool.fileno())
            return vm, ticks
        pool = self.pool(2)
        vm, ticks = asyncio.run(asyncio.wait_for(work(pool), PATIENCE))
        self.assertTrue(vm.was_kept)
        # The program's own work went on meanwhile: two starts take a second, and each stop of it some milliseconds.
        self.assertGreater(ticks, 5)

    def test_several_threads(self):
        """Takers and fillers in threads of their own: each VM goes to one of them, and a start goes from one thread to the
        other."""
        pool, taken, failures = self.pool(3), [], []

        def work(function):
            try:
                function()
            except BaseException as failure:
                failures.append(failure)

        def take():
            for _ in range(3):
                taken.append(pool.take(timeout=PATIENCE))

        def fill():
            for _ in range(4):
                pool.fill(PATIENCE)
        threads = [threading.Thread(target=work, args=(function,)) for function in [take] * 3 + [fill] * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * PATIENCE)
        self.vms += taken
        self.assertEqual((failures, len(taken), len({vm.id for vm in taken})), ([], 9, 9))
        self.assertEqual({vm.state for vm in taken}, {VmState.RUNNING})
        stats = pool.stats()
        self.assertEqual(stats["pool.taken"] + stats["pool.missed"], 9)
        self.assertEqual(stats["pool.taken"], len([vm for vm in taken if vm.was_kept]))
        pool.fill(PATIENCE)
        self.assertEqual(self.number(pool, "ready"), 3)

    def test_free_while_one_is_started(self):
        for call in ("vmm.ping", "vm.create", "vm.boot", "vm.pause"):
            with self.subTest(call):
                self.plan({"api": {call: {"stall": True}}})
                pool = self.pool(1, config=self.config(start=Start.COLD))
                self.serve_until(pool, lambda: any(self.residents()), "a start is under way")
                self.serve_until(pool, lambda: not select.select([pool], [], [], 1)[0], "it waits for the VMM")
                self.assertEqual(self.number(pool, "starting"), 1)
                pool.close()
                self.assertEqual((self.ids(), list(self.residents())), (set(), []))
        self.plan({"agent": {"calls": {"vm.configure": "stall"}}})
        pool = self.pool(1, config=self.config(start=Start.COLD))
        self.serve_until(pool, lambda: any(self.residents()), "a start is under way")
        self.serve_until(pool, lambda: not select.select([pool], [], [], 1)[0], "it waits for the agent")
        pool.close()
        self.assertEqual((self.ids(), list(self.residents())), (set(), []))


    def test_no_descriptor_is_left(self):
        def descriptors():
            return sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if
                          os.path.exists(f"/proc/self/fd/{fd}"))
        self.take(self.pool(0)).close()  # what is opened once in a process
        self.pools.pop().close()
        before = descriptors()
        for plan in ({}, {"api": {"vm.create": {"status": 500, "body": '["no"]'}}}, {"api": {"vm.boot": {"stall": True}}}):
            self.plan(plan)
            with cchv.Pool(self.config(start=Start.COLD), 1, context=self.context, reserve=0, start_timeout=1) as pool:
                if plan:
                    with self.assertRaises(cchv.Error):
                        pool.fill(PATIENCE)
                    continue
                pool.fill(PATIENCE)
                pool.take(timeout=PATIENCE).close()
                pool.fill(PATIENCE)
                pool.dispatch()
            self.assertEqual(descriptors(), before)
        self.assertEqual(descriptors(), before)


class Bounds(PoolCase):
    def test_target(self):
        pool = self.pool(3)
        pool.fill(PATIENCE)
        youngest = self.context.list_vms()[-1]
        pool.set(target=2)
        self.serve_until(pool, lambda: len(self.ids()) == 2, "one goes")
        self.assertNotIn(youngest, self.ids())
        pool.set(target=0)
        self.serve_until(pool, lambda: not self.ids(), "all go")
        self.assertEqual([self.number(pool, name) for name in ("ready", "private_bytes", "let_go", "died", "failed")],
                         [0, 0, 3, 0, 0])
        pool.set(target=1)
        pool.fill(PATIENCE)

    def test_bytes(self):
        pool = self.pool(1)
        pool.fill(PATIENCE)
        one = self.number(pool, "expected_bytes")
        self.assertEqual(self.number(pool, "private_bytes"), one)
        pool.set(target=5, max_bytes=one * 5 // 2)
        with self.refused(cchv.LimitError, "bound", str(one * 5 // 2)):
            pool.fill(PATIENCE)
        self.assertEqual((self.number(pool, "ready"), self.number(pool, "let_go")), (2, 0))
        self.assertLessEqual(self.number(pool, "private_bytes"), one * 5 // 2)
        with self.refused(cchv.LimitError, "bound"):
            pool.check()
        # Not a start more, however often it is asked; one less, one more.
        for _ in range(10):
            pool.dispatch()
        self.assertEqual(len(self.ids()), 2)
        pool.set(max_bytes=one * 3 // 2)
        self.serve_until(pool, lambda: len(self.ids()) == 1, "one goes")
        self.take(pool)
        with self.refused(cchv.LimitError, "bound"):
            pool.fill(PATIENCE)
        self.assertEqual((self.number(pool, "ready"), self.number(pool, "started")), (1, 3))
        pool.set(max_bytes=0, target=2)
        pool.fill(PATIENCE)

    def test_one_is_too_large(self):
        pool = self.pool(1, max_bytes=MIB)
        with self.refused(cchv.LimitError, "bound", str(MIB)):
            pool.fill(PATIENCE)
        self.serve_until(pool, lambda: not self.ids(), "it goes")
        with self.refused(cchv.LimitError, "bound"):
            pool.fill(PATIENCE)
        self.assertEqual([self.number(pool, name) for name in ("started", "let_go", "ready")], [1, 1, 0])
        self.assertFalse(self.take(pool).was_kept)

    def test_the_hosts_memory(self):
        pool = self.pool(2)
        pool.fill(PATIENCE)
        pool.set(reserve=1 << 50)
        self.serve_until(pool, lambda: not self.ids(), "all go")
        with self.refused(cchv.LimitError, "available", str(1 << 50)):
            pool.fill(PATIENCE)
        self.assertEqual((self.number(pool, "let_go"), self.number(pool, "started")), (2, 2))
        pool.set(reserve=0)
        pool.fill(PATIENCE)

    def test_defaults(self):
        pool = cchv.Pool(self.config(), 0, context=self.context)
        self.pools.append(pool)
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.assertAlmostEqual(self.number(pool, "max_bytes") / total, 1 / 4, places=3)
        self.assertAlmostEqual(self.number(pool, "reserve_bytes") / total, 1 / 16, places=3)


class Failures(PoolCase):
    def test_a_start_that_fails(self):
        self.plan({"api": {"vm.create": {"status": 500, "body": '["no such thing"]'}}})
        pool = self.pool(2)
        with self.refused(cchv.VmmError, "failure 1", "no such thing"):
            pool.fill(PATIENCE)
        start = time.monotonic()
        with self.refused(cchv.VmmError, "failure 1"):
            pool.fill(PATIENCE)
        # A second, two, and not more starts than that.
        self.serve_until(pool, lambda: self.number(pool, "failed") == 3, "three failures")
        self.assertGreaterEqual(time.monotonic() - start, 2.5)
        with self.refused(cchv.VmmError, "failure 3", "no such thing"):
            pool.check()
        self.assertEqual(self.ids(), set())
        with self.refused(cchv.VmmError, "no such thing"):
            pool.take(timeout=PATIENCE)
        # It is tried again when the time has come.
        self.plan({})
        self.serve_until(pool, lambda: self.number(pool, "ready") == 2, "it recovers")
        pool.check()

    def test_a_start_that_stalls(self):
        for plan in ({"api": {"vm.boot": {"stall": True}}}, {"agent": {"announce": False}},
                     {"agent": {"calls": {"vm.configure": "stall"}}}):
            with self.subTest(plan):
                self.plan(plan)
                pool = self.pool(1, start_timeout=2)
                with self.refused(cchv.LimitError, "failure 1", "timed out"):
                    pool.fill(PATIENCE)
                self.assertEqual((self.ids(), list(self.residents())), (set(), []))
                pool.close()

    def test_a_vmm_that_dies_while_it_is_started(self):
        for call in ("vmm.ping", "vm.create", "vm.boot", "vm.pause"):
            with self.subTest(call):
                self.plan({"api": {call: {"signal": 9}}})
                pool = self.pool(1)
                with self.refused(cchv.VmmGoneError, "failure 1"):
                    pool.fill(PATIENCE)
                self.assertEqual(self.ids(), set())
                pool.close()

    def test_one_that_dies_in_the_pool(self):
        pool = self.pool(2)
        pool.fill(PATIENCE)
        victim, other = self.context.list_vms()
        with open(os.path.join(self.run, victim, "vm.json"), encoding="utf-8") as file:
            os.kill(json.load(file)["vmm"]["pid"], signal.SIGKILL)
        self.serve_until(pool, lambda: self.number(pool, "died") == 1, "its death is noticed")
        self.assertEqual(self.ids(), {other})
        with self.refused(cchv.VmmGoneError, victim, "died in the pool"):
            pool.check()
        self.serve_until(pool, lambda: self.number(pool, "ready") == 2, "it is replaced")
        self.assertEqual((self.number(pool, "started"), self.number(pool, "let_go")), (3, 0))

    def test_a_dead_one_is_not_handed_out(self):
        pool = self.pool(2)
        pool.fill(PATIENCE)
        victim, other = self.context.list_vms()
        with open(os.path.join(self.run, victim, "vm.json"), encoding="utf-8") as file:
            os.kill(json.load(file)["vmm"]["pid"], signal.SIGKILL)
        # Nobody has dispatched, so nobody has noticed.
        vm = self.take(pool)
        self.assertEqual((vm.id, vm.was_kept, vm.state), (other, True, VmState.RUNNING))
        self.assertEqual((self.number(pool, "died"), self.number(pool, "taken")), (1, 1))
        self.assertEqual(self.ids(), {other})

    def test_one_that_does_not_go_on(self):
        for order, words in (({"api": {"vm.resume": {"status": 500, "body": '["not now"]'}}}, "not now"),
                             ({"api": {"vm.resume": {"signal": 9}}}, "signal 9"),
                             ({"agent": {"calls": {"vm.configure": {"error": {"errno": "EIO", "message": "no"}}}}}, "no"),
                             ({"agent": {"calls": {"vm.configure": "stall"}}}, "timed out")):
            with self.subTest(order):
                pool = self.pool(1)
                pool.fill(PATIENCE)
                id = self.context.list_vms()[0]
                self.tell(id, **order)
                start = time.monotonic()
                vm = self.take(pool, timeout=PATIENCE)
                self.assertFalse(vm.was_kept)
                self.assertNotIn(id, self.ids())
                self.assertEqual((self.number(pool, "died"), self.number(pool, "missed")), (1, 1))
                # Ten seconds for it of the minute, and the rest for another.
                self.assertLess(time.monotonic() - start, PATIENCE / 2)
                self.assertTrue([line for line in self.lines if line.startswith("pool: ") and words in line], self.lines)
                vm.close()
                pool.close()

    def test_a_template_that_does_not_work(self):
        key = self.context.build_template(timeout=PATIENCE)
        self.plan({"api": {"vm.resume": {"status": 500, "body": '["it cannot go on"]'}}})
        pool = self.pool(1)
        pool.fill(PATIENCE)
        self.assertEqual(self.context.list_templates(), [])
        self.tell(self.context.list_vms()[0], api={"vm.resume": {}})
        vm = self.take(pool)
        self.assertEqual((vm.was_kept, vm.start[0]), (True, Start.COLD))
        self.assertIn("it cannot go on", vm.start[1])
        with self.refused(cchv.NotFoundError, key):
            self.context.template_info(key)
        # Who wants nothing but a clone is told.
        pool.close()
        with self.refused(cchv.NotFoundError, "cannot start from a template"):
            self.pool(1, config=self.config(start=Start.TEMPLATE)).fill(PATIENCE)


if __name__ == "__main__":
    main()
