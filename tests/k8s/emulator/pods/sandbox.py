"""The process that holds a pod's namespaces; run with ``-I -S``, its order is JSON on its input.

It joins nothing and runs nothing; the pod's containers enter its namespaces by its pid.
"""

# A process that does not import pathlib starts sooner.
# ruff: noqa: PTH120

import fcntl
import json
import os
import signal
import socket
import struct
import sys

sys.path.insert(0, os.path.dirname(__file__))

import linux

SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def main():
    linux.die_with_parent()
    order = json.load(sys.stdin.buffer)
    linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWUTS | linux.CLONE_NEWIPC | linux.CLONE_NEWNET)
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    linux.set_hostname(order["hostname"])
    for row in order["tmpfs"]:
        linux.mount("tmpfs", row["path"], "tmpfs", 0, row["options"])
    for row in order["files"]:
        _write(row)
    _raise_loopback()
    os.write(1, b"ready\n")
    signal.sigwait({signal.SIGTERM})


def _write(row):
    descriptor = os.open(row["path"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, row["mode"])
    os.write(descriptor, row["text"].encode())
    os.fchmod(descriptor, row["mode"])
    os.fchown(descriptor, -1, row["group"])
    os.close(descriptor)


def _raise_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plug:
        fcntl.ioctl(plug, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


main()
