"""The world around a hostile trainer: it does what the trainer asks for, and tells what came of it.

A crash of the server, a client that calls meanwhile, a backup and a restore by root, calls of a
neighbour: no job can do these, and attacks wait for them.  Requests are files in the trainer's own
bucket (``hostile.request``), answers too.
"""

import contextlib
import http.client
import json
import os
import re
import secrets
import socket
import urllib.error
from pathlib import Path

from e2e.support import good, wait_until
from isolation.hostile import RESTORED
from server_process import TRAINSHED, finished

WAIT_S_MAX = 120
#: The folder of alpha's bucket that the server has as a bucket of its own (``[buckets]``).
FOLDER_BUCKET = "scratch"
#: What a client sends to the API while no server is there.
CALL = "GET /v1/projects/alpha-proj/jobs HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n"


class World:
    """What happens around one trainer of alpha's."""

    def __init__(self, scene, folder):
        """``folder`` is where a job may write, and that is a bucket of the server."""
        self._scene = scene
        self._folder = folder
        self._own = scene.data / "buckets" / "alpha-bucket"
        self._neighbour = scene.data / "buckets" / "beta-bucket"
        self._answered = 0
        self._orders = 0
        self._backup = scene.folder / "backup"
        self._calls = []
        self._doing = {
            "read log of neighbour": self._log_of_neighbour,
            "bind neighbour": lambda port: self._order(f"bind {port}"),
            "tunnel of neighbour": lambda: self._order("tunnel"),
            "call of neighbour": self._call_of_neighbour,
            "read heads of proxy": lambda: self._scene.proxy.heads,
            "list sockets of server": self._sockets,
            "use folder bucket": self._folder_bucket,
            "begin download": self._begin_download,
            "end download": self._end_download,
            "back up": self._back_up,
            "restore": self._restore,
            "kill server": self._scene.server.kill,
            "call server": self._call,
            "start server": self._start,
        }

    def answer(self):
        """Do what the trainer waits for, if it waits."""
        path = self._own / f"request-{self._answered}"
        if not path.exists():
            return
        words, _, number = re.fullmatch(r"([a-z ]+?)( (\d+))?", path.read_text()).groups()
        answer = self._doing[words](*filter(None, [number]))
        draft = self._own / "answer.draft"
        draft.write_text(json.dumps(answer))
        draft.chmod(0o644)
        draft.rename(f"{path}.answer")
        self._answered += 1

    # ---- a neighbour ----

    def _order(self, words):
        number, self._orders = self._orders, self._orders + 1
        draft = self._neighbour / "order.draft"
        draft.write_text(words)
        draft.chmod(0o644)
        draft.rename(self._neighbour / f"order-{number}")
        answer = self._neighbour / f"answer-{number}"
        wait_until(answer.exists, lambda: f"beta did not answer: {words}", timeout_s=WAIT_S_MAX)
        return json.loads(answer.read_text())

    def _call_of_neighbour(self):
        status = self._order("call")
        return {"status": status, "descriptors": len(self._descriptors())}

    def _log_of_neighbour(self):
        return self._scene.server.log_of(self._scene.victim)

    def _descriptors(self):
        return list(Path(f"/proc/{self._scene.server.pid}/fd").iterdir())

    # ---- the server's own ----

    def _sockets(self):
        """Names of Unix sockets that the server listens at, but for those of the data directory."""
        links = []
        for path in self._descriptors():
            with contextlib.suppress(FileNotFoundError):  # the server has closed it meanwhile
                links.append(str(path.readlink()))
        own = {link[8:-1] for link in links if link.startswith("socket:")}
        lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
        names = {line[7] for line in lines if len(line) > 7 and line[6] in own}
        return sorted(name for name in names if not name.startswith(str(self._scene.data)))

    def _folder_bucket(self):
        """What an administrator gets of the links in a folder that is a bucket."""
        server, objects = self._scene.server, f"/storage/v1/b/{FOLDER_BUCKET}/o"
        place = self._scene.folder / FOLDER_BUCKET
        place.unlink()
        place.symlink_to(self._folder)
        adopt = f"/trainshed/v1/buckets/{FOLDER_BUCKET}:adopt"
        good(server.call("POST", adopt, {"project": "alpha-proj"}))
        names = ("token", "shadow", "etc%2Fpasswd", "home%2F.netrc")
        followed = [name for name in names if is_served(server, f"{objects}/{name}?alt=media")]
        with contextlib.suppress(urllib.error.HTTPError):
            self._scene.upload(FOLDER_BUCKET, "home/planted", b"of the job")
        planted = self._scene.folder / "home" / "planted"
        return followed + [name for name in ("home/planted",) if planted.exists()]

    def _begin_download(self):
        """Read the head of an object, and leave its bytes in the connection."""
        self._download = self._scene.server.connection()
        path = "/storage/v1/b/alpha-bucket/o/shrinks?alt=media"
        headers = {"Authorization": f"Bearer {self._scene.server.token}"}
        self._download.request("GET", path, headers=headers)
        self._response = self._download.getresponse()

    def _end_download(self):
        """Read to the end; what the server's log has that nobody foresaw."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            while self._response.read(1 << 20):
                pass
        self._download.close()
        return "a traceback" if "Traceback" in self._scene.server.output() else ""

    # ---- root ----

    def _back_up(self):
        run_by_root("backup", self._backup, self._scene)
        own = self._backup / "buckets" / "alpha-bucket"
        secret = self._scene.server.token.encode()
        followed = [
            str(path)
            for top in (own, self._backup / "jobs")
            for path in files_below(top)
            if path.stat().st_size < 1 << 20 and secret in path.read_bytes()
        ]
        assert (own / RESTORED / "ld.so.preload").exists()
        return {"followed": followed, "bytes_of_holes": (own / "holes").stat().st_blocks * 512}

    def _restore(self):
        self._scene.server.kill()
        run_by_root("restore", self._backup, self._scene)
        self._scene.server.start()
        preload = self._scene.folder / "home" / "ld.so.preload"
        return {"made": str(preload) if preload.exists() else ""}

    # ---- while the server is away ----

    def _call(self):
        """Clients call the API and the gateway, whether a server is there or not."""
        for port in filter(None, self._scene.ports):
            with contextlib.suppress(OSError):
                call = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S_MAX)
                self._calls.append(call)
                call.sendall(CALL.format(token=secrets.token_hex(8)).encode())

    def _start(self):
        self._scene.server.start()
        for call in self._calls:
            call.close()


def is_served(server, path):
    """Whether the server answers with an object's bytes."""
    try:
        return server.call("GET", path)[0] == 200
    except ValueError:  # they are no JSON
        return True


def files_below(top):
    """Its files, but for links."""
    paths = (Path(folder, name) for folder, _, names in os.walk(top) for name in names)
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def run_by_root(verb, folder, scene):
    ran = finished([TRAINSHED, verb, folder, "--data-dir", scene.data])
    assert ran.returncode == 0, ran.stdout + ran.stderr
