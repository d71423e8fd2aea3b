"""A fake engine in the test's process, used by a server in another: it outlives the server's kills.

JSON lines over a unix socket, one connection a thread of the server.
"""

import contextlib
import socket
import socketserver
import sys
import threading
from typing import NamedTuple

from pydantic import TypeAdapter

from trainshed.engines.base import LaunchRefused, NodeLocation, PlacedBy, Traits
from trainshed.model.attempt import AttemptKey, Measured, Observation
from trainshed.model.explanation import Explanation
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.reduction_report import ReductionReport
from trainshed.model.resources import Claim, Node, Seat
from trainshed.model.step_times import StepTimes
from trainshed.model.stopping import StopOrder


class Launch(NamedTuple):
    key: AttemptKey
    plan: LaunchPlan
    place: Claim | list[Seat]


class Stop(NamedTuple):
    key: AttemptKey
    order: StopOrder


class Ask(NamedTuple):
    key: AttemptKey
    after: int


#: What each call is given and answers with, as JSON.
ARGUMENTS = {
    "fleet": TypeAdapter(tuple[()]),
    "launch": TypeAdapter(Launch),
    "stop": TypeAdapter(Stop),
    "observe": TypeAdapter(list[AttemptKey]),
    "measured": TypeAdapter(Ask),
    "forget": TypeAdapter(tuple[int]),
    "health": TypeAdapter(tuple[()]),
}
ANSWERS = {
    "fleet": TypeAdapter(tuple[Node, ...]),
    "launch": TypeAdapter(None),
    "stop": TypeAdapter(None),
    "observe": TypeAdapter(list[Observation]),
    "measured": TypeAdapter(Measured),
    "forget": TypeAdapter(bool),
    "health": TypeAdapter(Explanation | None),
}
_WHY = TypeAdapter(Explanation)
_NAMED = (Explanation, ReductionReport, Seat, StepTimes)
ANSWERS["observe"].rebuild(  # the supervisor has these in memory, so it names them only
    _types_namespace={model.__name__: model for model in _NAMED}
)


class RemoteEngine:
    """``engines.base.Engine`` at the server's end."""

    name = "fake"

    def __init__(self, path, places=PlacedBy.SERVER):
        at_once = 4 if places is PlacedBy.ENGINE else 1
        self.traits = Traits(
            reach=NodeLocation.ANY,
            python=sys.executable,
            places=places,
            launches_at_once=at_once,
            orders_nodes="fakectl drain NODE" if places is PlacedBy.ENGINE else None,
        )
        self._path = str(path)
        self._local = threading.local()

    def fleet(self):
        return self._call("fleet", ())

    def health(self):
        return self._call("health", ())

    def judge(self, needs):
        """Nothing: a job may wait for nodes to come."""

    def launch(self, key, plan, place):
        place = place if isinstance(place, Claim) else list(place)
        self._call("launch", Launch(key, plan, place))

    def stop(self, key, order):
        self._call("stop", Stop(key, order))

    def observe(self, keys):
        return self._call("observe", list(keys)) if keys else []

    def measured(self, key, after):
        return self._call("measured", Ask(key, after))

    def forget(self, uid):
        return self._call("forget", (uid,))

    def listen(self, callback):
        """News would have to cross the socket; the server asks."""

    def close(self):
        """Connections end with their threads."""

    def _call(self, what, arguments):
        stream = self._stream()
        stream.write(what.encode() + b" " + ARGUMENTS[what].dump_json(arguments) + b"\n")
        stream.flush()
        verdict, _, text = stream.readline().rstrip(b"\n").partition(b" ")
        if verdict == b"fault":
            raise EngineFault(text.decode())
        if verdict == b"refused":
            raise LaunchRefused(_WHY.validate_json(text))
        assert verdict == b"good", (verdict, text)
        return ANSWERS[what].validate_json(text)

    def _stream(self):
        if not hasattr(self._local, "stream"):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(self._path)
            self._local.stream = connection.makefile("rwb")
            connection.close()
        return self._local.stream


class EngineHost:
    """The engine at the test's end; a context manager."""

    def __init__(self, path, engine):
        self._server = _Server(str(path), _Handler)
        self._server.engine = engine
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class _Handler(socketserver.StreamRequestHandler):
    def handle(self):
        with contextlib.suppress(ConnectionError):  # the server was killed
            self._serve()

    def _serve(self):
        while line := self.rfile.readline():
            what, _, text = line.decode().partition(" ")
            arguments = ARGUMENTS[what].validate_json(text)
            call = getattr(self.server.engine, what)
            try:
                answer = list(call(arguments)) if what == "observe" else call(*arguments)
            except EngineFault as fault:
                self._answer(b"fault " + str(fault).encode())
            except LaunchRefused as refusal:
                self._answer(b"refused " + _WHY.dump_json(refusal.why))
            else:
                self._answer(b"good " + ANSWERS[what].dump_json(answer))

    def _answer(self, line):
        self.wfile.write(line + b"\n")
