#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A kernel's ELF file without what nobody loads: pack.py VMLINUX PACKED

The linker puts each segment at a multiple of 2 MB of the file too, and fills the text up to such a multiple with int3: of
19 MB, 5 are holes or filling. PACKED has the same bytes at the same addresses, one segment after the other, without the
filling (which the VMM leaves zero) and without section headers. VMMs take segments from any offset."""
import struct
import sys

PT_LOAD, PT_NOTE = 1, 4
SHF_EXECINSTR = 4
HEADER, ENTRY, SECTION = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ"), struct.Struct("<IIQQQQIIQQ")
FILLING = b"\xcc" * 65536


def fillings(header, data):
    """(begin, end) of each long run of int3, as offsets into the file; only where there is code, in data it would be data."""
    for i in range(header[12]):
        _, _, flags, _, offset, size, *_ = SECTION.unpack_from(data, header[6] + i * header[11])
        begin = data.find(FILLING, offset, offset + size) if flags & SHF_EXECINSTR else -1
        while begin >= 0:
            end = begin
            while end < offset + size and data[end] == FILLING[0]:
                end += 1
            yield begin, end
            begin = data.find(FILLING, end, offset + size)


def parts(segment, skipped):
    """A segment to load as (flags, offset, virtual, physical, file size, memory size), one for each part between fillings."""
    _, flags, offset, virtual, physical, in_file, in_memory, _ = segment
    position, end = 0, in_file
    for begin, stop in skipped:
        begin, stop = begin - offset, stop - offset
        if position <= begin < stop <= end:
            yield flags, offset + position, virtual + position, physical + position, begin - position, begin - position
            position = stop
    if position < in_memory:
        yield (flags, offset + position, virtual + position, physical + position, end - position, in_memory - position)


def pack(data):
    header = list(HEADER.unpack_from(data))
    segments = [ENTRY.unpack_from(data, header[5] + i * ENTRY.size) for i in range(header[10])]
    skipped = sorted(fillings(header, data))
    loads = [part for s in segments if s[0] == PT_LOAD for part in parts(s, skipped)]
    notes = [s for s in segments if s[0] == PT_NOTE]
    if any(s[2] + s[5] > len(data) for s in segments):
        raise ValueError("it ends before a segment of it does")
    position = HEADER.size + ENTRY.size * (len(loads) + len(notes))
    entries, body = [], b""
    for flags, offset, virtual, physical, in_file, in_memory in loads:
        body += bytes(-(position + len(body)) % 16)
        entries.append((PT_LOAD, flags, position + len(body), virtual, physical, in_file, in_memory, 1))
        body += data[offset:offset + in_file]
    for _, flags, offset, virtual, physical, in_file, in_memory, align in notes:
        # Once more, and not as part of what is loaded: a loader reads them by their offset, aligned as they were.
        body += bytes(-(position + len(body)) % max(align, 1))
        entries.append((PT_NOTE, flags, position + len(body), virtual, physical, in_file, in_memory, align))
        body += data[offset:offset + in_file]
    header[5], header[6] = HEADER.size, 0
    header[9:14] = [ENTRY.size, len(entries), 0, 0, 0]
    return HEADER.pack(*header) + b"".join(ENTRY.pack(*e) for e in entries) + body


def main():
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    try:
        packed = pack(data)
    except (ValueError, struct.error) as error:
        sys.exit(f"{sys.argv[1]}: {error}")
    with open(sys.argv[2], "wb") as file:
        file.write(packed)


if __name__ == "__main__":
    main()
