"""``trainshed serve`` that kills itself at one place: a program for tests, started by path.

    python failing_server.py FAILPOINTS.json serve --data-dir ...

The places are all calls by which the server commits or acts: those of the store that write, every
commit of the database, and those of the engine; and of the local engine and those of clusters all
that they write, start or order; and if a test wants it, the export of traces and the accounting.
Each has a side, ``before`` or ``after``, and the thread that comes to it, unless chance decides
which of several is first.  FAILPOINTS.json is
``{"kill": PLACE or null, "after": N, "seen": FILE, "engine": SOCKET or null, "places": who does,
"figures": whether the export of traces and the accounting have places}``:
the process is killed (SIGKILL, by itself) when it comes to PLACE for the N-th time; all places that
it comes to are written to FILE, a line each.
"""

import functools
import json
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path

from sqlalchemy.engine.default import DefaultDialect

from trainshed.app import application as app
from trainshed.cli.main import main
from trainshed.engines import spool
from trainshed.engines.base import PlacedBy
from trainshed.engines.kubernetes import attempt_files as kubernetes_files
from trainshed.engines.kubernetes.api.client import Client
from trainshed.engines.local.attempts import plan_file, start
from trainshed.engines.local.attempts.fence import Fence
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.slurm import attempt_files
from trainshed.engines.slurm.queue import Queue
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.warden import compose as warden_compose
from trainshed.observability.span_exporter import SpanExporter
from trainshed.store.usage import StoredUsage

#: What changes the store; whatever else it has is only read.
WRITES = frozenset(
    {
        "add_bucket",
        "add_event",
        "add_job",
        "add_pipeline",
        "apply",
        "apply_study",
        "confirm",
        "delete_job",
        "explain",
        "forget",
        "join",
        "leave",
        "see_nodes",
        "set_labels",
        "set_node_state",
        "take_over",
    }
)
ACTS = frozenset({"launch", "stop"})
#: Where the local engine acts, on the disk and on processes.
LOCAL = (
    (LocalEngine, "launch"),
    (LocalEngine, "stop"),
    (AttemptFolder, "make"),
    (AttemptFolder, "give_order"),
    (Fence, "close"),
    (plan_file, "write"),
    (plan_file, "write_json"),
    (start, "spawn"),
)
#: Where that of a cluster does.
SLURM = (
    (spool.Spool, "make"),
    (warden_compose, "write"),
    (attempt_files, "keep_submitted"),
    (attempt_files, "keep_end"),
    (spool, "take_claim"),
    (Queue, "submit"),
    (Queue, "cancel"),
    (Queue, "look_now"),
)
#: Where that of Kubernetes does; the spool and the plan are places of Slurm's engine already.
KUBERNETES = (
    (kubernetes_files, "keep_submission"),
    (kubernetes_files, "keep_end"),
    (kubernetes_files, "keep_withdrawn"),
    (kubernetes_files, "keep_nodes"),
)
#: Where a server sends the spans of jobs, and writes what they used.
FIGURES = ((SpanExporter, "_send_all"), (StoredUsage, "write_uses"))
#: The requests about single objects, by the method of the client; lists are places of no kind.
REQUESTS = ("post", "patch", "delete", "get")
KINDS = ("jobsets", "secrets")


class Failpoints:
    """Counts how often each place was come to, and kills at the one."""

    def __init__(self, config):
        self._kill = config["kill"]
        self._left = config.get("after", 1)
        self._reached = Path(config["seen"]).open("a", buffering=1)  # noqa: SIM115 - until the kill
        self._counts = Counter()
        self._lock = threading.Lock()

    def reach(self, place):
        with self._lock:
            self._counts[place] += 1
            if self._counts[place] == 1:
                self._reached.write(place + "\n")
            if place == self._kill:
                self._left -= 1
                if self._left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

    def around(self, call, name, *, by_thread=True):
        """The call, with a place before and one after it, for each thread of ours or for all."""

        @functools.wraps(call)
        def called(*args, **kwargs):
            place = f"{_role()}: {name}" if by_thread else name
            self.reach(f"{place} before")
            result = call(*args, **kwargs)
            self.reach(f"{place} after")
            return result

        return called


def _role():
    """What the thread does: ``controller-schedule``, or ``api`` for all that answer clients."""
    name = threading.current_thread().name
    if name.startswith("launch-"):
        return "launch"
    return name if name.startswith(("controller-", "store-", "kubernetes-orders")) else "api"


class Watched:
    """A store or an engine, with places around the calls that are named."""

    def __init__(self, real, kind, names, failpoints):
        self._real = real
        for name in names:
            if hasattr(real, name):
                setattr(self, name, failpoints.around(getattr(real, name), f"{kind}.{name}"))

    def __getattr__(self, name):
        return getattr(self._real, name)


def around_requests(send, verb, failpoints):
    """A method of the client, with places around requests that name an object or create one."""

    @functools.wraps(send)
    def sent(client, path, *args, **kwargs):
        kind = next((kind for kind in KINDS if f"/{kind}" in path), None)
        if kind is None or (verb == "get" and path.endswith(f"/{kind}")):
            return send(client, path, *args, **kwargs)
        return failpoints.around(send, f"kubernetes {verb} {kind}")(client, path, *args, **kwargs)

    return sent


def instrument_figures(failpoints):
    for owner, name in FIGURES:
        call = failpoints.around(getattr(owner, name), f"figures {name}", by_thread=False)
        setattr(owner, name, call)


def instrument(failpoints, engine_socket, places):
    open_store, build = app.open_store, app.build
    app.open_store = lambda *args, **kwargs: Watched(
        open_store(*args, **kwargs), "store", WRITES, failpoints
    )
    # all that is committed, whatever it is: the group of writes of many callers too
    DefaultDialect.do_commit = failpoints.around(DefaultDialect.do_commit, "commit")
    for kind, places_of in (("local", LOCAL), ("slurm", SLURM), ("kubernetes", KUBERNETES)):
        for owner, name in places_of:
            call, is_local = getattr(owner, name), kind == "local"
            setattr(owner, name, failpoints.around(call, f"{kind} {name}", by_thread=is_local))
    for verb in REQUESTS:
        setattr(Client, verb, around_requests(getattr(Client, verb), verb, failpoints))
    if engine_socket:
        from controller.tuning_world import with_arguments  # noqa: PLC0415 - only when simulated
        from e2e.remote_engine import RemoteEngine  # noqa: PLC0415 - the same

        remote = RemoteEngine(engine_socket, PlacedBy(places))
        remote = Watched(remote, "engine", ACTS, failpoints)
        fake = functools.partial(build, engine=remote, compose=with_arguments)
        app.build = fake
        sys.modules["trainshed.cli.admin.server"].build = fake


if __name__ == "__main__":
    config = json.loads(Path(sys.argv[1]).read_text())
    import trainshed.cli.admin.server  # noqa: F401 - to be instrumented

    failpoints = Failpoints(config)
    instrument(failpoints, config.get("engine"), config.get("places", "SERVER"))
    if config.get("figures"):
        instrument_figures(failpoints)
    sys.argv[1:] = sys.argv[2:]
    sys.exit(main())
