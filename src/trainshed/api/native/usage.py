"""Native route of the use of machines: time, energy and cost by one of several keys."""

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request

from trainshed.api.native.callers import ANY_PROJECT, Known, project_or_all
from trainshed.service.costs.usage_answers import UsageReport
from trainshed.service.costs.usage_report import ReportQuery, UsageReports

_DAY_LENGTH_MAX: Final = 16
_PROJECT_LENGTH_MAX: Final = 256

_Day = Annotated[str | None, Query(max_length=_DAY_LENGTH_MAX)]


def usage_router(reports: UsageReports) -> APIRouter:
    """Return the route of the use of machines."""
    router = APIRouter(tags=["usage"])

    @router.get("/usage")
    def list_usage(  # noqa: PLR0913 - one parameter a word of the query
        caller: Known,
        request: Request,
        *,
        by: Literal["project", "user", "type", "day", "job", "node", "gpu"] = "project",
        since: _Day = None,
        until: _Day = None,
        project: Annotated[str, Query(max_length=_PROJECT_LENGTH_MAX)] = ANY_PROJECT,
    ) -> UsageReport:
        """Add up the GPU and vCPU time of jobs by its use, with energy and cost.

        By ``job`` the answer has the 1,000 jobs with the most GPU time, each with its user.  By
        ``node`` and ``gpu`` each row has its users, those with the longest time first.
        ``since`` and ``until`` are days in UTC, both included: 2026-11-01, ``today``,
        ``yesterday``, or ``7d`` for the day 7 days ago; the default is the last 30 days. A caller
        of one project sees this project. Jobs that run are counted until some minutes ago.
        """
        visible = project_or_all(project, caller, request)
        return reports.report(ReportQuery(by=by, since=since, until=until, project=visible))

    return router
