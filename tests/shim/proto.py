# SPDX-License-Identifier: Apache-2.0
"""protobuf by field numbers, as far as the tests need it: a codec of its own, so that it does not share the shim's mistakes."""
import struct


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def encode(*fields):
    """(number, value) pairs: int, str, bytes, or a list of them."""
    out = b""
    for number, value in fields:
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, int):
                out += varint(number << 3) + varint(item) if item else b""
            else:
                data = item.encode() if isinstance(item, str) else item
                # As a proto3 writer leaves out what is empty; in a list it is an element.
                if data or isinstance(value, list):
                    out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def decode(data):
    """{number: [values]}; messages, texts and bytes are bytes."""
    out, at = {}, 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = read_varint(data, at)
        elif kind == 2:
            length, at = read_varint(data, at)
            if at + length > len(data):
                raise ValueError("a field that is longer than its message")
            value, at = data[at:at + length], at + length
        elif kind == 1:
            value, at = struct.unpack("<d", data[at:at + 8])[0], at + 8
        else:
            raise ValueError(f"wire type {kind}")
        out.setdefault(key >> 3, []).append(value)
    return out


class Message:
    """Named access: Message(data, id=1, pid=3).pid; texts are str unless asked for by .raw()."""

    def __init__(self, data, **names):
        self.fields, self.names = decode(data), names

    def raw(self, name):
        return self.fields.get(self.names[name], [b""])[-1]

    def number(self, name):
        return self.fields.get(self.names[name], [0])[-1]

    def text(self, name):
        return self.fields.get(self.names[name], [b""])[-1].decode()

    def all(self, name):
        return self.fields.get(self.names[name], [])


def any_of(url, value):
    return encode((1, url), (2, value))


def time_of(data):
    """Seconds of a Timestamp; 0.0 where it is absent."""
    fields = decode(data)
    return fields.get(1, [0])[-1] + fields.get(2, [0])[-1] / 1e9
