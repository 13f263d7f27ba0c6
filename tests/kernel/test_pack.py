#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""guest/kernel/pack.py: the same bytes at the same addresses, without holes and filling."""
import os
import random
import struct
import sys
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, "guest/kernel"))
import pack  # noqa: E402

PT_LOAD, PT_NOTE = 1, 4
NOTE = struct.pack("<III", 4, 4, 18) + b"Xen\0" + struct.pack("<I", 0x1000100)
STEP = 2 << 20


def kernel(segments, notes, flags=4):
    """An ELF program whose segments [(physical, data, memory size)] lie at multiples of 2 MB, each a section with these
    flags, 4 for code; notes: (physical, offset)."""
    data, entries, sections = bytearray(STEP), [], [bytes(64)]
    for physical, content, size in segments:
        entries.append((PT_LOAD, 5, len(data), physical + 0xffffffff80000000, physical, len(content), size, STEP))
        sections.append(pack.SECTION.pack(1, 1, flags, physical + 0xffffffff80000000, len(data), len(content), 0, 0, 16, 0))
        data += content + bytes(-len(content) % STEP)
    for physical, offset in notes:
        entries.append((PT_NOTE, 0, offset, physical, physical, len(NOTE), len(NOTE), 4))
    header = pack.HEADER.pack(b"\x7fELF\x02\x01\x01" + bytes(9), 2, 62, 1, 0x1000123, 64, len(data), 0, 64, 56, len(entries),
                              64, len(sections), 0)
    data += b"".join(sections)
    table = b"".join(pack.ENTRY.pack(*e) for e in entries)
    data[:64 + len(table)] = header + table
    return bytes(data)


def read(data):
    """What a VMM makes of it: entry, {address: byte ranges} as memory, notes."""
    header = pack.HEADER.unpack_from(data)
    memory, notes, top = {}, [], 0
    for i in range(header[10]):
        kind, flags, offset, virtual, physical, in_file, in_memory, _ = pack.ENTRY.unpack_from(data, header[5] + i * 56)
        content = data[offset:offset + in_file]
        assert len(content) == in_file <= in_memory, "a segment beyond the file"
        if kind == PT_NOTE:
            notes.append(content)
            continue
        assert virtual - physical == 0xffffffff80000000 and flags == 5
        memory[physical] = content
        top = max(top, physical + in_memory)
    return header[4], memory, notes, top


def flat(memory, base, size):
    image = bytearray(size)
    for address, content in memory.items():
        image[address - base:address - base + len(content)] = content
    return bytes(image)


class Pack(unittest.TestCase):
    def compare(self, data, base, size, filled):
        before, after = read(data), read(pack.pack(data))
        self.assertEqual((before[0], before[2], before[3]), (after[0], after[2], after[3]))
        expected = flat(before[1], base, size)
        for begin, end in filled:
            expected = expected[:begin] + bytes(end - begin) + expected[end:]
        self.assertEqual(flat(after[1], base, size), expected)

    def test_holes_go(self):
        text, rest = random.Random(1).randbytes(5000) + NOTE, random.Random(2).randbytes(70000)
        data = kernel([(0x1000000, text, 5020), (0x1200000, rest, 90000)], [(0x1000000 + 5000, STEP + 5000)])
        self.compare(data, 0x1000000, 0x300000, [])
        self.assertLess(len(pack.pack(data)), len(text) + len(rest) + 500)

    def test_filling_goes(self):
        words = random.Random(3)
        one, two, three = words.randbytes(3000) + b"\x90", words.randbytes(4000), words.randbytes(100)
        filling = b"\xcc" * 200000
        data = kernel([(0x1000000, one + filling + b"\x90" + two + filling + b"\x90" + three, 500000)], [])
        first, second = len(one), len(one) + len(filling) + 1 + len(two)
        self.compare(data, 0x1000000, 500000, [(first, first + 200000), (second, second + 200000)])
        self.assertLess(len(pack.pack(data)), 8000)

    def test_filling_at_the_end_keeps_the_size(self):
        data = kernel([(0x1000000, b"\x90" * 10 + b"\xcc" * 100000, 300000)], [])
        self.compare(data, 0x1000000, 300000, [(10, 100010)])

    def test_a_little_filling_stays(self):
        data = kernel([(0x1000000, b"\x90" + b"\xcc" * 65535 + b"\x90", 65537)], [])
        self.compare(data, 0x1000000, 65537, [])

    def test_data_stays(self):
        data = kernel([(0x1000000, b"\x90" * 10 + b"\xcc" * 100000 + b"\x90", 300000)], [], flags=2)
        self.compare(data, 0x1000000, 300000, [])
        self.assertGreater(len(pack.pack(data)), 100000)

    def test_again_changes_nothing(self):
        once = pack.pack(kernel([(0x1000000, b"\x90" * 10 + b"\xcc" * 100000 + b"\x90", 300000)], []))
        self.assertEqual(pack.pack(once), once)


if __name__ == "__main__":
    unittest.main()
