# SPDX-License-Identifier: Apache-2.0
"""The Python binding as the tests use it: loaded from the tree under test, with the directories of the test."""
import contextlib
import os
import sys

from driver import SLOW
from e2e import Skip


def load(t):
    """The module cchv, and a Context of the test's directories."""
    os.environ["CCHV_LIBRARY"] = os.path.join(t.build, "lib/libcchv.so.0")
    sys.path.insert(0, os.path.join(t.source, "bindings/python"))
    import cchv
    return cchv, cchv.Context(state_dir=t.state, runtime_dir=t.run)


@contextlib.contextmanager
def running(t, args=("sleep", "1000000"), image="tiny", vm=None, start=True, devices=None, **container):
    """A VM that this process owns with one container: (cchv, vm, container, init)."""
    cchv, context = load(t)
    image = cchv.Image(image, context=context)
    config = cchv.VmConfig(**(vm or {"memory": 256 << 20}))
    machine = cchv.Vm(config, context=context, timeout=60)
    try:
        box = machine.create_container(cchv.ContainerConfig("main", image, list(args), **container), timeout=60)
        machine.boot(timeout=90)
        init = box.start(timeout=60) if start else None
        yield cchv, machine, box, init
        if machine.state != cchv.VmState.STOPPED:
            machine.shutdown(timeout=60)
            assert machine.wait(10) == cchv.Stop.GUEST_POWEROFF, machine.stop_text
        with contextlib.suppress(cchv.NotFoundError):
            box.delete(timeout=30)
    finally:
        machine.close()


def raises(kind, call, *words, **keys):
    """The exception of that kind that the call ends with."""
    try:
        result = call(*words, **keys)
    except kind as e:
        return e
    raise AssertionError(f"{kind.__name__} expected, got {result!r}")


def build(t, state=None):
    """The key of the template, which is built if it is not there. Skips where the VMM makes no snapshots."""
    cchv, context = load(t)
    told = os.path.join(t.work, "no-snapshots")
    if os.path.exists(told):
        raise Skip("the VMM makes no snapshots")
    if state:
        context = cchv.Context(state_dir=state, runtime_dir=t.run)
    try:
        return context.build_template(timeout=300 * SLOW)
    except cchv.VmmError as error:
        if "unsupported" in str(error).lower():
            with open(told, "wb"):
                raise Skip(str(error)) from None
        raise
