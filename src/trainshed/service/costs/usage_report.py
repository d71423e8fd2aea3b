"""Adds up what machines were used for: by project, user, machine type, day, job, node or GPU."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Final

from trainshed.model.refusals import Code, Refusal
from trainshed.planning.usage_days import day_number, day_text, today
from trainshed.service.costs.machine_report import list_machines
from trainshed.service.costs.machine_use import machine_use, round_seconds
from trainshed.service.costs.usage_answers import FleetUse, MachineUse, UsageReport
from trainshed.store.machine_usage import MACHINE_KEYS
from trainshed.store.opening import Store
from trainshed.store.records.usage import UsageSum
from trainshed.store.usage import KEYS

#: The first day of a report if the caller names none: so many days ago.
DAYS_DEFAULT: Final = 30
#: The most rows of a report.
ROWS_MAX: Final = 5_000
#: The most rows of a report by job.
JOBS_MAX: Final = 1_000
_JOB: Final = "job"
#: What a report can be by.
REPORT_KEYS: Final = (*KEYS, _JOB, *MACHINE_KEYS)
_AGO: Final = re.compile(r"(\d{1,4})d")
_DAY_FORM: Final = "a day such as 2026-11-01, today, yesterday, or 7d for the day 7 days ago (UTC)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportQuery:
    """What a caller asks for; days as texts, both included."""

    by: str = "project"
    since: str | None = None
    until: str | None = None
    project: str | None = None
    """Only this project; None: all projects."""


@dataclass(frozen=True, slots=True)
class UsageReports:
    """Makes reports."""

    store: Store

    def report(self, query: ReportQuery) -> UsageReport:
        """Return the use of machines.  Raises Refusal for invalid days or keys."""
        since_day, last_day = self._days(query)
        days = {"since_day": since_day, "until_day": last_day + 1}
        projects = None if query.project is None else (query.project,)
        count = self.store.usage_job_count(**days, projects=projects)
        if query.by == _JOB:
            sums = self.store.usage_sums("type", **days, projects=projects)
            of_jobs = self.store.usage_of_jobs(JOBS_MAX, **days, projects=projects)
            rows, left_out = _order(_JOB, _group(_JOB, of_jobs, {})), max(0, count - JOBS_MAX)
        elif query.by in MACHINE_KEYS:
            sums = self.store.usage_sums("type", **days, projects=projects)
            rows = list_machines(self.store, query.by, **days, projects=projects)
            left_out = max(0, len(rows) - ROWS_MAX)
        else:
            sums = self.store.usage_sums(query.by, **days, projects=projects)
            jobs = self.store.usage_jobs(query.by, **days, projects=projects)
            rows = _order(query.by, _group(query.by, sums, jobs))
            left_out = max(0, len(rows) - ROWS_MAX)
        is_all = projects is None
        fleet = (
            FleetUse(gpu_seconds=round_seconds(self.store.gpu_seconds(**days))) if is_all else None
        )
        return UsageReport(
            by=query.by,
            since=day_text(since_day),
            until=day_text(last_day),
            rows=rows[:ROWS_MAX],
            left_out=left_out,
            total=machine_use("total", sums, count),
            fleet=fleet,
        )

    def _days(self, query: ReportQuery) -> tuple[int, int]:
        if query.by not in REPORT_KEYS:
            message = f"by must be {_join(REPORT_KEYS)}, got {query.by!r}"
            raise Refusal(Code.INVALID_ARGUMENT, message)
        now_day = today(self.store.now())
        since = (
            now_day - DAYS_DEFAULT if query.since is None else _day("since", query.since, now_day)
        )
        until = now_day if query.until is None else _day("until", query.until, now_day)
        if until < since:
            raise Refusal(
                Code.INVALID_ARGUMENT,
                f"until must not be before since, got {day_text(until)} and {day_text(since)}",
            )
        return since, until


def _day(field: str, text: str, now_day: int) -> int:
    words = {"today": now_day, "yesterday": now_day - 1}
    if text in words:
        return words[text]
    if match := _AGO.fullmatch(text):
        return now_day - int(match[1])
    with suppress(ValueError):
        return day_number(date.fromisoformat(text))
    raise Refusal(Code.INVALID_ARGUMENT, f"{field} must be {_DAY_FORM}, got {text!r}")


def _join(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}"


def _group(
    by: str, sums: Sequence[UsageSum], jobs: Mapping[str | int, int]
) -> Sequence[MachineUse]:
    by_key: dict[str | int, list[UsageSum]] = defaultdict(list)
    for usage in sums:
        by_key[usage.key].append(usage)
    return [
        machine_use(day_text(int(key)) if by == "day" else str(key), parts, jobs.get(key, 1))
        for key, parts in by_key.items()
    ]


def _order(by: str, rows: Sequence[MachineUse]) -> Sequence[MachineUse]:
    """Return days in their order, and other rows with the most GPU time, then vCPU time, first."""
    if by == "day":
        return sorted(rows, key=lambda row: row.key)
    return sorted(
        rows,
        key=lambda row: (-sum(row.gpu_seconds.values()), -sum(row.vcpu_seconds.values()), row.key),
    )
