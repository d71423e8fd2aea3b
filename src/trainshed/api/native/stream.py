"""The native route that sends changes to open pages."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import TypeAdapter

from trainshed.api.chain import RequestContext
from trainshed.api.change_streams import ChangeStreamResponse, ChangeStreams
from trainshed.api.native import models
from trainshed.api.native.callers import Known, project_or_all
from trainshed.api.native.services import Native
from trainshed.model.access import ALL_PROJECTS, AccessRole, Caller
from trainshed.service.changes.documents import (
    JobChange,
    LogChange,
    NodesChange,
    QueueChange,
    StudyChange,
)
from trainshed.service.changes.looks import ChangeLooks
from trainshed.service.changes.topics import (
    TOPICS_MAX,
    Topic,
    TopicKind,
    TopicScope,
    parse_topic,
)
from trainshed.service.changes.watches import (
    JobWatch,
    LogWatch,
    NodesWatch,
    QueueWatch,
    StudyWatch,
)
from trainshed.wire.native_v1 import Answer, described_fields

_DOCUMENTS: Final = (QueueChange, JobChange, LogChange, NodesChange, StudyChange)


def _schema(document: type[Answer]) -> Mapping[str, Any]:
    """Return the schema of a document; what it refers to is in the schemas of other routes."""
    with described_fields():
        adapter: TypeAdapter[Answer] = TypeAdapter(document)
    template = "#/components/schemas/{model}"
    schema = adapter.json_schema(mode="serialization", ref_template=template)
    return {name: value for name, value in schema.items() if name != "$defs"}


EVENTS: Final[Mapping[int | str, dict[str, Any]]] = {
    200: {
        "description": "Server-sent events; the data of each is one JSON object.",
        "content": {"text/event-stream": {"schema": {"anyOf": [*map(_schema, _DOCUMENTS)]}}},
    },
    503: {"model": models.Status},
}


def stream_router(native: Native) -> APIRouter:
    """Return the route that sends changes."""
    router = APIRouter(tags=["changes"])
    streams = ChangeStreams(_make_looks(native), count=native.count_console_stream)

    @router.get("/stream", response_class=StreamingResponse, responses={**EVENTS})
    def stream(
        request: Request,
        caller: Known,
        topic: Annotated[list[str], Query(min_length=1, max_length=TOPICS_MAX)],
    ) -> Response:
        """Send what changes in the topics, as server-sent events, until the caller disconnects.

        A topic is ``queue:PROJECT`` (``-``: all visible projects), ``job:PROJECT/JOB``,
        ``log:PROJECT/JOB``, ``study:PROJECT/JOB`` or ``nodes``; each event is named by the word
        before the colon, and its ``topic`` is as the caller wrote it. Read what a page shows after
        the event ``ready``, and again after each further ``ready``: all later changes are sent.
        After ``resync`` read its topic again: the caller was too slow, or too much has changed.
        After ``away`` (``message``) nothing is sent until ``ready``. A comment is sent every 15 s.
        The stream ends with the caller's token. Beyond 200 streams of a server, and 20 of a token
        or of a browser's sign-in, the answer is 503.
        """
        topics = {text: _scope_of(parse_topic(text), caller, request, native) for text in topic}
        owner = _owner_of(request.state.call, caller)
        return ChangeStreamResponse(streams, topics, owner, request.state.admit_again)

    return router


def _owner_of(call: RequestContext, caller: Caller) -> str:
    """Return what names the sign-in of a browser, or the token of another caller."""
    if call.browser is not None:
        return call.browser.cookie
    return f"{caller.project} {caller.name} {caller.credential} {caller.ends_at_s}"


def _make_looks(native: Native) -> ChangeLooks:
    store, stories = native.store, native.stories
    return ChangeLooks(
        {
            TopicKind.QUEUE: QueueWatch(store),
            TopicKind.JOB: JobWatch(store, stories),
            TopicKind.LOG: LogWatch(store, native.numbered_logs),
            TopicKind.NODES: NodesWatch(native.nodes),
            TopicKind.STUDY: StudyWatch(store),
        }
    )


def _scope_of(topic: Topic, caller: Caller, request: Request, native: Native) -> TopicScope:
    """Return what is looked at for a topic.  Raises Refusal if the caller may not see it."""
    if topic.kind is TopicKind.QUEUE:
        return TopicScope(topic.kind, project_or_all(topic.project, caller, request))
    permissions = request.app.state.permissions
    if topic.kind is TopicKind.NODES:
        is_for_all = caller.project == ALL_PROJECTS
        return TopicScope(
            topic.kind, None if is_for_all else permissions.project_id(caller.project)
        )
    project = permissions.enter(caller, AccessRole.VIEWER, topic.project)
    uid = native.stories.find(project, topic.job).uid
    return TopicScope(topic.kind, project, topic.job, uid)
