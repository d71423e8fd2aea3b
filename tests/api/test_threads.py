import asyncio
import threading

import pytest

from trainshed.api.rest import LazyApp
from trainshed.api.threads import Threads


def test_a_call_gets_what_its_function_returns_or_raises():
    async def calls():
        threads = Threads(2)
        assert await threads.run(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await threads.run(divmod, 7, 0)
        return await threads.run(threading.get_ident)

    assert asyncio.run(calls()) != threading.get_ident()


def test_calls_run_at_once_up_to_the_limit_and_the_rest_wait():
    meeting = threading.Barrier(3)

    async def calls():
        threads = Threads(3)
        arrivals = await asyncio.gather(*(threads.run(meeting.wait, 60) for _ in range(9)))
        return sorted(arrivals), threads._started

    assert asyncio.run(calls()) == ([0, 0, 0, 1, 1, 1, 2, 2, 2], 3)


def test_a_call_that_nobody_waits_for_any_more_harms_nobody():
    go_on = threading.Event()

    async def calls():
        threads = Threads(1)
        given_up = asyncio.ensure_future(threads.run(go_on.wait, 60))
        await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        go_on.set()
        return await threads.run(len, "abc")

    assert asyncio.run(calls()) == 3


def test_an_application_is_made_once_however_many_call_it_first():
    creations = []

    async def app(scope, _receive, _send):
        scope["seen"] = True

    later = LazyApp(lambda: creations.append(1) or app)
    scopes = [{} for _ in range(8)]

    async def calls():
        await asyncio.gather(*(later(scope, None, None) for scope in scopes))

    asyncio.run(calls())
    assert creations == [1]
    assert all(scope["seen"] for scope in scopes)
