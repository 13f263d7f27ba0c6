# SPDX-License-Identifier: Apache-2.0
"""CRI-O, which calls the shim in its own way."""
import os
import time

import shim
import test_sandbox


class CriO(test_sandbox.Case):
    """CRI-O: no place for events, no call of "start" for a member, namespaces by files of its own."""

    def flags(self, id):
        return ["-namespace", "default", "-address", "", "-publish-binary", "/usr/bin/crio", "-id", id]

    def plan(self, plan):
        super().plan(plan)
        self.environment["TTRPC_ADDRESS"] = ""

    def spaces(self, pid=None):
        return [{"type": "mount"}, {"type": "pid", **({"path": pid} if pid else {})},
                *({"type": kind, "path": f"{self.directory}/{kind}ns"} for kind in ("ipc", "uts")),
                {"type": "network", "path": self.path}]

    def pod_container(self, id, kind):
        bundle = self.bundle(id, annotations={"io.kubernetes.cri-o.SandboxID": "pod", "io.kubernetes.cri-o.ContainerType": kind,
                                              "io.kubernetes.cri-o.PodLinuxResources": '{"memory_limit_in_bytes":100663296}'},
                             hostname="web-0", linux={"namespaces": self.spaces()})
        task = shim.Task(None, id)
        task.bundle = bundle
        return task

    def test_pod(self):
        self.record()
        self.environment["TTRPC_ADDRESS"] = ""
        self.path = self.netns()
        pod = self.pod_container("pod", "sandbox")
        pod.socket = self.start("pod", pod.bundle)
        pod.client = self.client(pod.socket)
        self.create(pod).start()
        member = self.pod_container("m", "container")
        member.client, member.socket = self.client(pod.socket), pod.socket
        self.create(member).start()
        owner = next(p["container"] for m, p in self.recorded() if m == "container.create" and p["container"].startswith("pod."))
        self.assertEqual([(n["type"], n.get("path")) for n in self.spec_of("pod")["linux"]["namespaces"]],
                         [("mount", None), ("pid", None), ("ipc", None), ("uts", None)])
        self.assertEqual([(n["type"], n.get("path")) for n in self.spec_of("m")["linux"]["namespaces"]],
                         [("mount", None), ("pid", None)] + [(kind, "container:" + owner) for kind in ("ipc", "uts")])
        online = next(p for m, p in self.recorded() if m == "vm.online")
        self.assertGreater(online["memory_bytes"], 96 << 20)
        self.assertLess(online["memory_bytes"], 256 << 20, "as large as the kubelet's sum, and not 2 GiB")
        for task in (member, pod):
            task.kill()
            self.assertEqual(task.wait(), 137)
            task.delete()
        server = pod.connect().number("shim")
        start = time.monotonic()
        pod.shutdown()
        self.until(lambda: not self.is_alive(server), "the server")
        self.assertLess(time.monotonic() - start, 4, "nobody waits for events that nobody wants")
        self.assertNotIn("events:", self.log_text())
        self.assertEqual(self.events.list, [])


if __name__ == "__main__":
    shim.main()
