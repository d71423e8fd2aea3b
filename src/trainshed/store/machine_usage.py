"""Adds up the stored time of machines by GPU and by node.

``store.usage`` writes the rows, in the transaction that writes those of their attempts.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Select, bindparam, case, delete, func, select

from trainshed.model.time_use import HELD_USES
from trainshed.store import codec
from trainshed.store.bulk import given
from trainshed.store.database import Database
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.usage import MachineHolder, MachineRow, MachineSum, UsageSum
from trainshed.store.tables import MACHINE_USAGE
from trainshed.store.usage_days import bounds_of_days, within_days

_ROW: Final = MACHINE_USAGE.c
#: The keys of reports: those by GPU have a row for each node too, for its machines without GPUs.
MACHINE_KEYS: Final[Mapping[str, tuple[ColumnElement[str], ...]]] = {
    "gpu": (_ROW.engine, _ROW.node, _ROW.gpu),
    "node": (_ROW.engine, _ROW.node),
}
_SHAPE: Final = (_ROW.machine_type, _ROW.gpus, _ROW.vcpus, _ROW.currency, _ROW.hour_price)
_SECONDS: Final = [_ROW[f"{use}_s"] for use in HELD_USES]
_HELD: Final = sum(_SECONDS[1:], _SECONDS[0])
#: GPUs of a row, or vCPUs of machines without.
_UNITS: Final = case((_ROW.gpus > 0, _ROW.gpus), else_=_ROW.vcpus)
_SUMS: Final = (
    *(func.sum(column).label(column.name) for column in _SECONDS),
    func.sum(_ROW.energy_j).label("energy_j"),
    func.max(_ROW.gpu_index).label("gpu_index"),
    func.max(_ROW.gpu_type).label("gpu_type"),
)
_WANTED: Final = given("wanted", uid=BigInteger)
DROP_MACHINES: Final = delete(MACHINE_USAGE).where(_ROW.uid.in_(select(_WANTED.c.uid)))
DROP_OLD_MACHINES: Final = delete(MACHINE_USAGE).where(_ROW.day < bindparam("before_day"))


class StoredMachineUsage:
    """Reads the time of GPUs and nodes."""

    _db: Database

    def machine_sums(
        self, *, since_day: int, until_day: int, projects: Collection[str] | None
    ) -> Sequence[MachineSum]:
        """Return sums by GPU, or by node for other machines, from a day until before another.

        ``projects`` are those that the caller may see; None: all.
        """
        keys = MACHINE_KEYS["gpu"]
        query = select(*keys, *_SHAPE, *_SUMS).group_by(*keys, *_SHAPE)
        rows = self._within(query, since_day, until_day, projects)
        return [_machine_sum(row) for row in rows]

    def machine_jobs(
        self, by: str, *, since_day: int, until_day: int, projects: Collection[str] | None
    ) -> Mapping[tuple[str, ...], int]:
        """Return the number of jobs by engine, node and, by ``gpu``, UUID."""
        keys = MACHINE_KEYS[by]
        query = select(*keys, func.count(_ROW.uid.distinct())).group_by(*keys)
        rows = self._within(query, since_day, until_day, projects)
        return {tuple(row[:-1]): row[-1] for row in rows}

    def machine_holders(
        self, by: str, *, since_day: int, until_day: int, projects: Collection[str] | None
    ) -> Sequence[MachineHolder]:
        """Return the users of each GPU or node, the longest time first."""
        keys = MACHINE_KEYS[by]
        held = func.sum(_HELD * _UNITS).label("held_s")
        idle = func.sum(_ROW.idle_s * _UNITS).label("idle_s")
        owner = (_ROW.project, _ROW.creator.label("user"))
        query = select(*keys, *owner, held, idle).group_by(*keys, _ROW.project, _ROW.creator)
        rows = self._within(query.order_by(held.desc(), *owner), since_day, until_day, projects)
        return [
            MachineHolder(
                row.engine,
                row.node,
                getattr(row, "gpu", ""),
                row.project,
                row.user,
                row.held_s,
                row.idle_s,
            )
            for row in rows
        ]

    def _within(
        self,
        query: Select[*tuple[Any, ...]],
        since_day: int,
        until_day: int,
        projects: Collection[str] | None,
    ) -> Sequence[Any]:
        query = within_days(query, MACHINE_USAGE, projects, until_day - since_day)
        return self._db.rows(query, **bounds_of_days(since_day, until_day, projects))


def machine_values(job: JobRecord, row: MachineRow) -> dict[str, Any]:
    """Return a row of ``machine_usage``."""
    return {
        "engine": codec.plain(row.engine),
        "node": codec.plain(row.node),
        "gpu": codec.plain(row.gpu),
        "machine_type": codec.plain(row.machine_type),
        "gpus": row.gpus,
        "vcpus": row.vcpus,
        "currency": "" if row.hour_price is None else codec.plain(row.currency),
        "hour_price": row.hour_price or 0.0,
        "day": row.day,
        "uid": job.uid,
        "attempt": row.attempt,
        "project": codec.plain(job.job.project),
        "creator": codec.plain(job.creator),
        "gpu_type": codec.plain(row.gpu_type),
        "gpu_index": row.gpu_index,
        **{f"{use}_s": row.seconds.get(use, 0.0) for use in HELD_USES},
        "energy_j": row.energy_j,
    }


def _machine_sum(row: Any) -> MachineSum:
    usage = UsageSum(
        user="",
        key=row.node,
        machine_type=row.machine_type,
        gpus=row.gpus,
        vcpus=row.vcpus,
        hour_price=row.hour_price if row.currency else None,
        currency=row.currency,
        price_source="",
        price_date="",
        seconds={use: value for use in HELD_USES if (value := getattr(row, f"{use}_s"))},
        energy_j=row.energy_j,
    )
    return MachineSum(
        engine=row.engine,
        node=row.node,
        gpu=row.gpu,
        gpu_index=row.gpu_index,
        gpu_type=row.gpu_type,
        usage=usage,
    )
