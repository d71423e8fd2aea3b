"""The expanded cluster, as a table and as JSON; shared by ``validate`` and the local runs."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from trainshed.admission import ClusterRow
from trainshed.cli.terminal import table
from trainshed.model.faults import Violation

HEADERS = ("ROLE", "COUNT", "MACHINE TYPE", "VCPUS", "MEMORY GB", "ACCELERATORS")


def cluster_table(rows: Sequence[ClusterRow]) -> str:
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


def cluster_json(rows: Iterable[ClusterRow]) -> list[dict[str, Any]]:
    """The cluster with an object a role."""
    return [{**asdict(row), "role": row.role.value} for row in rows]


def violations_json(found: Iterable[Violation]) -> list[dict[str, str]]:
    """Violations as ``validate --format json`` promises them."""
    return [
        {
            "field": str(violation.field),
            "rule": violation.rule,
            "message": violation.message,
            "accepted": violation.accepted,
        }
        for violation in found
    ]
