"""The native routes, below ``/trainshed/v1``, for what Google's APIs do not cover.

The chain's guards run first and set ``request.state.caller``.  See ``openapi.json`` there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from trainshed.api import native_models as models
from trainshed.api.chain import database_away
from trainshed.api.documents import refusal_response
from trainshed.api.log_stream import LogStream, stream_lines
from trainshed.api.native_callers import Known, Readable, Submittable, administrator
from trainshed.api.native_lists import job_list_router, quota_router
from trainshed.api.permissions import Permissions
from trainshed.model.access import AccessRole, Caller
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import ProjectId
from trainshed.placement.jobs import QuotaRule
from trainshed.service.auth import bucket_tokens, signing_keys, tokens
from trainshed.service.auth.access import Access
from trainshed.service.auth.bucket_tokens import BucketToken, MadeBucketToken
from trainshed.service.auth.signing_keys import Keys, KeySummary
from trainshed.service.auth.tokens import MadeToken, Nothing, Tokens
from trainshed.service.jobs.dry_runs import DryRuns
from trainshed.service.jobs.job_lists import JobLists
from trainshed.service.jobs.manifests import Manifest, Manifests
from trainshed.service.jobs.story import Stories
from trainshed.service.jobs.story_answers import JobEvents, JobExplanation, JobSummary, Trials
from trainshed.service.learning import calibrations as learned
from trainshed.service.learning.calibrations import (
    CalibrationFile,
    Calibrations,
    PredictionScores,
)
from trainshed.service.log.pages import LogService
from trainshed.service.log.stream import check_trial
from trainshed.service.log.streams import Streams
from trainshed.service.nodes.fencing import AttemptService, FencedAttempt
from trainshed.service.nodes.node_service import Fleet, NodeOrdered, NodeService
from trainshed.service.upkeep import audit_log
from trainshed.service.upkeep.audit_log import AuditLog, AuditPage
from trainshed.service.upkeep.buckets import AdoptedBucket, BucketService
from trainshed.store.base import StoreFault
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind
from trainshed.wire.times import seconds

#: The most events of one response.
EVENTS_MAX = 1000
#: The most lines of a log's end in one response.
TAIL_MAX = 10_000
#: The largest number in a 64-bit column.
SEQ_MAX = (1 << 63) - 1
#: The largest number in a 32-bit column.
ATTEMPT_MAX = (1 << 31) - 1

ERRORS: Mapping[int | str, dict[str, Any]] = {
    code: {"model": models.Status} for code in (400, 401, 403, 404, 409, 422, 429)
}

LINES: Mapping[str, Any] = {
    "description": "One line of the log on each line of the response.",
    "content": {"application/x-ndjson": {"schema": models.Line.model_json_schema()}},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """The services behind the native routes.

    ``metrics`` returns the text of the Prometheus page.
    """

    store: Store
    stories: Stories
    logs: LogService
    metrics: Callable[[], str]
    nodes: NodeService
    attempts: AttemptService
    buckets: BucketService
    streams: Streams
    access: Access
    audit_log: AuditLog
    dry_runs: DryRuns
    quotas: Sequence[QuotaRule] = ()


def native_app(native: Native, version: str) -> FastAPI:
    """Return the application to mount at ``/trainshed/v1``."""
    app = FastAPI(
        title="Trainshed",
        version=version,
        description="Explains why jobs wait or failed; lists their events and logs, and the fleet.",
        docs_url=None,
        redoc_url=None,
        responses={**ERRORS},
        servers=[{"url": "/trainshed/v1"}],
    )
    app.state.permissions = Permissions(native.store.project)
    app.include_router(job_list_router(JobLists(native.store)))
    app.include_router(_jobs(native))
    app.include_router(_plans(native))
    app.include_router(_fleet(native))
    app.include_router(quota_router(native.store, native.quotas))
    app.include_router(_attempts(native.attempts))
    app.include_router(_bucket_tokens(native.store))
    app.include_router(_administration(native))
    app.include_router(_buckets(native))
    app.include_router(_audit(native))
    app.exception_handler(Refusal)(lambda _, refusal: refusal_response(refusal))
    app.exception_handler(StoreFault)(_database_away)
    app.exception_handler(RequestValidationError)(_refuse_malformed)
    app.exception_handler(HTTPException)(_not_routed)
    return app


def _jobs(native: Native) -> APIRouter:
    router = APIRouter(prefix="/projects/{project}", tags=["jobs"])
    stories = native.stories
    manifests = Manifests(stories, native.attempts.engines)

    @router.post("/jobs:dryRun")
    def dry_run(project: Submittable, call: models.DryRun) -> Manifest:
        """Return what the server would send to the engine for a job; nothing is stored or started.

        The job is checked as at its creation.  The fleet counts as empty.
        """
        kind = JobKind(call.collection)
        return native.dry_runs.manifest(kind, ProjectId(project), call.location, call.job)

    @router.get("/jobs/{job}", response_model_exclude_none=True)
    def describe(project: Readable, job: str) -> JobSummary:
        """Return a job's summary, by its AI Platform id or its Vertex number."""
        return stories.job(project, job)

    @router.get("/jobs/{job}/explain", response_model_exclude_none=True)
    def explain(project: Readable, job: str) -> JobExplanation:
        """Explain the job's state, what blocks it, and one change that would admit it."""
        return stories.explain(project, job)

    @router.get("/jobs/{job}/events")
    def events(
        project: Readable,
        job: str,
        after: Annotated[int, Query(ge=0, le=SEQ_MAX)] = 0,
        limit: Annotated[int, Query(ge=1, le=EVENTS_MAX)] = EVENTS_MAX,
    ) -> JobEvents:
        """List the events of the job after the event ``after``, oldest first."""
        return stories.events(project, job, after=after, limit=limit)

    @router.get("/jobs/{job}/manifest")
    def manifest(
        project: Readable,
        job: str,
        attempt: Annotated[int | None, Query(ge=1, le=ATTEMPT_MAX)] = None,
    ) -> Manifest:
        """Return what the server sent to the engine for the newest attempt, or another one."""
        return manifests.manifest(project, job, attempt)

    @router.get("/jobs/{job}/trials", response_model_exclude_none=True)
    def trials(project: Readable, job: str) -> Trials:
        """List the trials of a tuning job, with fields that Google's documents do not have."""
        return stories.trials(project, job)

    @router.get(
        "/jobs/{job}/logs",
        response_class=StreamingResponse,
        responses={200: {**LINES}, 429: {"model": models.Status}},
    )
    def logs(  # noqa: PLR0913 - one parameter a word of the query
        request: Request,
        project: Readable,
        job: str,
        caller: Known,
        *,
        follow: bool = False,
        tail: Annotated[int | None, Query(ge=1, le=TAIL_MAX)] = None,
        task: str | None = None,
        trial: str | None = None,
    ) -> StreamingResponse:
        """Stream the log, one JSON object per line; ``follow`` continues until the job ends."""
        record = stories.find(project, job)
        check_trial(native.store, record, trial)
        cursor = native.logs.cursor(record, trial=trial, task=task)
        lines = stream_lines(cursor, request.state.admit_again, follow=follow, tail=tail)
        return LogStream(native.streams, caller, lines)

    return router


def _plans(native: Native) -> APIRouter:
    router = APIRouter(prefix="/projects/{project}", tags=["plans"])
    limit = Query(ge=1, le=learned.LIST_MAX)

    @router.get("/outcomes", response_model_exclude_none=True)
    def outcomes(
        project: Readable,
        limit: Annotated[int, limit] = learned.LIST_MAX,
        pageToken: str = "",  # noqa: N803 - Google's word
    ) -> PredictionScores:
        """List the predictions of the project's jobs and their actual figures, page by page."""
        return learned.outcomes(native.store, project, limit, pageToken)

    @router.get("/calibrations")
    def calibrations(
        project: Readable, limit: Annotated[int, limit] = learned.LIST_MAX
    ) -> Calibrations:
        """List the calibrations that jobs measured, by trainer and kind of machine."""
        return learned.calibrations(native.store, project, limit)

    @router.get("/calibrations/{key}")
    def calibration(project: Readable, key: str) -> CalibrationFile:
        """Return the calibration of one trainer, which its jobs measured, as an input of plans."""
        return learned.calibration(native.store, project, key)

    return router


def _fleet(native: Native) -> APIRouter:
    router, nodes = APIRouter(tags=["fleet"]), native.nodes
    ordered: dict[str, Any] = {
        "response_model_exclude_none": True,
        "dependencies": [Depends(administrator)],
    }

    @router.get("/nodes", response_model_exclude_none=True)
    def list_nodes(caller: Known) -> Fleet:
        """List the nodes as last reported, with the current state of this machine's GPUs.

        A process outside Trainshed that uses a GPU is detected within half a minute.
        """
        return nodes.listing(partial(caller.may, AccessRole.VIEWER))

    @router.post("/nodes/{node:path}:drain", **ordered)
    def drain(node: str, order: models.NodeOrder | None = None) -> NodeOrdered:
        """Stop new replicas on a node; running ones continue, unless ``notice`` is given."""
        return nodes.drain(node, _notice(order))

    @router.post("/nodes/{node:path}:maintain", **ordered)
    def maintain(node: str, order: models.NodeOrder | None = None) -> NodeOrdered:
        """Give notice to the replicas on a node; their jobs restart on other nodes, or wait."""
        return nodes.maintain(node, _notice(order))

    @router.post("/nodes/{node:path}:resume", **ordered)
    def resume(node: str) -> NodeOrdered:
        """Allow replicas on a node again."""
        return nodes.resume(node)

    @router.get("/metrics", response_class=PlainTextResponse)
    def metrics(_: Annotated[Caller, Depends(administrator)]) -> str:
        """Return the server's metrics in Prometheus' text format."""
        return native.metrics()

    return router


def _attempts(attempts: AttemptService) -> APIRouter:
    router = APIRouter(tags=["fleet"])

    @router.post("/attempts/{uid}/{attempt}:fence")
    def fence(
        uid: Annotated[int, Path(ge=1, le=SEQ_MAX)],
        attempt: Annotated[int, Path(ge=1, le=ATTEMPT_MAX)],
        caller: Annotated[Caller, Depends(administrator)],
    ) -> FencedAttempt:
        """Confirm that an unreachable attempt has no running processes: it counts as lost."""
        return attempts.fence(uid, attempt, caller.name)

    return router


def _notice(order: models.NodeOrder | None) -> float | None:
    return seconds(order.notice) if order else None


def _administration(native: Native) -> APIRouter:
    router = APIRouter(tags=["access"], dependencies=[Depends(administrator)])
    store, access = native.store, native.access

    @router.get("/tokens", response_model_exclude_none=True)
    def list_tokens() -> Tokens:
        """List the tokens without their texts, with the minute of their last use."""
        access.note_use()
        return tokens.listing(store)

    @router.post("/tokens", response_model_exclude_none=True)
    def create_token(token: models.NewToken) -> MadeToken:
        """Create a token; only this response contains its text."""
        return tokens.create(store, token.model_dump(exclude_none=True))

    @router.delete("/tokens/{token}")
    def revoke_token(token: str) -> Nothing:
        """Revoke a token."""
        revoked = tokens.revoke(store, token)
        access.forget()
        return revoked

    @router.get("/keys")
    def list_keys() -> Keys:
        """List the registered keys."""
        return signing_keys.listing(store)

    @router.post("/keys")
    def add_key(key: models.NewKey) -> KeySummary:
        """Register the public key of a service account, which signs its own tokens."""
        return signing_keys.add(store, key.model_dump(exclude_none=True))

    @router.delete("/keys/{key}")
    def remove_key(key: str) -> Nothing:
        """Remove a key."""
        removed = signing_keys.remove(store, key)
        access.forget()
        return removed

    return router


def _bucket_tokens(store: Store) -> APIRouter:
    router = APIRouter(prefix="/projects/{project}/bucketTokens", tags=["access"])

    @router.post("")
    def create_bucket_token(
        caller: Known, project: Readable, token: models.NewBucketToken
    ) -> MadeBucketToken:
        """Create a token for buckets, for storage clients that cannot send a header."""
        return bucket_tokens.create(store, caller, project, token.model_dump(exclude_none=True))

    @router.post("/{token}:renew")
    def renew_bucket_token(
        caller: Known, project: Readable, token: str, life: models.Life | None = None
    ) -> BucketToken:
        """Extend a token for buckets that the caller created."""
        del project
        document = life.model_dump(exclude_none=True) if life else {}
        return bucket_tokens.renew(store, caller, token, document)

    return router


def _audit(native: Native) -> APIRouter:
    router = APIRouter(tags=["access"], dependencies=[Depends(administrator)])

    @router.get("/audit")
    def list_audit_log(
        project: str | None = None,
        since: str | None = None,
        limit: Annotated[int, Query(ge=1, le=audit_log.LIST_MAX)] = audit_log.LIST_MAX,
    ) -> AuditPage:
        """List the newest entries of the audit log, in order: changes and refused calls."""
        native.audit_log.write()
        query = {"project": project, "since": since, "limit": limit}
        return audit_log.listing(native.store, query)

    return router


def _buckets(native: Native) -> APIRouter:
    router = APIRouter(tags=["buckets"])

    @router.post("/buckets/{bucket}:adopt")
    def adopt(
        bucket: str,
        adopter: models.Adopter,
        caller: Annotated[Caller, Depends(administrator)],
        request: Request,
    ) -> AdoptedBucket:
        """Give a bucket folder that belongs to no project to a project."""
        permissions = request.app.state.permissions
        project = permissions.enter(caller, AccessRole.ADMIN, adopter.project)
        return native.buckets.adopt(bucket, project)

    return router


def _database_away(_: Request, fault: StoreFault) -> Response:
    return refusal_response(database_away(fault))


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
