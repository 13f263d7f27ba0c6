# SPDX-License-Identifier: Apache-2.0
"""A dockerd of our own, in a mount and a network namespace of its own; all that it has lies in a directory that goes with the case.

CCHV_DOCKERD names the program; its directory comes first on its PATH. "docker" and "containerd" are those of PATH.
"""
import json
import os
import re
import shutil
import subprocess

import image
import shim

DOCKERD = os.environ.get("CCHV_DOCKERD") or shutil.which("dockerd")
IMAGE = "busybox:test"
SUBNET = "10.99.0"
# /etc is the host's with our settings in it: dockerd has no way to name another file to a runtime.
START = """set -e
mount --make-rprivate /
mount -t overlay -o lowerdir=/etc,upperdir=$DIR/etc,workdir=$DIR/etc.work overlay /etc
ip link set lo up
exec "$@"
"""


def why_not():
    """The reason that these cases cannot be run for, or None."""
    if os.environ.get("CCHV_SHIM_REAL") != "1":
        return "containers of Docker need a real VM: CCHV_SHIM_REAL=1"
    for name, path in (("dockerd", DOCKERD), ("docker", shutil.which("docker")), ("containerd", shutil.which("containerd"))):
        if not path or not os.access(path, os.X_OK):
            return f"{name} is not installed"
    return None


def runtime():
    """Docker takes a shim's own name since 23.0; before that only the one that is built in, which containerd looks for on PATH."""
    said = subprocess.run([DOCKERD, "--version"], capture_output=True, text=True, check=True).stdout
    return "io.containerd.cchv.v2" if int(re.search(r"version (\d+)", said).group(1)) >= 23 else "io.containerd.runc.v2"


class Case(shim.Case):
    def setUp(self):
        super().setUp()
        self.events.close()
        self.runtime, self.docker_socket = runtime(), os.path.join(self.directory, "docker.sock")
        for name in ("bin", "etc/cchv", "etc.work"):
            os.makedirs(os.path.join(self.directory, name))
        self.file("etc/cchv/config.toml", self.settings())
        if self.runtime == "io.containerd.runc.v2":
            os.symlink(shim.PROGRAM, os.path.join(self.directory, "bin/containerd-shim-runc-v2"))
        self.environment.pop("TTRPC_ADDRESS")
        self.environment.update(DIR=self.directory, DOCKER_HOST="unix://" + self.docker_socket,
                                DOCKER_CONFIG=os.path.join(self.directory, "client"),
                                PATH=":".join((os.path.join(self.directory, "bin"), os.path.dirname(shim.PROGRAM),
                                               os.path.dirname(DOCKERD), os.environ["PATH"])))
        self.daemon = None
        self.start_daemon()
        self.docker("import", "--change", 'CMD ["/bin/sh"]', "-", IMAGE, input=image.layer())

    def settings(self):
        return f'runtime_dir = "{self.directory}/run"\nstate_dir = "{self.directory}/state"\nmemory_mib = 256\nvcpus = 1\n'

    def start_daemon(self):
        words = ["unshare", "--mount", "--net", "sh", "-c", START, "sh", DOCKERD, "--debug", "--iptables=false",
                 "--ip6tables=false", "--ip-masq=false", "--ip-forward=false", "--storage-driver", "overlay2",
                 "--data-root", os.path.join(self.directory, "data"), "--exec-root", os.path.join(self.directory, "exec"),
                 "--pidfile", os.path.join(self.directory, "docker.pid"), "--host", "unix://" + self.docker_socket,
                 "--bip", SUBNET + ".1/24"]
        with open(os.path.join(self.directory, "dockerd.log"), "ab") as log:
            self.daemon = subprocess.Popen(words, stdout=log, stderr=log, env=self.environment, start_new_session=True)
        self.until(lambda: self.docker("version", check=False).returncode == 0 or self.daemon.poll() is not None, "no dockerd")

    def tearDown(self):
        names = self.docker("ps", "-aq", check=False).stdout.decode().split()
        if names:
            self.docker("rm", "-f", *names, check=False)
        self.daemon.terminate()
        self.daemon.wait(shim.PATIENCE)
        self.until(lambda: not self.residents(), "processes are left", kill=None)
        super().tearDown()

    def log_text(self):
        lines = self.read("dockerd.log").decode(errors="replace").splitlines()
        boring = ("msg=\"Calling", "msg=\"form data", "msg=\"Registering", "msg=\"loading plugin")
        return "\n".join(line for line in lines if not any(word in line for word in boring))[-20000:]

    def docker(self, *words, check=True, input=None, timeout=None):
        done = subprocess.run(["docker", *words], input=input, capture_output=True, env=self.environment, check=False,
                              timeout=timeout or shim.PATIENCE * 5)
        if check:
            self.assertEqual(done.returncode, 0, (words, done.stdout[-2000:], done.stderr[-2000:]))
        return done

    def words(self, *options):
        return ["run", "--runtime", self.runtime, *options]

    def run_docker(self, *words, **keys):
        return self.docker(*self.words(*words), **keys)

    def inspect(self, name, *path):
        value = json.loads(self.docker("inspect", name).stdout)[0]
        for part in path:
            value = value[part]
        return value
