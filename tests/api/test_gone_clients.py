"""A client that goes away is worked for no longer than to the next step."""

import asyncio
import threading
import time

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from api.support import CALLERS, WAIT_S_MAX, Seen, application, method, recognise
from trainshed.api.call import RawMethod
from trainshed.api.log_stream import _read_lines, stream_pieces
from trainshed.api.storage_call import StorageCall, blocking
from trainshed.api.threads import LOG_THREADS, LOG_THREADS_MAX
from trainshed.model.access import AccessRole
from trainshed.model.log_line import LogLine

JOBS = "/v1/projects/{project}/jobs"
BODY = {"type": "http.request", "body": b'{"a": 1}', "more_body": False}
GONE = {"type": "http.disconnect"}
#: The client is there and sends no more.
STAYS = {}


def called(app, messages, *, verb="POST", path="/v1/projects/demo/jobs", read_event=None):
    """Call an application; the last message is given again and again.  What it has sent.

    ``read_event`` is set once the application has had the time to hear the last message.
    """
    sent, left = [], list(messages)
    scope = {
        "type": "http",
        "method": verb,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"testserver"), (b"authorization", b"Bearer demo")],
        "client": ("127.0.0.1", 1),
        "server": ("testserver", 80),
        "scheme": "http",
        "asgi": {"spec_version": "2.3"},
    }

    async def receive():
        if len(left) > 1:
            return left.pop(0)
        if left[0] is STAYS:
            await asyncio.get_running_loop().create_future()
        if read_event:
            asyncio.get_running_loop().call_soon(read_event.set)
        return left[0]

    async def send(message):
        sent.append(message)

    asyncio.run(asyncio.wait_for(app(scope, receive, send), WAIT_S_MAX))
    return sent


@pytest.mark.parametrize("gone", [False, True])
def test_no_step_is_begun_for_a_client_that_has_gone(gone):
    handle, read_event = Seen(), threading.Event()

    def recognised(authorization, **where):
        if gone:
            assert read_event.wait(WAIT_S_MAX)
        return recognise(authorization, **where)

    rows = [method("POST", JOBS, handle, role=AccessRole.SUBMITTER, body="*")]
    messages = [BODY, GONE if gone else STAYS]
    called(application(rows, recognise=recognised), messages, read_event=read_event)
    assert len(handle.calls) == (0 if gone else 1)


@pytest.mark.parametrize("path", ["/v1/projects/demo/jobs", "/trainshed/v1/tokens"])
def test_what_came_of_a_body_that_is_cut_off_is_not_taken_for_all_of_it(path):
    handle = Seen()
    reached = []

    async def native(scope, receive, send):
        reached.append(await receive())
        await Response()(scope, receive, send)

    rows = [method("POST", JOBS, handle, role=AccessRole.SUBMITTER, body="*")]
    called(application(rows, native=native), [{**BODY, "more_body": True}, GONE], path=path)
    assert (handle.calls, reached) == ([], [])


def test_a_long_list_of_storage_can_ask_whether_its_client_is_there():
    outcomes = []

    def handle(call, _):
        ends = time.monotonic() + WAIT_S_MAX
        while time.monotonic() < ends:
            try:
                call.go_on()
            except ClientDisconnect:
                outcomes.append("gone")
                return Response()
            time.sleep(0.01)
        raise TimeoutError

    async def raw(request: Request, caller):
        return await blocking(handle)(StorageCall(request=request, caller=caller, access=None))

    app = application([], raw=[RawMethod(verb="POST", path="/storage/v1/b", handle=raw)])
    called(app, [BODY, GONE], path="/storage/v1/b")
    assert outcomes == ["gone"]


class QuietLog:
    """A log that goes on and has no line."""

    is_over = False
    has_all = True
    must_settle = False
    reads = 0

    def read(self):
        self.reads += 1
        return []


def test_whoever_follows_a_log_and_goes_is_followed_by_nobody():
    log = QuietLog()

    async def native(scope, receive, send):
        assert scope["state"]["caller"] == CALLERS["demo"]
        body = _read_lines(log, follow=True, starts=())
        await StreamingResponse(body)(scope, receive, send)

    called(application([], native=native), [BODY, GONE], verb="GET", path="/trainshed/v1/logs")
    assert log.reads <= 1


def test_a_reader_that_does_not_follow_gets_the_log_until_now():
    class GrowingLog(QuietLog):
        def read(self):
            super().read()
            return [LogLine(self.reads, "service", "news")]

    async def read_all():
        return [piece async for piece in _read_lines(log, follow=False, starts=())]

    log = GrowingLog()
    assert b"".join(asyncio.run(read_all())).count(b"\n") == 1


def test_a_log_that_ends_is_sent_before_the_goodput_of_its_job_is_computed():
    """It may take seconds, in which the threads for logs serve other readers."""

    class EndingLog(QuietLog):
        has_all = False
        must_settle = True

        def read(self):
            super().read()
            return [LogLine(self.reads, "service", f"line {self.reads}")]

        def settle_end(self):
            order.append(threading.current_thread())
            self.must_settle, self.has_all, self.is_over = False, True, True
            self.read = list

    async def read_all():
        async for piece in _read_lines(log, follow=True, starts=()):
            order.append(piece)  # noqa: PERF401 - between the calls

    async def list_log_threads():
        both = threading.Barrier(LOG_THREADS_MAX)

        def meet():
            both.wait(60)
            return threading.current_thread()

        return await asyncio.gather(*(LOG_THREADS.run(meet) for _ in range(LOG_THREADS_MAX)))

    log, order = EndingLog(), []
    asyncio.run(read_all())
    line, thread, *_ = order
    assert b"line 1" in line
    assert thread not in asyncio.run(list_log_threads())


def test_a_search_whose_reader_goes_ends():
    has_ended = threading.Event()

    def search():
        try:
            while True:
                yield b"x"
        finally:
            has_ended.set()

    async def admit():
        return CALLERS["demo"]

    async def native(scope, receive, send):
        stream = stream_pieces(search(), admit)
        await anext(stream)
        await StreamingResponse(stream)(scope, receive, send)

    called(application([], native=native), [BODY, GONE], verb="GET", path="/trainshed/v1/logs")
    assert has_ended.wait(WAIT_S_MAX)
