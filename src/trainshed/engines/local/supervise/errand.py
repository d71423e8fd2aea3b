"""What a supervisor is to run, as the engine or a preparer wrote it for this machine.

Plain JSON with everything in it: argv, environment and limits of each replica, so that the
supervisor needs to know nothing of plans, packages or devices.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from trainshed.engines.local.supervise.limits import Limits


class Replica(NamedTuple):
    """One process to start, with the whole of its environment."""

    task_name: str
    role: str
    """A value of ``model.roles.Role``."""
    index: int  # type: ignore[assignment] # tuples have a method of that name
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    trial: str = ""
    limits: Limits = Limits()
    hosts: tuple[tuple[str, str], ...] = ()
    """(address, name): names that it can resolve."""
    binds: tuple[tuple[str, str], ...] = ()
    """(folder here, folder there)."""
    cleanup: tuple[tuple[str, ...], ...] = ()
    """Programs that end what its own end leaves alive (containers); run before the end is told."""


class Hang(NamedTuple):
    """When a replica hangs, and what is done about it."""

    after_s: float | None = None
    """Seconds without a sign of progress; None is never."""
    stacks: bool = True
    """Whether to look what its threads do, where that is possible."""


class Metrics(NamedTuple):
    """Where a trial reports; the fields are those of ``model.launch_plan.MetricsPlan``."""

    files: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    summaries: tuple[str, ...] = ()


class Errand(NamedTuple):
    """One attempt: all replicas, or none, are started; the first is the primary."""

    uid: int
    attempt: int
    job_id: str
    grace_s: float
    """From SIGTERM to SIGKILL where no order says otherwise."""
    settle_s: float
    """How long workers may take to end by themselves after the primary has."""
    replicas: tuple[Replica, ...]
    """Where there is a preparer: what it will complete, with the limits already in place."""
    notes: tuple[str, ...] = ()
    prepare: tuple[str, ...] | None = None
    """The program that makes the replicas complete."""
    after: tuple[str, ...] | None = None
    """A program that is run when no replica lives, before the end is told."""
    hang: Hang = Hang()
    checkpoints: tuple[str, ...] = ()
    """Folders with checkpoints of earlier attempts."""
    metrics: Metrics | None = None
    """Set for a trial."""

    @property
    def mark(self) -> str:
        """What every process of the attempt has in its environment."""
        return f"{self.uid}/{self.attempt}"

    def completed(self, found: Mapping[str, Any]) -> "Errand":
        """The errand after its preparer has said what to run.  Raises as ``decode`` does."""
        after = found.get("after")
        return self._replace(
            replicas=tuple(map(_replica, found["replicas"])),
            after=tuple(after) if after else None,
        )


def read(path: str) -> Errand:
    """Read an errand file.  Raises OSError, ValueError, KeyError or TypeError."""
    with open(path, "rb") as file:
        return decode(json.load(file))


def decode(found: Mapping[str, Any]) -> Errand:
    """The errand of a JSON object.  Raises ValueError, KeyError or TypeError."""
    fields = _tuples(found)
    fields["replicas"] = tuple(map(_replica, found["replicas"]))
    fields["hang"] = Hang(**found.get("hang", {}))
    metrics = found.get("metrics")
    fields["metrics"] = None if metrics is None else Metrics(**_tuples(metrics))
    return Errand(**fields)


def encode(errand: Errand) -> dict[str, Any]:
    """The errand as a JSON object."""
    replicas = [encode_replica(each) for each in errand.replicas]
    metrics = None if errand.metrics is None else errand.metrics._asdict()
    hang = errand.hang._asdict()
    return {**errand._asdict(), "replicas": replicas, "hang": hang, "metrics": metrics}


def encode_replica(replica: Replica) -> dict[str, Any]:
    """A replica as a JSON object."""
    return {**replica._asdict(), "env": dict(replica.env), "limits": replica.limits._asdict()}


def _replica(found: Mapping[str, Any]) -> Replica:
    fields = _tuples(found)
    fields["limits"] = Limits(**found.get("limits", {}))
    for name in ("hosts", "binds"):
        fields[name] = tuple((here, there) for here, there in found.get(name, ()))
    fields["cleanup"] = tuple(map(tuple, found.get("cleanup", ())))
    return Replica(**fields)


def _tuples(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in found.items()}
