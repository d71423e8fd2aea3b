"""Threads for synchronous handlers, with less between a call and its thread than anyio has.

A call is one put and one wake-up each way.  anyio's own hop bounds, counts and checks for
cancellation, which cost a tenth of all that a submit costs.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: Calls at once; more of them wait.  Most of a call's time is its wait for a commit.
THREADS_MAX: Final = 40
#: Readings of logs at once: each takes a few megabytes, and its share of the interpreter.
LOG_THREADS_MAX: Final = 2


class Threads:
    """As many threads as there were ever calls at once; they end with the process."""

    def __init__(self, most: int = THREADS_MAX) -> None:
        """No thread is started before it is needed."""
        self._most = most
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._busy = 0
        self._started = 0

    async def run(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """What the function returns or raises."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def call() -> None:
            try:
                result = function(*args)
            except BaseException as error:  # noqa: BLE001  # it is the caller's
                _notify(loop, _fail, done, error)
            else:
                _notify(loop, _succeed, done, result)

        self._begin()
        try:
            self._calls.put(call)
            return await done
        finally:
            self._end()

    def _begin(self) -> None:
        with self._lock:
            self._busy += 1
            if self._busy <= self._started or self._started == self._most:
                return
            self._started += 1
        threading.Thread(target=self._serve, name="api", daemon=True).start()

    def _end(self) -> None:
        with self._lock:
            self._busy -= 1

    def _serve(self) -> None:
        while True:
            self._calls.get()()


def _succeed(done: asyncio.Future[T], result: T) -> None:
    if not done.cancelled():
        done.set_result(result)


def _fail(done: asyncio.Future[Any], error: BaseException) -> None:
    if not done.cancelled():
        done.set_exception(error)


def _notify(loop: asyncio.AbstractEventLoop, how: Callable[..., None], *what: Any) -> None:
    try:
        loop.call_soon_threadsafe(how, *what)
    except RuntimeError:  # the server has ended meanwhile
        return


class SharedThreads:
    """The threads of all applications of the process, but for those that have their own."""

    def __init__(self) -> None:
        """No thread is started before it is needed."""
        self._all = Threads()
        self._own: ContextVar[Threads | None] = ContextVar("threads", default=None)

    def use(self, own: Threads) -> None:
        """Let what runs in this thread from now on, and all tasks of its loop, have these."""
        self._own.set(own)

    async def run(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """What the function returns or raises."""
        return await (self._own.get() or self._all).run(function, *args)


THREADS: Final = SharedThreads()
#: For those who read logs: how many there are is their callers' choice, and others wait for none.
LOG_THREADS: Final = Threads(LOG_THREADS_MAX)
