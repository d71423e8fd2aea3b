"""Runs every check, and repeats failed ones before it reports them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trainshed.workbench.doctor import attempts, disk, jobs
from trainshed.workbench.doctor.snapshot import (
    Check,
    CheckPart,
    CheckResult,
    DoctorFinding,
    Snapshot,
)

CHECKS: Final[tuple[Check, ...]] = (*jobs.CHECKS, *attempts.CHECKS, *disk.CHECKS)

#: A server and its supervisors keep working during the checks, so only findings of three snapshots
#: in a row are reported.
LOOKS: Final = 3
PAUSE_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """The result of every check, and the snapshot."""

    results: tuple[CheckResult, ...]
    snapshot: Snapshot

    @property
    def words(self) -> frozenset[str]:
        """The status words of all results."""
        return frozenset(result.word for result in self.results)

    @property
    def looked_at(self) -> str:
        """A sentence on what was checked."""
        snapshot = self.snapshot
        lines = sum(folder.log.lines for folder in snapshot.folders.values())
        jobs = "unknown" if CheckPart.ROWS.name in snapshot.unseen else len(snapshot.rows.jobs)
        return (
            f"{jobs} jobs, {len(snapshot.folders)} folders of attempts, "
            f"{lines} log lines, {len(snapshot.processes)} processes; "
            f"{_isolation(snapshot)}{_server(snapshot)}"
        )

    @property
    def networks(self) -> str:
        """A sentence on the networks of jobs of all servers of this machine; empty without any."""
        networks = self.snapshot.networks
        if not networks.ways_out:
            return ""
        count = f"{networks.ways_out} networks of jobs with {networks.namespaces} namespaces"
        return f"{count} are on this machine, of this server and of others"


def _server(snapshot: Snapshot) -> str:
    if snapshot.is_backup:
        return "this is a backup"
    return (
        f"the server is process {snapshot.server_pid}" if snapshot.server_pid else "no server runs"
    )


def _isolation(snapshot: Snapshot) -> str:
    """Name the isolation modes of the nodes; empty if unknown."""
    modes = dict.fromkeys(row.node.isolation for row in snapshot.rows.nodes if row.node.isolation)
    return f"isolation {' and '.join(modes)}; " if modes else ""


def examine(
    look: Callable[[], Snapshot], pause: Callable[[float], object] = time.sleep
) -> DoctorReport:
    """Run the checks.  ``look`` loads a snapshot and is called again after a failure."""
    snapshot = look()
    results = results_of(snapshot)
    for _ in range(LOOKS - 1):
        if not any(result.findings for result in results):
            break
        pause(PAUSE_S)
        snapshot = look()
        results = keep_confirmed(results, results_of(snapshot))
    return DoctorReport(results=results, snapshot=snapshot)


def results_of(snapshot: Snapshot) -> tuple[CheckResult, ...]:
    """Run every check on one snapshot."""
    return tuple(
        _run_check(check, snapshot)
        for check in CHECKS
        if not snapshot.is_backup or check.parts.isdisjoint({CheckPart.PROCESSES, CheckPart.WORK})
    )


def keep_confirmed(
    before: Sequence[CheckResult], after: Sequence[CheckResult]
) -> tuple[CheckResult, ...]:
    """Return the later results, with only the findings that the earlier results have too."""
    return tuple(
        replace(later, findings=tuple(_keep_repeated(earlier.findings, later.findings)))
        for earlier, later in zip(before, after, strict=True)
    )


def _keep_repeated(
    before: Sequence[DoctorFinding], after: Sequence[DoctorFinding]
) -> list[DoctorFinding]:
    subjects = {finding.subject for finding in before}
    return [finding for finding in after if finding.subject in subjects]


def _run_check(check: Check, snapshot: Snapshot) -> CheckResult:
    for part in check.parts:
        if part.name in snapshot.unseen:
            why = " ".join(snapshot.unseen[part.name].split())
            return CheckResult(check=check, unseen=f"{part.value} cannot be read: {why}")
    return CheckResult(check=check, findings=tuple(check.find(snapshot)))
