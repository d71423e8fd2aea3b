"""Deletes calibrations that a server may have learned from hosts on one machine.

Such hosts exchange gradients in memory, and earlier releases took that for the rate of the links
between hosts.  A calibration with runs on several hosts stays if, for each of these counts of
hosts, the project still has jobs and each of them ran on as many machines; ``machines`` is then
added to its runs.  The next job of a trainer makes a new calibration in place of a deleted one.
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
#: The attempts from which a project learned: their counts of training replicas and of nodes, and
#: an empty ``first_node`` if one node is unknown.
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
    counts_by_project = _list_separate_counts(connection.execute(_ATTEMPTS))
    for row in connection.execute(sa.select(_CALIBRATIONS)).all():
        counts = _host_counts(row.document)
        if not counts:
            continue
        is_row = (_CALIBRATIONS.c.project == row.project, _CALIBRATIONS.c.key == row.key)
        if counts <= counts_by_project.get(row.project, set()):
            text = _add_machines(row.document)
            connection.execute(sa.update(_CALIBRATIONS).where(*is_row).values(document=text))
        else:
            connection.execute(sa.delete(_CALIBRATIONS).where(*is_row))


def _list_separate_counts(attempts: Iterable[Any]) -> dict[str, set[int]]:
    """Return by project the counts of hosts whose attempts all had a machine for each host."""
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
    """Return the counts of hosts above 1 in a calibration's jobs; empty for an invalid one."""
    try:
        runs = tomllib.loads(document).get("run", [])
        return {run["hosts"] for run in runs if run["kind"] == "job" and run["hosts"] > 1}
    except (tomllib.TOMLDecodeError, AttributeError, KeyError, TypeError):
        return set()  # the next job of its trainer replaces the invalid calibration


def _add_machines(document: str) -> str:
    """Add ``machines`` to the runs of jobs: one for each host."""
    head, *runs = document.split(_RUN)
    return _RUN.join([head, *map(_add_machines_of_run, runs)])


def _add_machines_of_run(run: str) -> str:
    return re.sub(r'^(kind = "job"\n(?:.*\n)*?hosts = (\d+)\n)', r"\1machines = \2\n", run, count=1)
