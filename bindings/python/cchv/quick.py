# SPDX-License-Identifier: Apache-2.0
"""The shortest way: one call that runs a command in a VM of its own."""
from .constants import Start, VmState
from .containers import ContainerConfig
from .errors import Error
from .images import Image
from .process import Popen, finish, pipes_for
from .vm import Vm
from .vm_config import VmConfig

_VM_SETTINGS = ("memory", "vcpus", "disks", "nets", "fs")


def _boot(machine, last):
    """False: the template did not work that the VM was to start from. One that is made anew starts cold."""
    try:
        machine.boot()
    except Error:
        start, why = machine.start
        if last or start != Start.TEMPLATE or why is None:
            raise
        return False
    return True


def run(image, args=None, *, input=None, capture_output=False, timeout=None, check=False, stdin=None, stdout=None,
        stderr=None, text=False, encoding=None, errors=None, context=None, vm=None, **settings):
    """Run an image (a name of the cache, a digest, an .erofs path, or an Image) in a VM of its own, and return a
    CompletedProcess when its init has ended and the VM is gone. args replace the image's command. memory, vcpus,
    disks, nets and fs go to the VM (or give a VmConfig as vm), other settings to ContainerConfig."""
    streams = pipes_for(input, capture_output, {"stdin": stdin, "stdout": stdout, "stderr": stderr})
    vm_settings = {name: settings.pop(name) for name in _VM_SETTINGS if name in settings}
    if vm is not None and vm_settings:
        raise ValueError(f"vm excludes {', '.join(vm_settings)}")
    opened = None if isinstance(image, Image) else Image(image, context=context)
    config = VmConfig(**vm_settings) if vm is None else vm
    try:
        with ContainerConfig("main", opened or image, args, **settings) as container_config:
            for attempt in (1, 2):
                with Vm(config, context=context) as machine, machine.create_container(container_config) as container:
                    try:
                        if not _boot(machine, attempt == 2):
                            continue
                        popen = Popen.init(container, text=text, encoding=encoding, errors=errors, **streams)
                        with popen.exec:
                            done = finish(popen, input, timeout, check)
                        machine.shutdown()
                        return done
                    finally:
                        # Nothing of it stays, however it ended.
                        if machine.state != VmState.STOPPED:
                            machine.kill()
                            machine.wait()
                        container.delete()
    finally:
        if vm is None:
            config.close()
        if opened is not None:
            opened.close()
