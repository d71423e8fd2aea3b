"""The heartbeat of a warden: the usage and the progress of its replica, and its GPUs.

A warden answers each ping with one.  The launcher gets no other figures of a replica on another
machine.
"""

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trainshed.engines.supervise.kernel.limits import Usage

if TYPE_CHECKING:
    from trainshed.engines.supervise.record.gpu_file import GpuFigures

#: The measures of ``Usage`` that a warden sends.
_MEASURES: Final = ("cpu_ns", "memory_bytes", "read_bytes", "written_bytes", "tasks")
#: Limit of a report as JSON: a warden that sends too long a message is ended.
_REPORT_LENGTH_MAX: Final = 1 << 17


class Beat(NamedTuple):
    """The content of a heartbeat; empty if no replica runs."""

    usage: Usage = Usage()
    progress_ns: int | None = None
    """The time of the program's own heartbeat by the clock of its node; None: none yet."""
    report: bytes | None = None
    """The report of the program on its progress; None: it has not changed since the last beat."""
    gpus: "Mapping[str, GpuFigures]" = {}  # noqa: RUF012 - never changed, as in every tuple
    """The GPUs of the replica by UUID."""
    files: Mapping[str, str] = {}
    """Files of its program (``program_files``), in some beats if the launcher cannot read them."""


def compose_beat(beat: Beat) -> dict[str, Any]:
    """Compose the message of a heartbeat; leave out what is not measured."""
    message: dict[str, Any] = {"is": "beat"}
    measures = {name: getattr(beat.usage, name) for name in _MEASURES}
    message["usage"] = {name: value for name, value in measures.items() if value is not None}
    if message["usage"]:
        at_s = beat.usage.at_s
        message["usage"]["at_s"] = time.monotonic() if at_s is None else at_s
    if beat.progress_ns is not None:
        message["progress_ns"] = beat.progress_ns
    if beat.report is not None:
        message["report"] = _decode_report(beat.report)
    if beat.gpus:
        message["gpus"] = {uuid: figures._asdict() for uuid, figures in beat.gpus.items()}
    if beat.files:
        message["files"] = beat.files
    return message


def _decode_report(report: bytes) -> str:
    """Return a report as text; empty if it would be too long in a message, where it is escaped."""
    text = report.decode("utf-8", "replace")
    return text if len(json.dumps(text)) <= _REPORT_LENGTH_MAX else ""


def parse_beat(message: Mapping[str, Any]) -> Beat:
    """Parse the message of a heartbeat.  Raises ValueError, TypeError or KeyError."""
    usage = dict(message["usage"])
    at_s = usage.pop("at_s", None)
    numbers = {name: int(usage[name]) for name in _MEASURES if name in usage}
    report = message.get("report")
    return Beat(
        Usage(**numbers, at_s=None if at_s is None else float(at_s)),
        progress_ns=int(message["progress_ns"]) if "progress_ns" in message else None,
        report=None if report is None else str(report).encode(),
        gpus=_parse_gpus(message["gpus"]) if "gpus" in message else {},
        files=dict(message.get("files", {})),
    )


def _parse_gpus(document: Any) -> "Mapping[str, GpuFigures]":
    from trainshed.engines.supervise.record.gpu_file import parse_gpus  # noqa: PLC0415 - few have GPUs

    return parse_gpus(document)
