"""Kills a server at every place where it commits or acts, one by one, and drives it there."""

import http.client
import json
import signal
import socket
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from e2e.support import CONFIG, PROJECT, settings
from server_process import ServerProcess

PROGRAM = Path(__file__).with_name("failing_server.py")
#: How long a driven server may take to come to the place at which it is to be killed: some things
#: it does again after half a minute only, and a busy machine has come to them before.
REACH_S_MAX = 60


class FailingServer(ServerProcess):
    """A server with failpoints; ``arm`` says at which one the next start ends."""

    has_figures = False
    """Whether the export of traces and the accounting have places."""

    def __init__(  # noqa: PLR0913 - what differs between servers
        self,
        data_dir,
        *flags,
        engine=None,
        places="SERVER",
        config="",
        images=CONFIG,
        number="",
    ):
        """``number`` tells the files of servers that share a folder apart."""
        super().__init__(data_dir, *flags, environ={"TRAINSHED_CACHE_DIR": str(data_dir / "cache")})
        (data_dir / "config.toml").write_text(settings(config, images))
        self._reached_file = data_dir / f"seen{number}.txt"
        self._config_file = data_dir / f"failpoints{number}.json"
        self._engine = str(engine) if engine else None
        self._places = places
        self.program = (PROGRAM, self._config_file)
        self.ready_s = []

    def arm(self, place, after=1):
        """The next start is killed when it comes to a place for the n-th time."""
        document = {"kill": place, "after": after, "seen": str(self._reached_file)}
        document |= {"engine": self._engine, "places": self._places, "figures": self.has_figures}
        self._config_file.write_text(json.dumps(document))

    def reached_places(self):
        """All places that any start has come to, in the order of their first time."""
        return list(dict.fromkeys(self._reached_file.read_text().splitlines()))

    def begin(self):
        """Start it; whether it got ready before it was killed."""
        began = time.monotonic()
        try:
            self.start()
        except AssertionError:
            if "Traceback" in self.output():
                raise
            return False
        self.ready_s.append(time.monotonic() - began)
        return True

    def try_call(self, verb, path, document=None):
        """The answer of a request, or None where the server was killed before it gave one.

        The request of a server that is dead would wait for the next one, which is not started.
        """
        connection = self.connection()
        try:
            connection.connect()
            with self._cut_at_death(connection.sock):
                connection.request(verb, path, self.body(document), self.headers())
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()

    @contextmanager
    def _cut_at_death(self, sock):
        is_over = threading.Event()

        def watch():
            while not is_over.wait(0.02):
                if self.has_ended:
                    with suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)
                    return

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def await_death(self):
        """Whether it was killed at its place; after a while it is asked to end, and may be then."""
        deadline = time.monotonic() + REACH_S_MAX
        while not self.has_ended and time.monotonic() < deadline:
            time.sleep(0.02)
        if self._process is not None:
            self.stop()
        return self.status == -signal.SIGKILL


class Jobs:
    """Jobs whose fates are known: what was acknowledged, and what was then done to them."""

    def __init__(self, server, document):
        self._server = server
        self._document = document
        self.fates = {}
        self._number = 0

    def submit(self, fate="lives", **more):
        """One more job; None where nobody has acknowledged it."""
        self._number += 1
        path = f"/v1/projects/{PROJECT}/locations/us-central1/customJobs"
        answer = self._server.try_call("POST", path, self._document(self._number, **more))
        if answer is None:
            return None
        status, job = answer
        assert status == 200, job
        self.fates[job["name"]] = fate
        return job["name"]

    def cancel(self, name):
        """Ask for the end of a job; it may have been heard though nobody has answered."""
        answer = self._server.try_call("POST", f"/v1/{name}:cancel", {})
        self.fates[name] = "cancelled" if answer else "maybe cancelled"

    def those(self, fate):
        """The names of jobs with a fate."""
        return [name for name, own_fate in self.fates.items() if own_fate == fate]

    def states(self):
        """The states of all jobs, by name."""
        states, token = {}, ""
        path = f"/v1/projects/{PROJECT}/locations/us-central1/customJobs?pageSize=100&pageToken="
        while True:
            status, page = self._server.call("GET", path + token)
            assert status == 200, page
            states |= {job["name"]: job["state"] for job in page.get("customJobs", [])}
            token = page.get("nextPageToken", "")
            if not token:
                return states


def uid_of(name):
    """The number of a job, from its full name."""
    return int(name.rpartition("/")[2])
