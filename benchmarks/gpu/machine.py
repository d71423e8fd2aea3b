"""What the figures were taken on: card, driver, versions."""

import contextlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from benchmarks.gpu.bench import Unmeasured

#: Asked in a process of its own: CUDA would take memory of the card in this one.
ASK = "import torch; print(torch.version.cuda if torch.cuda.is_available() else '')"


def facts(*, is_dry: bool) -> dict[str, object]:
    """All that somebody needs to know who compares the figures with others."""
    cuda, why = ("", "a rehearsal") if is_dry else _cuda()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": "cuda" if cuda else "cpu",
        "dry": is_dry,
        **({} if is_dry else _card()),
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
    version = done.stdout.strip()
    return version, "" if version else f"torch cannot use a GPU here {done.stderr.strip()[-500:]}"


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _card() -> dict[str, object]:
    """What the driver says of the first GPU; why it says nothing, where it does not."""
    try:
        with opened_nvml() as nvml:
            gpu = nvml.nvmlDeviceGetHandleByIndex(0)
            return {
                "card": nvml.nvmlDeviceGetName(gpu),
                "cards": nvml.nvmlDeviceGetCount(),
                "memory_mib": nvml.nvmlDeviceGetMemoryInfo(gpu).total >> 20,
                "driver": nvml.nvmlSystemGetDriverVersion(),
            }
    except Exception as error:  # noqa: BLE001  # the figures are worth having all the same
        return {"card": f"unknown: {error}"}


@contextlib.contextmanager
def opened_nvml() -> Iterator[Any]:
    """NVIDIA's binding.  Raises Unmeasured where it or the driver is missing."""
    try:
        import pynvml  # noqa: PLC0415  # only machines with a driver have a use for it

        pynvml.nvmlInit()
    except Exception as error:
        raise Unmeasured(f"NVML cannot be opened: {error}") from error
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()
