"""The native routes, below ``/trainshed/v1``, for what Google's APIs do not cover.

The chain's guards run first and set ``request.state.caller``.  See ``openapi.json`` there.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from trainshed.api.audited import incident_response
from trainshed.api.chain import database_away
from trainshed.api.documents import refusal_response
from trainshed.api.native import models
from trainshed.api.native.access import audit_router, bucket_token_router, credential_router
from trainshed.api.native.buckets import bucket_router
from trainshed.api.native.figures import figure_router
from trainshed.api.native.fleet import attempt_router, fleet_router
from trainshed.api.native.jobs import job_router
from trainshed.api.native.lists import job_list_router, quota_router
from trainshed.api.native.logs import (
    log_download_router,
    log_router,
    log_search_router,
    log_window_router,
)
from trainshed.api.native.new_studies import new_study_router
from trainshed.api.native.orders import order_router
from trainshed.api.native.plans import plan_router
from trainshed.api.native.projects import project_router
from trainshed.api.native.services import Native
from trainshed.api.native.sign_ins import sign_in_router
from trainshed.api.native.stream import stream_router
from trainshed.api.native.studies import study_router
from trainshed.api.native.texts import text_router
from trainshed.api.native.usage import usage_router
from trainshed.api.permissions import Permissions
from trainshed.model.refusals import Code, Refusal
from trainshed.service.costs.usage_report import UsageReports
from trainshed.service.jobs.job_lists import JobLists
from trainshed.service.jobs.study_reads import StudyReader
from trainshed.service.log.downloads import LogDownloads
from trainshed.service.log.text_search import LogTextSearches
from trainshed.service.log.windows import LogWindows
from trainshed.store.base import StoreFault
from trainshed.wire.native_v1 import described_fields

_TEXT_TYPE: Final = "text/plain"
_JSON_TYPE: Final = "application/json"
ERRORS: Mapping[int | str, dict[str, Any]] = {
    code: {"model": models.Status} for code in (400, 401, 403, 404, 409, 422, 429)
}


def native_app(native: Native, version: str) -> FastAPI:
    """Return the application to mount at ``/trainshed/v1``."""
    app = make_app(Permissions(native.store.project), version, _make_routers(native, version))
    app.openapi = cache(lambda: _describe(native, version))  # type: ignore[method-assign]
    return app


def make_app(permissions: Permissions, version: str, routers: Iterable[APIRouter]) -> FastAPI:
    """Return an application of some routers, with the refusals of all native routes."""
    app = FastAPI(
        title="Trainshed",
        version=version,
        description="Explains why jobs wait or failed; lists their events and logs, and the fleet.",
        docs_url=None,
        redoc_url=None,
        responses={**ERRORS},
        servers=[{"url": "/trainshed/v1"}],
    )
    app.state.permissions = permissions
    for router in routers:
        app.include_router(router)
    app.exception_handler(Refusal)(lambda _, refusal: refusal_response(refusal))
    app.exception_handler(StoreFault)(_database_away)
    app.exception_handler(RequestValidationError)(_refuse_malformed)
    app.exception_handler(HTTPException)(_not_routed)
    app.exception_handler(Exception)(_report_incident)
    return app


def _describe(native: Native, version: str) -> dict[str, Any]:
    """Return ``openapi.json``.  It has texts that the schemas of requests can do without."""
    with described_fields():
        permissions = Permissions(native.store.project)
        document = make_app(permissions, version, _make_routers(native, version)).openapi()
    for path in document["paths"].values():
        for operation in path.values():
            _describe_errors(operation["responses"])
    return document


def _describe_errors(responses: Mapping[str, dict[str, Any]]) -> None:
    """Correct the type of errors: FastAPI describes them by the type of the route's answers."""
    for code, response in responses.items():
        content = response.get("content", {})
        if code.startswith(("4", "5")) and _TEXT_TYPE in content:
            content[_JSON_TYPE] = content.pop(_TEXT_TYPE)


def _make_routers(native: Native, version: str) -> Iterator[APIRouter]:
    yield job_list_router(JobLists(native.store))
    yield project_router(native.store)
    yield job_router(native)
    yield new_study_router(native)
    yield study_router(StudyReader(native.stories))
    yield figure_router(native.usage, native.scalars, native.progress)
    yield usage_router(UsageReports(native.store))
    yield order_router(native.orders, native.audit_log)
    yield text_router(native.texts)
    yield log_router(native)
    yield log_window_router(native, LogWindows(native.numbered_logs))
    yield log_search_router(native, LogTextSearches(native.numbered_logs))
    yield log_download_router(native, LogDownloads(native.numbered_logs))
    yield plan_router(native)
    yield fleet_router(native)
    yield quota_router(native.store, native.quotas)
    yield attempt_router(native.attempts)
    yield bucket_token_router(native.store)
    yield credential_router(native)
    yield bucket_router(native)
    yield audit_router(native)
    yield stream_router(native)
    yield sign_in_router(native, version)


def _database_away(_: Request, fault: StoreFault) -> Response:
    return refusal_response(database_away(fault))


async def _report_incident(request: Request, _: Exception) -> Response:
    """Answer as the chain does; async, so that the exception is the one being handled."""
    return incident_response(request, f"{request.method} {request.url.path}")


def _refuse_malformed(_: Request, error: RequestValidationError) -> Response:
    text = "; ".join(
        f"{'.'.join(str(part) for part in problem['loc'][1:]) or 'body'}: {problem['msg']}"
        for problem in error.errors()
    )
    return refusal_response(Refusal(Code.INVALID_ARGUMENT, text))


def _not_routed(_: Request, error: HTTPException) -> Response:
    status = {404: "NOT_FOUND", 405: "UNIMPLEMENTED"}.get(error.status_code, "UNKNOWN")
    content = {"error": {"code": error.status_code, "message": str(error.detail), "status": status}}
    return JSONResponse(content, status_code=error.status_code, headers=error.headers)
