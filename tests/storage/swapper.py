"""A neighbour that may write to a bucket, and swaps files and folders with links as fast as it can.

``swapping`` starts it.  As a script: ``python swapper.py BUCKET OUTSIDE [UID]``.

``file`` is now a file and now a link to OUTSIDE/secret, ``folder`` now a folder and now a link to
OUTSIDE.  Says how often it has swapped, a number a line; ends with its standard input.
"""

import contextlib
import ctypes
import itertools
import os
import platform
import select
import subprocess
import sys
from pathlib import Path

import pytest

SECRET = b"the administrator's"
#: Who swaps; a server that is no root can only be its own neighbour.
NOBODY = 65534
KNOWN = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the neighbour knows renameat2 of x86-64 only"
)
RENAMEAT2, EXCHANGE, HERE = 316, 2, -100  # x86-64; the number differs elsewhere


@contextlib.contextmanager
def swapping(bucket, outside):
    """A neighbour at work, and afterwards at rest; ``outside`` is made, with a secret."""
    outside.mkdir(exist_ok=True)
    (outside / "secret").write_bytes(SECRET)
    argv = [sys.executable, __file__, bucket, outside]
    if os.geteuid() == 0:
        argv.append(str(NOBODY))
        os.chown(bucket, NOBODY, NOBODY)
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "1000\n"
        yield
        assert process.poll() is None
        process.communicate(timeout=60)


def check_unharmed(outside):
    """Nothing was made there, nor changed."""
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_bytes() == SECRET


def check_unread(*folders):
    """No file has a byte of it."""
    paths = [path for folder in folders for path in folder.rglob("*")]
    paths = [path for path in paths if path.is_file() and not path.is_symlink()]
    assert paths
    assert all(SECRET not in path.read_bytes() for path in paths)


def main(bucket, outside, uid=None):
    os.chdir(bucket)
    if uid is not None:
        os.setgroups([])
        os.setresgid(*[int(uid)] * 3)
        os.setresuid(*[int(uid)] * 3)
    Path("file").write_bytes(b"mine")
    Path("file.link").symlink_to(f"{outside}/secret")
    Path("folder/below").mkdir(parents=True)
    Path("folder/secret").write_bytes(b"mine")
    Path("folder.link").symlink_to(outside)
    pairs = [(b"file", b"file.link"), (b"folder", b"folder.link")]
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    for count in itertools.count(1):
        for one, other in pairs:
            syscall(RENAMEAT2, HERE, one, HERE, other, EXCHANGE)  # fails where one is away just now
        if count % 1000 == 0:
            sys.stdout.write(f"{count}\n")
            sys.stdout.flush()
            if select.select([sys.stdin], [], [], 0)[0]:
                return


if __name__ == "__main__":
    main(*sys.argv[1:])
