"""TensorFlow's event files made by hand, as its writers make them."""

import struct

from trainshed.engines.supervise.watch.event_files import masked_crc

CRC = struct.Struct("<I")


def varint(number):
    encoded = b""
    while True:
        number, low = number >> 7, number & 0x7F
        encoded += bytes([low | (0x80 if number else 0)])
        if not number:
            return encoded


def field(number, kind, data):
    return varint(number << 3 | kind) + data


def text(number, data):
    data = data.encode() if isinstance(data, str) else data
    return field(number, 2, varint(len(data)) + data)


def simple(tag, value):
    """As TensorFlow 1, tensorboardX and torch write it."""
    return text(1, text(1, tag) + field(2, 5, struct.pack("<f", value)))


def tensor(tag, value, form="<f", dtype=1):
    """As TensorFlow 2 does."""
    content = field(1, 0, varint(dtype)) + text(4, struct.pack(form, value))
    return text(1, text(7, "node") + text(1, tag) + text(8, content) + text(9, text(1, "x")))


def event(*values, step=0, at_s=1000.0):
    signed = step % (1 << 64)
    head = field(1, 1, struct.pack("<d", at_s)) + field(2, 0, varint(signed))
    return head + (text(5, b"".join(values)) if values else b"")


def record(data):
    length = struct.pack("<Q", len(data))
    return length + CRC.pack(masked_crc(length)) + data + CRC.pack(masked_crc(data))


def first(version="brain.Event:2"):
    return record(field(1, 1, struct.pack("<d", 1000.0)) + text(3, version))
