"""Drops calibrations that may be learned from replicas that shared a machine.

Such replicas exchange in memory, and earlier releases took that for the rate of the links between
hosts.  A calibration with a job on several hosts stays if the database still has such a job in its
project, and each of them ran on as many machines as hosts; then its runs say so.  All others are
dropped: the next job of their trainer makes a new one.
"""

import re
import tomllib
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_CALIBRATIONS = sa.table(
    "calibrations", sa.column("project"), sa.column("key"), sa.column("document")
)
#: The attempts from which a project has learned, with their training replicas and nodes.
_ATTEMPTS = sa.text(
    "SELECT o.project AS project, count(*) AS hosts, count(DISTINCT r.node) AS nodes, "
    "min(r.node) AS first_node FROM outcomes o "
    "JOIN replicas r ON r.uid = o.uid AND r.attempt = o.attempt "
    "WHERE o.content IS NOT NULL AND r.role IN ('primary', 'worker') "
    "GROUP BY o.project, o.uid, o.attempt HAVING count(*) > 1"
)
_RUN = "\n[[run]]\n"


def upgrade() -> None:
    connection = op.get_bind()
    separate = _separate(connection.execute(_ATTEMPTS))
    for row in connection.execute(sa.select(_CALIBRATIONS)).all():
        counts = _host_counts(row.document)
        if not counts:
            continue
        this = (_CALIBRATIONS.c.project == row.project, _CALIBRATIONS.c.key == row.key)
        if counts <= separate.get(row.project, set()):
            text = _add_machines(row.document)
            connection.execute(sa.update(_CALIBRATIONS).where(*this).values(document=text))
        else:
            connection.execute(sa.delete(_CALIBRATIONS).where(*this))


def _separate(attempts: Iterable[Any]) -> dict[str, set[int]]:
    """Return for each project the counts of hosts of which no attempt shared a machine."""
    counts: dict[str, set[int]] = {}
    shared = set()
    for row in attempts:
        counts.setdefault(row.project, set()).add(row.hosts)
        if row.nodes < row.hosts or not row.first_node:
            shared.add((row.project, row.hosts))
    return {
        project: {count for count in of_project if (project, count) not in shared}
        for project, of_project in counts.items()
    }


def _host_counts(document: str) -> set[int]:
    """Return the counts of hosts above 1 of a calibration's jobs; none for an unreadable text."""
    try:
        runs = tomllib.loads(document).get("run", [])
        return {run["hosts"] for run in runs if run["kind"] == "job" and run["hosts"] > 1}
    except (tomllib.TOMLDecodeError, AttributeError, KeyError, TypeError):
        return set()  # the next job of its trainer replaces it


def _add_machines(document: str) -> str:
    """Write into each run of a job on how many machines its hosts ran."""
    head, *runs = document.split(_RUN)
    return _RUN.join([head, *map(_add_machines_of_run, runs)])


def _add_machines_of_run(run: str) -> str:
    return re.sub(r'^(kind = "job"\n(?:.*\n)*?hosts = (\d+)\n)', r"\1machines = \2\n", run, count=1)
