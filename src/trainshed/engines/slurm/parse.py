"""Parses the output of Slurm's commands, in the text formats that all versions print."""

import re
from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Final, NamedTuple

#: Format of ``squeue -o``: fields with free text come last.
JOB_FORMAT: Final = "%i|%T|%N|%S|%j|%k|%r"
#: Times as seconds since 1970, independent of the cluster's time zone.
TIME_FORMAT: Final = {"SLURM_TIME_FORMAT": "%s"}
_FIELDS: Final = 7
_NOTHING: Final = frozenset({"", "(null)", "N/A", "n/a", "None", "NONE", "Unknown"})


class SlurmJob(NamedTuple):
    """One row of Slurm's queue: a job, or one component of a heterogeneous job."""

    id: str
    """Slurm's number of the whole job."""
    component: int
    state: str
    reason: str
    nodes: tuple[str, ...]
    start_s: float | None
    """When the job began, or is expected to begin, in seconds since 1970; None: unknown."""
    name: str
    comment: str

    def without_start(self) -> "SlurmJob":
        """Return the row without its time, which Slurm estimates anew for each waiting job."""
        return self._replace(start_s=None)


def jobs(text: str) -> Iterator[SlurmJob]:
    """Parse the rows of ``squeue``; malformed rows are skipped."""
    for line in text.splitlines():
        parts = line.split("|", _FIELDS - 1)
        match = _JOB_ID.fullmatch(parts[0])
        if len(parts) == _FIELDS and match:
            _, state, nodes, start, name, comment, reason = parts
            yield SlurmJob(
                id=match[1],
                component=int(match[2] or 0),
                state=state.strip(),
                reason="" if reason in _NOTHING else reason,
                nodes=tuple(host_names(nodes)),
                start_s=float(start) if start.isdecimal() else None,
                name=name,
                comment="" if comment in _NOTHING else comment,
            )


_JOB_ID: Final = re.compile(r"(\d+)(?:\+(\d+))?")

_LEFT: Final = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")


def left_s(text: str) -> float | None:
    """Parse lines with a time such as ``1-02:03:04``; return the shortest above 0, in seconds.

    Returns 0 if all times are 0, None if there is no line or a line is not a time.
    """
    times = [_parse_left_s(line.strip()) for line in text.splitlines()]
    return None if not times or None in times else min(filter(None, times), default=0.0)


def _parse_left_s(text: str) -> float | None:
    if text == "UNLIMITED":
        return float("inf")
    match = _LEFT.fullmatch(text)
    if not match:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


class Cancellation(NamedTuple):
    """Who has cancelled a job, and when, as far as Slurm says."""

    uid: int | None = None
    at_s: float | None = None
    """Seconds since 1970; None: the job was not cancelled, as far as Slurm says."""
    is_answered: bool = True
    """False: Slurm's accounting did not answer for ``attempt.ACCOUNTS_S_MAX``."""


def cancellations(text: str) -> Iterator[tuple[str, str, Cancellation]]:
    """Parse ``12|NAME|CANCELLED by 1000|1796015176``: a job, its name, its state and its end.

    ``sacct`` prints such lines, and ``squeue`` prints them without the user.  Jobs in other states
    are skipped; so are the further components of a job.
    """
    for line in text.splitlines():
        if match := _CANCELLED.fullmatch(line.strip()):
            job, name, uid, end = match.groups()
            at_s = float(end) if end.isdecimal() else None
            yield job, name, Cancellation(int(uid) if uid else None, at_s)


_CANCELLED: Final = re.compile(
    r"([0-9]+)(?:\+0)?\|(.*)\|CANCELLED(?: by ([0-9]{1,10}))?\|([0-9]{1,12}|[A-Za-z/]*)"
)


def host_names(text: str) -> Iterator[str]:
    """Expand ``n[1-3,7],login`` to host names."""
    for part in _split_list(text):
        if part not in _NOTHING:
            yield from _expand_ranges(part)


def _split_list(text: str) -> Iterator[str]:
    """Split at commas outside brackets."""
    return (part.strip() for part in re.split(r",(?![^\[]*\])", text))


_RANGE: Final = re.compile(r"[0-9]{1,9}(-[0-9]{1,9})?")


def _expand_ranges(text: str) -> Iterator[str]:
    head, bracket, rest = text.partition("[")
    if not bracket:
        yield text
        return
    ranges, _, tail = rest.partition("]")
    for span in filter(_RANGE.fullmatch, ranges.split(",")):
        first, _, last = span.partition("-")
        for number in range(int(first), int(last or first) + 1):
            for suffix in _expand_ranges(tail):
                yield f"{head}{number:0{len(first)}}{suffix}"


_TASKS: Final = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")


def task_counts(text: str) -> Iterator[int]:
    """Expand ``4(x2),1``, the tasks on the nodes of a job, to 4, 4, 1.  Raises ValueError."""
    for part in text.split(","):
        match = _TASKS.fullmatch(part)
        if match is None:
            raise ValueError(f"the tasks of nodes must be like 4(x2),1, got {text!r:.100}")
        yield from repeat(int(match[1]), int(match[2] or 1))


class SlurmNode(NamedTuple):
    """One node as ``scontrol show node`` prints it."""

    name: str
    state: tuple[str, ...]
    """Words of the state, such as ``IDLE`` and ``DRAIN``."""
    cpus: int
    memory_mib: int
    gres: Mapping[str, int]
    """Number of GPUs by Slurm's word for their type; the word may be empty."""
    partitions: frozenset[str]
    reason: str = ""
    features: frozenset[str] = frozenset()
    """The features that a constraint may name."""


def nodes(text: str) -> Iterator[SlurmNode]:
    """Parse the output of ``scontrol show node -o``."""
    for line in text.splitlines():
        fields = _parse_fields(line)
        if "NodeName" in fields:
            state = fields.get("State", "UNKNOWN").upper()
            yield SlurmNode(
                name=fields["NodeName"],
                state=tuple(re.findall(r"[A-Z_]+|[*~#%!]", state)),
                cpus=_parse_number(fields.get("CPUEfctv") or fields.get("CPUTot")),
                memory_mib=_parse_number(fields.get("RealMemory"))
                - _parse_number(fields.get("MemSpecLimit")),
                gres=_parse_gres(fields.get("Gres", "")),
                partitions=frozenset(filter(None, fields.get("Partitions", "").split(","))),
                reason=fields.get("Reason", ""),
                features=frozenset(filter(None, fields.get("AvailableFeatures", "").split(","))),
            )


class Partition(NamedTuple):
    """One partition as ``scontrol show partition`` prints it; for a limit, None: unlimited."""

    name: str
    is_default: bool
    is_up: bool
    minutes_max: int | None
    nodes_max: int | None
    memory_per_cpu_max: int | None = None
    """MaxMemPerCPU, in MiB; of the cluster, if the partition sets no limit."""
    memory_per_node_max: int | None = None
    """MaxMemPerNode, in MiB."""
    gives_notice: bool = False
    """Whether the steps of jobs get SIGTERM some time before a preemption ends them."""

    def limit_minutes(self, minutes_max: int | None) -> "Partition":
        """Return the partition with a limit of time, if it has none that is shorter."""
        if minutes_max is None or (self.minutes_max or minutes_max) < minutes_max:
            return self
        return self._replace(minutes_max=minutes_max)

    def with_limit(self, memory_per_cpu_max: int | None) -> "Partition":
        """Return the partition with the cluster's MaxMemPerCPU, if it sets no limit of memory."""
        if self.memory_per_cpu_max is not None or self.memory_per_node_max is not None:
            return self
        return self._replace(memory_per_cpu_max=memory_per_cpu_max)


def partitions(text: str) -> Iterator[Partition]:
    """Parse the output of ``scontrol show partition -o``."""
    for line in text.splitlines():
        fields = _parse_fields(line)
        if "PartitionName" in fields:
            yield Partition(
                name=fields["PartitionName"],
                is_default=fields.get("Default") == "YES",
                is_up=fields.get("State", "UP") == "UP",
                minutes_max=minutes(fields.get("MaxTime", "")),
                nodes_max=_parse_limit(fields.get("MaxNodes")),
                memory_per_cpu_max=_parse_limit(fields.get("MaxMemPerCPU")),
                memory_per_node_max=_parse_limit(fields.get("MaxMemPerNode")),
                gives_notice=_parse_number(fields.get("GraceTime")) > 0,
            )


def preempts_by_qos(text: str) -> bool:
    """Return whether the grace time of a preemption is that of a QOS, by ``show config``."""
    return bool(re.search(r"^PreemptType\s*=\s*preempt/qos\b", text, re.MULTILINE))


def memory_per_cpu_max(text: str) -> int | None:
    """Parse MaxMemPerCPU in the output of ``scontrol show config``, in MiB; None: no limit."""
    match = re.search(r"^MaxMemPerCPU\s*=\s*(\d+)", text, re.MULTILINE)
    return int(match[1]) if match else None


def has_gpu_options(text: str) -> bool:
    """Return whether ``scontrol show config`` has a SelectType that knows ``--gpus-per-task``."""
    return not re.search(r"^SelectType\s*=\s*select/(cons_res|linear)\b", text, re.MULTILINE)


def kills_steps(text: str) -> bool:
    """Return whether a step ends when one process has no memory, by ``show config``."""
    return bool(re.search(r"^TaskPluginParam\s*=.*\bOOMKillStep\b", text, re.MULTILINE))


def minutes(text: str) -> int | None:
    """Parse ``1-02:30:00`` as whole minutes; None for UNLIMITED and other words."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if not match:
        return None
    days, hours, minute, _ = (int(group or 0) for group in match.groups())
    return (days * 24 + hours) * 60 + minute


def version(text: str) -> tuple[int, int] | None:
    """Parse ``slurm-wlm 22.05.8`` as (22, 5)."""
    match = re.search(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def is_up(text: str) -> bool:
    """Return whether the output of ``scontrol ping`` shows a controller that answers."""
    return bool(re.search(r"\bis UP\b|\bUP/|/UP\b", text))


#: A name, ``=``, and all text up to the next such pair: some values contain spaces.
_FIELD: Final = re.compile(r"(?:^|(?<=\s))([A-Za-z][\w:/]*)=(.*?)(?=\s+[A-Za-z][\w:/]*=|\s*$)")


def _parse_fields(line: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name, text in _FIELD.findall(line):
        fields.setdefault(name, "" if text in _NOTHING else text.strip())
    return fields


def _parse_number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


def _parse_limit(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _parse_gres(text: str) -> dict[str, int]:
    """Parse ``gpu:a100:4(S:0-1),gpu:t4:2,nic:1`` as numbers of GPUs by type."""
    counts: dict[str, int] = {}
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        kind, *rest = part.split(":")
        if kind == "gpu" and rest and rest[-1].isdecimal():
            word = rest[0] if len(rest) > 1 else ""
            counts[word] = counts.get(word, 0) + int(rest[-1])
    return counts
