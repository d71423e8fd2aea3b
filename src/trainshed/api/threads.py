"""Threads for synchronous handlers, with less overhead than anyio's.

A call costs one queue operation and one wake-up in each direction.  anyio's limits, counters and
cancellation checks would take a tenth of the time of a submission.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: Calls at once; further calls wait.  A call mostly waits for a commit.
THREADS_MAX: Final = 40
#: Log reads at once: each takes a few megabytes, and interpreter time.
LOG_THREADS_MAX: Final = 2
#: Pages of metrics at once: there are two, and each has one reading for all its callers.
METRICS_THREADS_MAX: Final = 2


class Threads:
    """Runs functions in daemon threads, which are started when calls need them."""

    def __init__(self, threads_max: int = THREADS_MAX) -> None:
        """``threads_max`` is the largest number of threads."""
        self._most = threads_max
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._busy = 0
        self._started = 0

    @property
    def calls(self) -> int:
        """The number of calls that run or wait."""
        return self._busy

    async def run(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run a function in a thread, with the caller's context; return or raise its result."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        context = copy_context()

        def call() -> None:
            try:
                result = context.run(function, *args)
            except BaseException as error:  # noqa: BLE001  # raised again in the caller
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


def _notify(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *args: Any) -> None:
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:  # the event loop has ended
        return


class SharedThreads:
    """The threads of all applications of the process that have no threads of their own."""

    def __init__(self) -> None:
        self._all = Threads()
        self._own: ContextVar[Threads | None] = ContextVar("threads", default=None)

    def use(self, threads: Threads) -> None:
        """Use these threads for later calls from this thread and from all tasks of its loop."""
        self._own.set(threads)

    @property
    def calls(self) -> int:
        """The number of calls that run or wait."""
        return (self._own.get() or self._all).calls

    async def run(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run a function in a thread; return or raise its result."""
        return await (self._own.get() or self._all).run(function, *args)


THREADS: Final = SharedThreads()
#: For reads of logs: callers may start any number of them, and other calls must not wait for them.
LOG_THREADS: Final = Threads(LOG_THREADS_MAX)
#: For pages of metrics, which answer while all other calls wait for a database that hangs.
METRICS_THREADS: Final = Threads(METRICS_THREADS_MAX)
