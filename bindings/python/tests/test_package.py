# SPDX-License-Identifier: Apache-2.0
"""The binding as a package: what pip makes of the directory, without a network, is all that a program needs."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..")


def python_with_pip():
    """The interpreter of the tests, or the system's: one has what a build without a network needs."""
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", "import setuptools, wheel, pip"], capture_output=True,
                                                     check=False).returncode == 0:
            return python
    return None


class Package(unittest.TestCase):
    def setUp(self):
        self.python = python_with_pip()
        if not self.python:
            self.skipTest("no Python with pip, setuptools and wheel")
        self.directory = tempfile.mkdtemp(prefix="cchv-pip-")
        self.addCleanup(shutil.rmtree, self.directory)
        # pip builds in the directory that it is given: not in the source tree.
        self.source = os.path.join(self.directory, "source")
        os.mkdir(self.source)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(os.path.join(SOURCE, name), self.source)
        shutil.copytree(os.path.join(SOURCE, "cchv"), os.path.join(self.source, "cchv"), ignore=shutil.ignore_patterns("__pycache__"))

    def test_install(self):
        target = os.path.join(self.directory, "target")
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PIP_INDEX_URL")}
        done = subprocess.run([self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index",
                               "--no-build-isolation", "--no-deps", "--target", target, self.source],
                              capture_output=True, text=True, env={**environment, "HOME": self.directory}, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        installed = sorted(name for name in os.listdir(os.path.join(target, "cchv")) if name.endswith(".py"))
        self.assertEqual(installed, sorted(name for name in os.listdir(os.path.join(SOURCE, "cchv")) if name.endswith(".py")))
        code = ("import cchv, os\n"
                "print(os.path.dirname(cchv.__file__))\n"
                "print(cchv.version().startswith(cchv.__version__.rsplit('.', 1)[0]))\n"
                "with cchv.Context(runtime_dir=os.environ['DIR'] + '/run', state_dir=os.environ['DIR'] + '/state') as context:\n"
                "    print(context.list_vms())\n"
                "with cchv.ContainerConfig('box', None, ['sleep', '1']) as config:\n"
                "    print(config.spec['process']['args'])\n"
                "try:\n    cchv.Image('none', context=cchv.Context(state_dir=os.environ['DIR'] + '/state'))\n"
                "except cchv.NotFoundError as e:\n    print(cchv.aio is not None, 'none' in str(e))\n")
        done = subprocess.run([self.python, "-c", code], capture_output=True, text=True, cwd=self.directory, check=False,
                              env={**environment, "PYTHONPATH": target, "DIR": self.directory})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines(), [os.path.join(target, "cchv"), "True", "[]", "['sleep', '1']", "True True"])


if __name__ == "__main__":
    unittest.main()
