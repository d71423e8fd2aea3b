"""Freed memory goes back to the system, also that between pages in use."""

import platform
import subprocess
import sys

import pytest

#: Every fiftieth block stays, the last one too: glibc gives nothing of this back by itself.
PROGRAM = """
import threading
from pathlib import Path
from trainshed.engines.processes import heap

def read_mb():
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096 / 2**20

heap.share_one_heap()
left = []

def fill():
    blocks = [bytes(100_000) for _ in range(1001)]
    left.extend(blocks[::50])

thread = threading.Thread(target=fill)
thread.start()
thread.join()
before = read_mb()
heap.release_freed_memory()
print(before - read_mb())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps freed memory so")
def test_freed_memory_between_pages_in_use_is_given_back():
    argv = [sys.executable, "-c", PROGRAM]
    text = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout
    assert float(text) > 50
