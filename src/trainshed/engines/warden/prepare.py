"""Installs the packages of a job on a node, once for all of the job's wardens there."""

import os
from pathlib import Path
from typing import Any

from trainshed.engines.environments import cache
from trainshed.engines.supervise.helpers.preparer import REQUEST
from trainshed.engines.supervise.helpers.preparing import FAILED, answer, installing, note, say
from trainshed.engines.supervise.record import spec as specs
from trainshed.engines.supervise.record.folder import AttemptFolder, read_json
from trainshed.files.caches import default_cache_dir
from trainshed.model.codec import decode
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Environment


def main() -> int:
    """Install the packages that the request file names; send the answer to descriptor 3."""
    try:
        _prepare(_read_request(os.environ.pop(REQUEST)))
    except EngineFault as fault:
        return say(fault, FAILED)
    return 0


def _read_request(path: str) -> dict[str, Any]:
    """Read the request of a warden; or that of a launcher, whose request is its attempt's folder.

    Raises OSError or ValueError.
    """
    if not os.path.isdir(path):
        return dict(read_json(path))
    rule = specs.read(AttemptFolder(path).plan).remote
    if rule is None:
        raise ValueError("the plan has no rules for a launcher")
    return {
        "packages": rule.packages,
        "cache": rule.cache,
        "package_bytes_max": rule.package_bytes_max,
        "relax_pins": rule.relax_pins,
    }


def _prepare(request: dict[str, Any]) -> None:
    with installing():
        job_python = cache.prepare(
            decode(Environment, request["packages"]),
            cache_dir=Path(request["cache"]) if request["cache"] else default_cache_dir(),
            note=note,
            bytes_max=request["package_bytes_max"],
            relaxes=request["relax_pins"],
        )
    answer(
        {"python": job_python.python, "entries": job_python.python_path_entries}, [job_python.used]
    )
