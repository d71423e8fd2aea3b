"""What a job of the command line is judged by, and the cluster that it would have."""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainshed.cli.terminal import table
from trainshed.model.faults import Violation

if TYPE_CHECKING:
    from trainshed.admission import ClusterRow
    from trainshed.service.jobs.judging import Rulebook

HEADERS = ("ROLE", "COUNT", "MACHINE TYPE", "VCPUS", "MEMORY GB", "ACCELERATORS")


def cluster_table(rows: "Sequence[ClusterRow]") -> str:
    """The cluster with a line a role."""
    return table(
        HEADERS,
        [
            (
                row.role.value.replace("_", " "),
                row.count,
                row.machine_type,
                row.vcpus,
                row.memory_gb,
                f"{row.accelerator_count} x {row.accelerator_type}" if row.accelerator_type else "",
            )
            for row in rows
        ],
    )


def cluster_json(rows: "Iterable[ClusterRow]") -> list[dict[str, Any]]:
    """The cluster with an object a role."""
    return [{**asdict(row), "role": row.role.value} for row in rows]


def violations_json(violations: Iterable[Violation]) -> list[dict[str, str]]:
    """Violations as ``validate --format json`` promises them."""
    return [
        {
            "field": str(violation.field),
            "rule": violation.rule,
            "message": violation.message,
            "accepted": violation.accepted,
        }
        for violation in violations
    ]


def rulebook_of(args: argparse.Namespace) -> "Rulebook":
    """The rulebook of the flags that say what a job is judged by."""
    from trainshed.admission import Scope
    from trainshed.service.jobs.judging import Rulebook

    return Rulebook(
        today=datetime.now(tz=UTC).date(),
        asked_day=args.date,
        edition=args.edition,
        zone_snapshot=args.zone_snapshot,
        overlays=tuple(map(Path, args.overlay)),
        scope=Scope(args.scope) if args.scope else None,
    )
