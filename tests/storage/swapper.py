"""A neighbour that may write to a bucket, and swaps files and folders with links as fast as it can.

    python swapper.py BUCKET OUTSIDE [UID]

``file`` is now a file and now a link to OUTSIDE/secret, ``folder`` now a folder and now a link to
OUTSIDE.  Says how often it has swapped, a number a line; ends with its standard input.
"""

import ctypes
import itertools
import os
import select
import sys
from pathlib import Path

RENAMEAT2, EXCHANGE, HERE = 316, 2, -100  # x86-64; the number differs elsewhere


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
