"""Reads the rules for checking a job from the flags, and renders the cluster of a job."""

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
    """Return a table with a line for each role."""
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
    """Return a JSON object for each role."""
    return [{**asdict(row), "role": row.role.value} for row in rows]


def violations_json(violations: Iterable[Violation]) -> list[dict[str, str]]:
    """Return violations as ``validate --format json`` prints them."""
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
    """Return the rulebook of the flags of ``add_catalog_flags``."""
    from trainshed.admission import Scope
    from trainshed.service.jobs.judging import Rulebook

    return Rulebook(
        today=datetime.now(tz=UTC).date(),
        requested_day=args.date,
        edition=args.edition,
        zone_snapshot=args.zone_snapshot,
        overlays=tuple(map(Path, args.overlay)),
        scope=Scope(args.scope) if args.scope else None,
    )
