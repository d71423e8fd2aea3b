"""An application that is made when it is first called, or before, beside the others' work."""

import threading
from collections.abc import Callable

import anyio.to_thread
from starlette.types import ASGIApp, Receive, Scope, Send


class Later:
    """Stands for an application whose making takes long: a server need not wait for it."""

    def __init__(self, make: Callable[[], ASGIApp]) -> None:
        """``make`` is called once, on a thread."""
        self._make = make
        self._making = threading.Lock()
        self._made: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; the first one may have to wait."""
        app = await anyio.to_thread.run_sync(self.made) if self._made is None else self._made
        await app(scope, receive, send)

    def made(self) -> ASGIApp:
        """The application, made now unless it is there."""
        with self._making:
            if self._made is None:
                self._made = self._make()
            return self._made
