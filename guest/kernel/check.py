#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What build.sh looks at before it believes in a kernel.

check.py config FRAGMENT CONFIG: each line of FRAGMENT must hold in CONFIG, the configuration in the end. The kernel's own
tools drop without a word what has lost a dependency, or what a newer source calls by another name.

check.py image VMLINUX: an uncompressed 64-bit ELF program that both VMMs can enter (a Xen note of type 18 has the 32-bit
entry of PVH), of at most 12 MB."""
import re
import struct
import sys

SIZE_MAX = 12_000_000
PT_LOAD, PT_NOTE = 1, 4
ET_EXEC, EM_X86_64 = 2, 62
PVH_ENTRY = 18

_SET = re.compile(r"(CONFIG_[A-Za-z0-9_]+)=(.+)")
_UNSET = re.compile(r"# (CONFIG_[A-Za-z0-9_]+) is not set")


class Wrong(Exception):
    pass


def settings(text, strict):
    """Values by name, None for what is off. strict: nothing else than settings, comments and blank lines, nothing twice."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _SET.fullmatch(line) or _UNSET.fullmatch(line)
        if not match:
            if strict and line and (line.startswith("# CONFIG_") or not line.startswith("#")):
                raise Wrong(f"line {number} is no setting: {line}")
            continue
        name, value = match.group(1), match.group(2) if match.re is _SET else None
        if strict and name in found:
            raise Wrong(f"line {number}: {name} is there twice")
        if strict and value == "m":
            raise Wrong(f"line {number}: {name} is a module, and there are none")
        found[name] = value
    return found


def check_config(fragment, config):
    wanted, have = settings(fragment, True), settings(config, False)
    lost = [f"{name} is {have.get(name) or 'off'}, not {value or 'off'}"
            for name, value in wanted.items() if have.get(name) != value]
    lost += [f"{name} is a module" for name, value in have.items() if value == "m"]
    if lost:
        raise Wrong("\n".join(lost))


def _notes(data):
    """(name, type, descriptor) of each note of one segment."""
    position = 0
    while position + 12 <= len(data):
        name_len, desc_len, kind = struct.unpack_from("<III", data, position)
        name = data[position + 12:position + 12 + name_len]
        start = position + 12 + (name_len + 3) // 4 * 4
        yield name, kind, data[start:start + desc_len]
        position = start + (desc_len + 3) // 4 * 4


def check_image(data):
    if len(data) > SIZE_MAX:
        raise Wrong(f"{len(data)} bytes, more than {SIZE_MAX}")
    if len(data) < 64 or data[:6] != b"\x7fELF\x02\x01":
        raise Wrong("no 64-bit ELF file")
    kind, machine = struct.unpack_from("<HH", data, 16)
    if (kind, machine) != (ET_EXEC, EM_X86_64):
        raise Wrong(f"ELF type {kind}, machine {machine}: no program for x86-64")
    table, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    notes = [note for s in segments if s[0] == PT_NOTE for note in _notes(data[s[2]:s[2] + s[5]])]
    entries = [desc for name, number, desc in notes if name == b"Xen\0" and number == PVH_ENTRY]
    if not entries:
        raise Wrong("no note with an entry for PVH")
    entry = int.from_bytes(entries[0], "little")
    if not any(s[0] == PT_LOAD and s[4] <= entry < s[4] + s[5] for s in segments):
        raise Wrong(f"the entry for PVH, {entry:#x}, lies in no segment")


def read(path, mode="r"):
    with open(path, mode) as file:
        return file.read()


def main():
    try:
        if sys.argv[1] == "config":
            check_config(read(sys.argv[2]), read(sys.argv[3]))
        else:
            check_image(read(sys.argv[2], "rb"))
    except Wrong as wrong:
        sys.exit("\n".join(f"{sys.argv[2]}: {line}" for line in str(wrong).splitlines()))


if __name__ == "__main__":
    main()
