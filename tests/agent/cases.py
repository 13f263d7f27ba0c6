# SPDX-License-Identifier: Apache-2.0
"""What the tests of the agent share: running cases, each against a fresh agent, and looking for what is left behind."""
import os
import sys
import time
import traceback

import agent_host as host

FULL = os.environ.get("CCHV_TEST_FULL") == "1"


def until(condition, what, timeout=30):
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(0.01)


def equal(actual, expected):
    if actual != expected:
        raise AssertionError(f"{actual!r:.300} is not {expected!r:.300}")


def refused(expected_errno, expected_kind, fn, *args, **kwargs):
    try:
        result = fn(*args, **kwargs)
    except host.Refused as error:
        equal((error.errno, error.kind), (expected_errno, expected_kind))
        return
    raise AssertionError(f"{result!r} in place of {expected_errno}")


def code(event):
    """Exit code or minus the signal, as os.waitstatus_to_exitcode has it."""
    return os.waitstatus_to_exitcode(event["status"])


def run_one(case, program):
    agent = host.Agent(program)
    try:
        # An answer shows that it has opened all that it keeps; one descriptor of these is the connection.
        first = agent.host(configure=False)
        before = agent.descriptors() - 1
        first.close()
        until(lambda: agent.descriptors() == before, "the agent's descriptors before the case")
        case(agent)
        if agent.process.poll() is None:
            until(lambda: agent.descriptors() <= before, "the agent's descriptors are back to what they were")
            until(lambda: not agent.children(), "no child is left")
    except BaseException:
        agent.process.kill()
        print(agent.stop()[1])
        raise
    result, log = agent.stop()
    if result != 0:
        raise AssertionError(f"the agent ended with {result}:\n{log}")


def main(cases):
    """Usage: TEST AGENT-PROGRAM [CASE...]"""
    program, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    failed = 0
    for case in cases:
        name = case.__name__[len("case_"):]
        if wanted and name not in wanted:
            continue
        start = time.monotonic()
        try:
            run_one(case, program)
            print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)
        except Exception:
            traceback.print_exc()
            failed += 1
            print(f"FAILED {name}", flush=True)
    sys.exit(1 if failed else 0)


def collect(namespace):
    return [fn for name, fn in namespace.items() if name.startswith("case_")]
