"""Reads the state of an attempt from the files of its folder."""

import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from trainshed.engines.supervise.record import reports
from trainshed.engines.supervise.record.folder import AttemptFolder, read_file, read_json
from trainshed.engines.supervise.record.records import (
    Began,
    Decided,
    Ended,
    Ready,
    Record,
    Recovered,
    decode_all,
)
from trainshed.files.beneath import Beneath, PathBeneath
from trainshed.model import trainer_contract
from trainshed.model.attempt import AttemptKey, Hang, Measured, Observation, Outcome, Phase, Report
from trainshed.model.launch_plan import LaunchPlan, ReplicaPlan
from trainshed.model.reduction_report import ReductionReport, report_of
from trainshed.model.roles import Role
from trainshed.model.step_times import StepTimes, step_times_of

#: The bytes to read at a time; every record and every report is smaller.
_PIECE_BYTES: Final = 1 << 24


@dataclass
class AttemptRecords:
    """The records of one attempt that have been read so far."""

    began: Began | None = None
    ready: Ready | None = None
    decided: Decided | None = None
    ended: Ended | None = None
    hung: dict[str, Hang] = field(default_factory=dict)
    """Replicas that hang now, by task name."""
    offset: int = 0
    changed_s: float = field(default=0.0, compare=False)
    """When the newest record was written, in seconds since 1970."""

    def read(self, path: str) -> None:
        """Read the records since the last call; none if there is no file.  Raises OSError."""
        with suppress(FileNotFoundError):
            while self._has_more(os.lstat(path)) and self._read(path):
                pass

    def _has_more(self, file_stat: os.stat_result) -> bool:
        self.changed_s = file_stat.st_mtime
        return not stat.S_ISREG(file_stat.st_mode) or file_stat.st_size > self.offset

    def _read(self, path: str) -> bool:
        """Read a piece; return whether there may be more."""
        data = read_file(PathBeneath.of_file(path), self.offset, _PIECE_BYTES)
        whole, newline, rest = data.rpartition(b"\n")
        is_full = len(data) == _PIECE_BYTES
        self.offset += len(data) if is_full and not newline else len(data) - len(rest)
        for record in decode_all(whole):
            self.learn(record)
        return is_full

    def learn(self, record: Record) -> None:
        """Add one record."""
        if isinstance(record, Hang):
            self.hung[record.task_name] = record
        elif isinstance(record, Recovered):
            self.hung.pop(record.task_name, None)
        else:
            setattr(self, type(record).__name__.lower(), record)


def decided_outcome(decided: Decided) -> Outcome:
    """Return the outcome of an attempt whose supervisor was killed after its decision."""
    return Outcome(**decided._asdict())


_LAST_WORDS_LENGTH: Final = 2000
_FILES_MAX: Final = 1000
#: The longest time between two samples of a living attempt, with some to spare: a large gang of
#: replicas has a sample in some minutes.
_SILENT_S_MAX: Final = 900.0


def compose_observation(key: AttemptKey, records: AttemptRecords) -> Observation:
    """Compose the observation of an attempt from its records.

    Call this only if the supervisor lives or has recorded the end.
    """
    if records.ended is not None:
        if records.ended.lost:
            return _compose_loss(key, records, records.ended.fault or "")
        return compose_ended(key, records, records.ended.outcome, records.ended.fault)
    phase = Phase.STARTING if records.ready is None else Phase.READY
    hung = tuple(records.hung.values())
    return Observation(key=key, phase=phase, task_names=_task_names(records), hung=hung)


def compose_ended(
    key: AttemptKey, records: AttemptRecords, outcome: Outcome, fault: str | None = None
) -> Observation:
    """Compose the observation of an attempt without living processes, with its outcome."""
    has_record = records.ended is not None or records.decided is not None
    return Observation(
        key=key,
        phase=Phase.ENDED,
        outcome=outcome,
        fault=fault,
        task_names=_task_names(records),
        ended_s=records.changed_s if has_record else None,
    )


def compose_lost(
    key: AttemptKey, records: AttemptRecords, fault: str, folder: AttemptFolder | None = None
) -> Observation:
    """Compose the observation of an attempt without living processes and without an outcome.

    ``folder`` has the files that show for how long it ran.
    """
    return Observation(
        key=key,
        phase=Phase.LOST,
        fault=fault,
        task_names=_task_names(records),
        ran_s=ran_s(folder) if folder else None,
        ended_s=lost_s(folder, time.time()) if folder else None,
    )


def _compose_loss(key: AttemptKey, records: AttemptRecords, fault: str) -> Observation:
    """Compose the observation of a lost attempt; a recorded decision remains its outcome."""
    if records.decided is not None:
        return compose_ended(key, records, decided_outcome(records.decided))
    return compose_lost(key, records, fault)


def ran_s(folder: AttemptFolder) -> float | None:
    """Return an upper limit of the seconds that an attempt ran; None if it is unknown.

    The newest file in the folder is the limit: the processes may have ended days before this call,
    for example in a power cut.
    """
    try:
        return _newest_s(folder) - os.lstat(folder.plan).st_mtime
    except OSError:
        return None


def lost_s(folder: AttemptFolder, now_s: float) -> float | None:
    """Return when an attempt was lost, in seconds since 1970; None: just now, or unknown.

    Without samples of usage it is unknown, because a program may be silent for hours.
    """
    try:
        newest_s = _newest_s(folder)
    except OSError:
        return None
    is_measured = os.path.lexists(folder.usage)
    return newest_s if is_measured and now_s - newest_s > _SILENT_S_MAX else None


def _newest_s(folder: AttemptFolder) -> float:
    """Return when the newest file of an attempt was written.  Raises OSError."""
    with Beneath(folder.path) as tree:
        return max(tree.stat(name).st_mtime for name in _list_files(folder, tree))


def _list_files(folder: AttemptFolder, tree: Beneath) -> Iterator[str]:
    yield folder.records.rpartition("/")[2]
    if os.path.lexists(folder.usage):
        yield folder.usage.rpartition("/")[2]
    for path in (folder.log, folder.shared):
        name = path.rpartition("/")[2]
        with suppress(OSError):
            yield from (f"{name}/{entry}" for entry, _ in tree.entries(name, _FILES_MAX))


def _task_names(records: AttemptRecords) -> tuple[str, ...]:
    return () if records.ready is None else records.ready.task_names


def last_words(folder: AttemptFolder) -> str:
    """Return the last line of the supervisor's own stderr; empty if it wrote none."""
    try:
        text = read_file(PathBeneath.of_file(folder.words)).decode(errors="replace")
    except (OSError, ValueError):
        return ""
    return text[-_LAST_WORDS_LENGTH:].strip().rpartition("\n")[2]


def measured(folder: AttemptFolder, after: int) -> Measured:
    """Read the reports after a mark, which is an offset in the file.  Raises OSError.

    An unfinished line is left for the next call; lines that are not reports are skipped.
    """
    data = _read_on(folder.reports, after)
    whole, newline, _ = data.rpartition(b"\n")
    return Measured(
        mark=after + len(whole) + len(newline),
        reports=tuple(_parse_reports(whole)),
        found=_read_search_note(folder.search_note),
    )


def _read_on(path: str, after: int) -> bytes:
    try:
        return read_file(PathBeneath.of_file(path), after)
    except FileNotFoundError:
        return b""


def _parse_reports(data: bytes) -> list[Report]:
    parsed = []
    for line in filter(None, data.split(b"\n")):
        with suppress(ValueError):
            parsed.append(reports.decode(line))
    return parsed


def _read_search_note(path: str) -> str:
    try:
        return str(read_json(path))
    except (OSError, ValueError):
        return ""


#: Phases in which no process writes a report.
_OVER: Final = frozenset({Phase.ENDED, Phase.LOST})
_REPORT_BYTES_MAX: Final = 1 << 20
#: Roles that exchange gradients; the replica of rank 0 writes the report.
_EXCHANGING: Final = frozenset({Role.PRIMARY, Role.WORKER})


def report_env(plan: LaunchPlan, replica: ReplicaPlan, path: str) -> dict[str, str]:
    """Return the variable with the file in which a worker writes its report on the reductions.

    Empty for other replicas, and in a job without reducers.
    """
    has_reducers = any(other.role is Role.REDUCER for other in plan.replicas)
    if not has_reducers or replica.role not in _EXCHANGING:
        return {}
    return {trainer_contract.REDUCTION_REPORT: path}


def with_report(observation: Observation, folder: AttemptFolder) -> Observation:
    """Return an observation, with the reports of the attempt if the attempt is over."""
    if observation.phase not in _OVER:
        return observation
    reduction = report_at(PathBeneath.of_file(folder.reduction, (folder.job,)))
    return observation._replace(reduction=reduction, steps=_primary_steps(observation, folder))


def _primary_steps(observation: Observation, folder: AttemptFolder) -> StepTimes | None:
    """Read the step times of the primary, also of an attempt whose supervisor was killed."""
    exits = observation.outcome.replicas if observation.outcome else ()
    names = [replica.task_name for replica in exits if replica.role is Role.PRIMARY]
    names = names or list(observation.task_names[:1])  # the first is the primary
    return steps_of(folder, names[0]) if names else None


def steps_of(folder: AttemptFolder, task_name: str) -> StepTimes | None:
    """Read the step times that a replica has reported so far; None if it has reported none."""
    place = PathBeneath.of_file(folder.steps(task_name), (folder.job,))
    with suppress(OSError, ValueError, RecursionError):
        return step_times_of(json.loads(read_file(place, bytes_max=_REPORT_BYTES_MAX)))
    return None


def report_at(place: PathBeneath) -> ReductionReport | None:
    """Read the report in a file; None if there is no valid report."""
    with suppress(OSError, ValueError, RecursionError):
        return report_of(json.loads(read_file(place, bytes_max=_REPORT_BYTES_MAX)))
    return None
