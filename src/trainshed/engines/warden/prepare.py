"""Installs the packages of a job on a node, once for all of the job's wardens there."""

import os
from pathlib import Path
from typing import Any

from trainshed.engines.environments import cache
from trainshed.engines.supervise.helpers.preparer import REQUEST
from trainshed.engines.supervise.helpers.preparing import FAILED, answer, installing, note, say
from trainshed.engines.supervise.record.folder import read_json
from trainshed.files.caches import default_cache_dir
from trainshed.model.codec import decode
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import Environment


def main() -> int:
    """Install the packages that the request file names; send the answer to descriptor 3."""
    try:
        _prepare(read_json(os.environ.pop(REQUEST)))
    except EngineFault as fault:
        return say(fault, FAILED)
    return 0


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
