#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cchv-qemu lives the life that was recorded of the original, and answers alike: test_recorded.py BUILD-DIR

Alike: the same successes and refusals, the same keys with values of the same type (in a configuration: the same
values), the same outer words of a refusal, the same events with the same properties in the same order."""
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../chv"))
import guest
import record
import test_api

RECORDED = os.path.join(HERE, "../fake/recorded.json")
# Of the machine or the moment.
FREE = {"build_version", "version", "features", "resources", "file", "mac", "host_mac", "fds"}
# The later version answers these where 53 answers 500.
LATER = (400, 404, 409)


def kind(value):
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def left_behind(id, node):
    """What stays in the original's device tree of a device whose plugging failed: neither parent nor address."""
    return isinstance(node, dict) and sorted(node) == ["children", "id", "resources"] and not id.startswith("__")


def differences(real, own, path, exact=False):
    if kind(real) != kind(own):
        yield f"{path}: {own!r}, not {real!r}"
    elif isinstance(real, dict):
        for key in sorted(real.keys() | own.keys()):
            if key not in own and left_behind(key, real[key]):
                continue
            if key not in own:
                yield f"{path}.{key}: missing ({real[key]!r})"
            elif key not in real:
                yield f"{path}.{key}: unknown to the original ({own[key]!r})"
            elif key not in FREE:
                yield from differences(real[key], own[key], f"{path}.{key}", exact or key == "config")
    elif isinstance(real, list):
        if len(real) != len(own):
            yield f"{path}: {len(own)} of {len(real)}: {own!r}, not {real!r}"
        for i, (a, b) in enumerate(zip(real, own)):
            yield from differences(a, b, f"{path}[{i}]", exact)
    elif exact and real != own:
        yield f"{path}: {own!r}, not {real!r}"


def outer_words(call):
    """What was refused and by whom; the parser of JSON has words of its own."""
    words = call["body"] or []
    return words[:1] if words[:1] == ["Failed to deserialize JSON"] else words[:2]


def differences_of_calls(real, own):
    if real["status"] != own["status"] and not (own["status"] == 500 and real["status"] in LATER):
        yield f"{real['call']}: status {own['status']} {own['body']}, not {real['status']} {real['body']}"
    elif real["headers"] != own["headers"]:
        yield f"{real['call']}: headers {own['headers']}, not {real['headers']}"
    elif real["status"] < 300:
        yield from differences(real["body"], own["body"], real["call"])
    elif kind(real["body"]) != kind(own["body"]) or outer_words(real) != outer_words(own):
        yield f"{real['call']}: {own['body']}, not {real['body']}"


def told(events):
    """What is told of the VM in its order; devices come up, and are reset by their drivers, when the guest sees fit.
    Deleted after a boot that failed late, a VM is shut down first in the original: that tells nobody anything."""
    names = [f"{e['source']}/{e['event']}" for e in events if e["source"] != "virtio-device"]
    return [name for i, name in enumerate(names) if (names[i - 1], name) != ("vm/booting", "vm/shutdown")]


def differences_of_events(real, own):
    if told(real) != told(own):
        yield f"events: {told(own)}, not {told(real)}"
    shapes = {(e["source"], e["event"]): e["properties"] for e in real}
    for event in own:
        wanted = shapes.get((event["source"], event["event"]))
        if event["event"] in ("activated", "device-removed", "panic") or kind(wanted) != kind(event["properties"]):
            yield from differences(wanted, event["properties"], f"event {event['event']}")
    ids = [{e["properties"]["id"] for e in events if e["event"] == "activated"} for events in (real, own)]
    if ids[0] != ids[1]:
        yield f"activated: {sorted(ids[1])}, not {sorted(ids[0])}"


def compare(real, own):
    if [c["call"] for c in real["calls"]] != [c["call"] for c in own["calls"]]:
        yield "the record is of another life: make it anew (tests/chv/record.py)"
        return
    for a, b in zip(real["calls"], own["calls"]):
        yield from differences_of_calls(a, b)
    yield from differences_of_events(real["events"], own["events"])


def main(build):
    with open(RECORDED, encoding="utf-8") as file:
        real = json.load(file)
    with tempfile.TemporaryDirectory(prefix="cchv-recorded-") as scratch:
        try:
            test_api.prepare(os.path.abspath(build), scratch)
        except guest.Missing as missing:
            print(f"skipped: {missing}")
            return 77
        own = record.life()
    found = list(compare(real, own))
    for line in found:
        print("    " + line)
    print(f"{'FAILED' if found else 'ok'} answers_like_{real['vmm']}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
