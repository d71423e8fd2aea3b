"""The storage API alone, as a real process: ``python storage_app.py DATA_DIR [PORT [by_parts]]``.

Who a caller is is said by a token, in a header or as ``/as/TOKEN`` before the path; nobody in
particular may do everything.  Prints its port once it listens.  ``by_parts``: as if the kernel had
no ``openat2``.
"""

import json
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from trainshed.api.storage import storage_routes
from trainshed.files import beneath
from trainshed.model.access import ALL_PROJECTS, AccessRole, Caller
from trainshed.service.upkeep.project_bytes import ProjectBytes
from trainshed.storage.objects import Objects
from trainshed.storage.uploads import Uploads

#: Longer than clients keep an idle connection: none meets its end just as it calls.
KEEP_ALIVE_S = 60
ANYBODY = Caller(name="anonymous", project=ALL_PROJECTS, role=AccessRole.ADMIN)
CALLERS = {
    f"{project}-{role.name.lower()}": Caller(name=f"{role.name} of {project}",
                                             project=project, role=role)
    for project in ("one", "two")
    for role in AccessRole
}  # fmt: skip


class Owners:
    """The part of a store that knows whose buckets are whose, in a file."""

    def __init__(self, path):
        self.path = path

    def _owners(self):
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def add_bucket(self, name, project):
        owners = self._owners()
        entry = owners.setdefault(name, [project, datetime.now(UTC).isoformat()])
        self.path.write_text(json.dumps(owners))
        return entry[0]

    def bucket(self, name):
        entry = self._owners().get(name)
        return (entry[0], datetime.fromisoformat(entry[1])) if entry else None

    def buckets(self, project):
        return [name for name, (owner, _) in self._owners().items() if owner == project]

    def project(self, id_or_number):
        numbers = {"one": "1001", "two": "1002"}
        ids = {number: name for name, number in numbers.items()}
        project_id = ids.get(id_or_number, id_or_number)
        return project_id, numbers.get(project_id, "1999")


def caller_of(scope):
    header = dict(scope["headers"]).get(b"authorization", b"").decode()
    token = header.removeprefix("Bearer ")
    if scope["path"].startswith("/as/"):
        token = scope["path"].split("/")[2]
        scope["root_path"] = f"/as/{token}"
    return CALLERS.get(token, ANYBODY)


def with_callers(app):
    async def called(scope, receive, send):
        if scope["type"] == "http":
            scope["state"] = {"caller": caller_of(scope)}
        await app(scope, receive, send)

    return called


def route(row):
    async def endpoint(request: Request):
        return await row.handle(request, request.state.caller)

    return Route(row.path, endpoint, methods=[row.verb])


async def create_job(request: Request):
    """Stand-in for ml v1: gcloud only wants its own job back."""
    job = await request.json()
    return JSONResponse({**job, "state": "QUEUED", "createTime": "2026-11-20T23:53:10Z"})


def build(data_dir: Path):
    objects = Objects(data_dir=data_dir)
    limit = data_dir / "bytes_max"
    project_bytes = ProjectBytes(int(limit.read_text()) if limit.exists() else None)
    rows = storage_routes(
        objects, Uploads(objects), Owners(data_dir / "owners.json"), project_bytes
    )
    jobs = Route("/v1/projects/{project}/jobs", create_job, methods=["POST"])
    return with_callers(Starlette(routes=[*map(route, rows), jobs]))


def main():
    data_dir = Path(sys.argv[1])
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if "by_parts" in sys.argv[3:]:
        beneath._resolve = lambda: beneath.by_parts
    listener = socket.create_server(("127.0.0.1", port))
    listener.set_inheritable(True)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(build(data_dir), log_level="warning", lifespan="off",
                            timeout_keep_alive=KEEP_ALIVE_S)  # fmt: skip
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
