"""The native routes, below ``/trainshed/v1``: what Google's APIs have no place for.

They come behind the chain's guards: ``request.state.caller`` is known.  See ``openapi.json`` there.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from trainshed.api import native_models as models
from trainshed.api.chain import database_away
from trainshed.api.documents import refusal_response
from trainshed.api.native_callers import Known, Readable, administrator
from trainshed.api.native_lists import job_list_router, quota_router
from trainshed.api.permissions import Permissions
from trainshed.api.threads import LOG_THREADS
from trainshed.model.access import AccessRole, Caller
from trainshed.model.refusals import Code, Refusal
from trainshed.placement.jobs import QuotaRule
from trainshed.service.auth import bucket_tokens, signing_keys, tokens
from trainshed.service.auth.access import Access
from trainshed.service.auth.bucket_tokens import BucketToken, MadeBucketToken
from trainshed.service.auth.signing_keys import Keys, KeySummary
from trainshed.service.auth.tokens import MadeToken, Nothing, Tokens
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
from trainshed.service.log.stream import LogCursor, check_trial
from trainshed.service.log.streams import Streams
from trainshed.service.nodes.fencing import AttemptService, FencedAttempt
from trainshed.service.nodes.node_service import Fleet, NodeOrdered, NodeService
from trainshed.service.upkeep import audit_log
from trainshed.service.upkeep.audit_log import AuditLog, AuditPage
from trainshed.service.upkeep.buckets import AdoptedBucket, BucketService
from trainshed.store.base import StoreFault
from trainshed.store.opening import Store
from trainshed.wire.native_v1 import line_json
from trainshed.wire.times import seconds

#: How long a follower of a quiet job rests between two looks.
FOLLOW_S = 0.2
#: How long a stream goes on without a look at its caller's token, in seconds.
ADMITTED_S = 1.0
#: How many events one call gives.
EVENTS_MAX = 1000
#: The most lines of a log's end in one answer.
TAIL_MAX = 10_000
#: The largest number that a 64-bit column holds.
SEQ_MAX = (1 << 63) - 1
#: The largest number that a column of 32 bits holds.
ATTEMPT_MAX = (1 << 31) - 1

ERRORS: Mapping[int | str, dict[str, Any]] = {
    code: {"model": models.Status} for code in (400, 401, 403, 404, 409, 422, 429)
}

LINES: Mapping[str, Any] = {
    "description": "A line of the log on each line of the answer.",
    "content": {"application/x-ndjson": {"schema": models.Line.model_json_schema()}},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """What the native routes are made of.

    ``metrics`` gives the text of the Prometheus page.
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
    quotas: Sequence[QuotaRule] = ()


def native_app(native: Native, version: str) -> FastAPI:
    """The application to be mounted at ``/trainshed/v1``."""
    app = FastAPI(
        title="Trainshed",
        version=version,
        description="Why jobs are where they are, their story, their logs, and the fleet.",
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

    @router.get("/jobs/{job}", response_model_exclude_none=True)
    def describe(project: Readable, job: str) -> JobSummary:
        """Tell a job in short, by its AI Platform id or its Vertex number."""
        return stories.job(project, job)

    @router.get("/jobs/{job}/explain", response_model_exclude_none=True)
    def explain(project: Readable, job: str) -> JobExplanation:
        """Say why the job is where it is, what blocks it, and one change that would admit it."""
        return stories.explain(project, job)

    @router.get("/jobs/{job}/events")
    def events(
        project: Readable,
        job: str,
        after: Annotated[int, Query(ge=0, le=SEQ_MAX)] = 0,
        limit: Annotated[int, Query(ge=1, le=EVENTS_MAX)] = EVENTS_MAX,
    ) -> JobEvents:
        """Tell the story of the job, oldest first, from behind the event ``after``."""
        return stories.events(project, job, after=after, limit=limit)

    @router.get("/jobs/{job}/manifest")
    def manifest(
        project: Readable,
        job: str,
        attempt: Annotated[int | None, Query(ge=1, le=ATTEMPT_MAX)] = None,
    ) -> Manifest:
        """Show what was sent for the newest attempt of the job, or another, without secrets."""
        return manifests.manifest(project, job, attempt)

    @router.get("/jobs/{job}/trials", response_model_exclude_none=True)
    def trials(project: Readable, job: str) -> Trials:
        """Tell how the trials of a tuning job stand: also what Google's documents leave out."""
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
        """Stream the log, one JSON object a line; ``follow`` goes on until the job has ended."""
        record = stories.find(project, job)
        check_trial(native.store, record, trial)
        cursor = native.logs.cursor(record, trial=trial, task=task)
        lines = _stream(cursor, follow=follow, tail=tail)
        body = _while_admitted(lines, request.state.admit_again)
        return LogStream(native.streams, caller, body)

    return router


class LogStream(StreamingResponse):
    """The answer to a caller who streams a log; refused where he has too many."""

    def __init__(self, streams: Streams, caller: Caller, body: AsyncIterator[bytes]) -> None:
        """Nothing is counted before it is sent."""
        super().__init__(body, media_type="application/x-ndjson")
        self._streams = streams
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, as one of the caller's.  Raises Refusal."""
        with self._streams.one(self._caller):
            await super().__call__(scope, receive, send)


async def _while_admitted(
    lines: AsyncIterator[bytes], admit: Callable[[], Awaitable[Caller]]
) -> AsyncIterator[bytes]:
    """A stream as long as its caller's token is good; a new call says what is wrong."""
    looked_s = monotonic()
    async for piece in lines:
        if monotonic() - looked_s > ADMITTED_S:
            try:
                await admit()
            except Refusal as refusal:
                if refusal.code is not Code.UNAVAILABLE:  # the database is away for a moment
                    return
            looked_s = monotonic()
        if piece:
            yield piece


async def _stream(cursor: LogCursor, *, follow: bool, tail: int | None) -> AsyncIterator[bytes]:
    """The lines that are there, then those that come.  Between two looks no thread is held."""
    if tail is not None:
        await LOG_THREADS.run(cursor.skip_to_last, tail)
    while True:
        if written := await LOG_THREADS.run(_render_lines, cursor):
            yield written
        if written or not cursor.has_all:
            continue
        if cursor.is_over or not follow:
            return
        yield b""
        await anyio.sleep(FOLLOW_S)


def _render_lines(cursor: LogCursor) -> bytes:
    texts = (json.dumps(line_json(line), ensure_ascii=False) for line in cursor.read())
    return "".join(f"{text}\n" for text in texts).encode("utf-8", "backslashreplace")


def _plans(native: Native) -> APIRouter:
    router = APIRouter(prefix="/projects/{project}", tags=["plans"])
    limit = Query(ge=1, le=learned.LIST_MAX)

    @router.get("/outcomes", response_model_exclude_none=True)
    def outcomes(
        project: Readable,
        limit: Annotated[int, limit] = learned.LIST_MAX,
        pageToken: str = "",  # noqa: N803 - Google's word
    ) -> PredictionScores:
        """Tell what was predicted of the project's jobs, and what they took, page by page."""
        return learned.outcomes(native.store, project, limit, pageToken)

    @router.get("/calibrations")
    def calibrations(
        project: Readable, limit: Annotated[int, limit] = learned.LIST_MAX
    ) -> Calibrations:
        """List what jobs have taught of each trainer on each kind of machine."""
        return learned.calibrations(native.store, project, limit)

    @router.get("/calibrations/{key}")
    def calibration(project: Readable, key: str) -> CalibrationFile:
        """Give what jobs have taught of one trainer, as a plan takes it."""
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
        """Show the fleet as it was last seen, and how the GPUs of this server's machine do now.

        Whether a stranger has a GPU is known within half a minute.
        """
        return nodes.listing(partial(caller.may, AccessRole.VIEWER))

    @router.post("/nodes/{node:path}:drain", **ordered)
    def drain(node: str, order: models.NodeOrder | None = None) -> NodeOrdered:
        """Let a node take no new replicas; those on it run on, unless a notice is given."""
        return nodes.drain(node, _notice(order))

    @router.post("/nodes/{node:path}:maintain", **ordered)
    def maintain(node: str, order: models.NodeOrder | None = None) -> NodeOrdered:
        """Give the replicas on a node notice; their jobs start again elsewhere, or wait."""
        return nodes.maintain(node, _notice(order))

    @router.post("/nodes/{node:path}:resume", **ordered)
    def resume(node: str) -> NodeOrdered:
        """Let a node take replicas again."""
        return nodes.resume(node)

    @router.get("/metrics", response_class=PlainTextResponse)
    def metrics(_: Annotated[Caller, Depends(administrator)]) -> str:
        """Give the server's figures in Prometheus' text format."""
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
        """Say that nothing of an attempt lives, where its engine cannot: it counts as lost."""
        return attempts.fence(uid, attempt, caller.name)

    return router


def _notice(order: models.NodeOrder | None) -> float | None:
    return seconds(order.notice) if order else None


def _administration(native: Native) -> APIRouter:
    router = APIRouter(tags=["access"], dependencies=[Depends(administrator)])
    store, access = native.store, native.access

    @router.get("/tokens", response_model_exclude_none=True)
    def list_tokens() -> Tokens:
        """List the tokens, without their texts; when each was last used, to the minute."""
        access.note_use()
        return tokens.listing(store)

    @router.post("/tokens", response_model_exclude_none=True)
    def create_token(token: models.NewToken) -> MadeToken:
        """Make a token; only this answer ever holds its text."""
        return tokens.create(store, token.model_dump(exclude_none=True))

    @router.delete("/tokens/{token}")
    def revoke_token(token: str) -> Nothing:
        """Make a token worthless."""
        revoked = tokens.revoke(store, token)
        access.forget()
        return revoked

    @router.get("/keys")
    def list_keys() -> Keys:
        """List the registered keys."""
        return signing_keys.listing(store)

    @router.post("/keys")
    def add_key(key: models.NewKey) -> KeySummary:
        """Let a service account in that signs its own tokens."""
        return signing_keys.add(store, key.model_dump(exclude_none=True))

    @router.delete("/keys/{key}")
    def remove_key(key: str) -> Nothing:
        """Forget a key."""
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
        """Make a token for buckets, for storage clients that cannot send a header."""
        return bucket_tokens.create(store, caller, project, token.model_dump(exclude_none=True))

    @router.post("/{token}:renew")
    def renew_bucket_token(
        caller: Known, project: Readable, token: str, life: models.Life | None = None
    ) -> BucketToken:
        """Let a token for buckets, which the caller made, end later."""
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
        """Tell who changed what, and what was refused to whom: the newest entries, in order."""
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
        """Give a folder that lies among the buckets, and is nobody's, to a project."""
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
