"""The folder of this machine in which a job, a study or a local run writes its results.

The server reports only a gs:// URI.  Its folder is below the server's data directory, so it can be
opened on the server's machine and nowhere else.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from trainshed.model.faults import UsageFault
from trainshed.storage.buckets import SCHEME, Buckets

#: The folder of AIP_TENSORBOARD_LOG_DIR below the base output directory.
LOGS: Final = "logs"
_EVENT_FILE: Final = ".tfevents."
#: The number of folders that are searched for event files.
_FOLDERS_MAX: Final = 10_000


def output_uri(job: Mapping[str, Any]) -> str:
    """Return the output folder in a job's document; empty if it names none."""
    if "trainingInput" in job:
        return str(job["trainingInput"].get("jobDir", ""))
    spec = job.get("trialJobSpec") or job.get("jobSpec") or {}
    inputs = job.get("trainingTaskInputs") or {}
    directory = _get(spec, "baseOutputDirectory") or _get(inputs, "baseOutputDirectory") or {}
    return str(_get(directory, "outputUriPrefix") or "")


def _get(document: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key, in camelCase or snake_case, as the caller sent it."""
    return document.get(key) or document.get(re.sub("([A-Z])", r"_\1", key).lower())


def local_folder(place: str, buckets: Buckets) -> Path:
    """Return the folder on this machine for a path or a gs:// URI.

    Raises UsageFault if the folder is not on this machine, or may not be read.
    """
    is_object = place.startswith(SCHEME)
    folder = buckets.path_of(place) if is_object else Path(place).expanduser().absolute()
    if folder.is_dir() and os.access(folder, os.R_OK | os.X_OK):
        return folder
    if not is_object:
        raise UsageFault(f"{place} is not a folder that you can read")
    raise UsageFault(
        f"{place} is not a folder of this machine that you can read (looked for {folder}). If the "
        "job has not written anything yet, try again later. On the server's machine name its data "
        f"directory with --data-dir. From another machine, copy the files: gcloud storage rsync "
        f"-r {place} events && trainshed tensorboard events; or run TensorBoard there: ssh -L "
        "6006:localhost:6006 SERVER trainshed tensorboard JOB"
    )


def event_folder(folder: Path) -> Path:
    """Return the folder for TensorBoard: ``logs`` of a Vertex AI job, if it has event files."""
    logs = folder / LOGS
    return logs if has_event_files(logs) else folder


def has_event_files(folder: Path) -> bool:
    """Return whether there is an event file below a folder; only the first folders are searched."""
    return any(_EVENT_FILE in name for name in _file_names(folder))


def _file_names(folder: Path) -> Iterator[str]:
    for count, (_, _, names) in enumerate(os.walk(folder)):
        if count == _FOLDERS_MAX:
            return
        yield from names
