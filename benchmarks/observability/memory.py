"""Reads the memory that only one process has."""

from pathlib import Path


def read_memory_mb(pid: int | str = "self") -> float:
    """Return the memory that only this process has written to, in MB; libraries are shared."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kib = sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:"))
    return kib / 1024
