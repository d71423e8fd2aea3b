"""Engines on an API without pods, killed at a step of a launch: files and requests are steps."""

import json
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace

from k8s.world import connect_to
from trainshed.engines.base import EngineContext
from trainshed.engines.kubernetes import attempt_files, factory, options
from trainshed.engines.kubernetes.api.errors import ApiAway, ApiRefused
from trainshed.engines.kubernetes.request import PodRuntime
from trainshed.engines.kubernetes.runtime import architecture
from trainshed.engines.kubernetes.submit import ClusterSubmitter
from trainshed.model.launch_plan import ContainerPlan
from trainshed.testing.engine_steps import claim_of
from trainshed.testing.engine_world import FakeProgram, plan_of

INSTALLATION, CLAIM = "abc", "spool"
CREATED = 201
#: More steps than a launch has.
STEPS_MAX = 40


class Killed(BaseException):
    """The server is killed here."""


class Steps:
    """Counts the steps of a launch and kills at one of them; afterwards no request is sent."""

    def __init__(self, kill_at=STEPS_MAX):
        self._left = kill_at
        self._thread = threading.get_ident()
        self.is_dead = False

    @property
    def is_launching(self):
        """Whether this is the thread of the test: threads of the engine send requests, too."""
        return threading.get_ident() == self._thread

    def reach(self):
        if self.is_dead:
            raise ApiAway("the server was killed")
        if not self.is_launching:
            return
        self._left -= 1
        if self._left < 0:
            self.is_dead = True
            raise Killed

    def note_deletion(self, path):
        """Do nothing after a DELETE."""

    def around(self, call):
        def called(*args, **kwargs):
            self.reach()
            answer = call(*args, **kwargs)
            self.reach()
            return answer

        return called


class StoredWithError(Steps):
    """The first JobSet is stored, and the answer is an error of the API server."""

    has_failed = False

    def around(self, call):
        def called(path, *args, **kwargs):
            answer = call(path, *args, **kwargs)
            if path.endswith("/jobsets") and self.is_launching and not self.has_failed:
                self.has_failed = True
                raise ApiRefused(500, "InternalError", "etcdserver: request timed out")
            return answer

        return called


class DiesAfterDelete(Steps):
    """The server is killed after its first DELETE of a JobSet."""

    def note_deletion(self, path):
        if "/jobsets/" in path:
            self.is_dead = True


class _SteppedClient:
    """A client whose requests about single objects are steps."""

    def __init__(self, client, steps):
        self._client, self._steps = client, steps
        for verb in ("post", "patch"):
            setattr(self, verb, steps.around(getattr(client, verb)))

    def __getattr__(self, name):
        return getattr(self._client, name)

    def get(self, path, query=None):
        if query is None and "/jobsets/" in path:
            return self._steps.around(self._client.get)(path)
        return self._client.get(path, query)

    def delete(self, path, body=None, query=None):
        if self._steps.is_dead:
            raise ApiAway("the server was killed")
        answer = self._client.delete(path, body, query)
        self._steps.note_deletion(path)
        return answer


class CrashWorld:
    """One installation on one API; each engine is a server."""

    def __init__(self, api, folder, monkeypatch):
        self.api = api
        self._folder, self._monkeypatch = folder, monkeypatch
        self._opened = []
        (folder / "spool").mkdir()
        runtime = PodRuntime(
            start=("/bin/true",), archive="", architecture=architecture(), user=0, group=0
        )
        monkeypatch.setattr(factory, "_store_runtime", lambda _: runtime)

    def open(self, steps=None, **more):
        """An engine; with ``steps`` it is killed at one of them."""
        context = EngineContext(
            jobs_dir=self._folder / "jobs",
            name="cluster",
            installation=INSTALLATION,
            buckets=self._folder / "buckets",
        )
        settings = {"spool": str(self._folder / "spool"), "claim": CLAIM, "registry": False}
        client = connect_to(self.api)
        engine = factory.make_with_client(
            context,
            options.read({**settings, **more}),
            _SteppedClient(client, steps) if steps else client,
            "cluster",
        )
        self._opened.append(engine)
        engine.list_attempts()
        return engine

    @contextmanager
    def stepping(self, steps):
        """The files that a launch writes are steps, too."""
        keep = attempt_files.keep_submission
        prepare = ClusterSubmitter._prepare
        with self._monkeypatch.context() as patches:
            patches.setattr(attempt_files, "keep_submission", steps.around(keep))
            patches.setattr(ClusterSubmitter, "_prepare", steps.around(prepare))
            yield

    def kill_during_launch(self, key, step, **more):
        """Launch an attempt on a server that is killed at a step; whether it was."""
        steps = Steps(step)
        engine = self.open(steps, **more)
        try:
            with self.stepping(steps):
                self.launch(engine, key)
        except Killed:
            return True
        finally:
            steps.is_dead = True
            engine.close()
        return False

    def launch(self, engine, key):
        """Launch an attempt of one replica."""
        plan = plan_of(FakeProgram())
        container = ContainerPlan(image="localhost/trainer:1", command=("/bin/true",), args=())
        replicas = tuple(replace(row, container=container) for row in plan.replicas)
        engine.launch(key, replace(plan, replicas=replicas), claim_of("cluster", plan))

    def list_objects(self, kind):
        return self.api.store.list(kind, "default")[0]

    def count_created(self, plural):
        """How often the API has created an object of each name."""
        rows = self.api.server.list_audit("create", f"/{plural}")
        created = [row for row in rows if row.code == CREATED and "dryRun" not in row.query]
        return Counter(json.loads(row.body)["metadata"]["name"] for row in created)

    def close(self):
        for engine in self._opened:
            engine.close()
