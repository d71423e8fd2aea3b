"""What the figures were taken on: card, driver, versions."""

import os
import platform
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata

#: Asked in a process of its own: CUDA would take memory of the card in this one.
ASK = "import torch; print(torch.version.cuda if torch.cuda.is_available() else '')"


def facts(*, is_dry: bool) -> dict[str, object]:
    """All that somebody needs to know who compares the figures with others."""
    cuda, why = ("", "a rehearsal") if is_dry else _cuda()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": "cuda" if cuda else "cpu",
        "dry": is_dry,
        "card": "" if is_dry else _smi("name"),
        "driver": "" if is_dry else _smi("driver_version"),
        "memory": "" if is_dry else _smi("memory.total"),
        "torch": _version("torch"),
        "cuda": cuda,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "why_no_cuda": why,
    }


def _cuda() -> tuple[str, str]:
    """The version of CUDA that torch uses, or why it uses none."""
    if not _version("torch"):
        return "", "torch is not installed"
    done = subprocess.run(
        [sys.executable, "-c", ASK], capture_output=True, text=True, timeout=120, check=False
    )
    found = done.stdout.strip()
    return found, "" if found else f"torch cannot use a GPU here {done.stderr.strip()[-500:]}"


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _smi(field: str) -> str:
    """What nvidia-smi says of the first GPU; empty where it says nothing."""
    if not shutil.which("nvidia-smi"):
        return ""
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={field}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
