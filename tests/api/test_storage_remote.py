"""The storage API over a bucket that is kept elsewhere."""

import asyncio
from datetime import UTC, datetime
from functools import partial

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from trainshed.api.storage import storage_routes
from trainshed.model.access import AccessRole, Caller
from trainshed.service.upkeep.project_bytes import ProjectBytes
from trainshed.storage.buckets import RemoteBucket
from trainshed.storage.remote import remotes_of
from trainshed.storage.remote_objects import ObjectsWithRemotes
from trainshed.storage.uploads import Uploads

CALLER = Caller(name="job", project="one", role=AccessRole.SUBMITTER)


class Owners:
    def __init__(self, owners):
        self.owners = owners

    def bucket(self, name):
        return (self.owners[name], datetime.now(UTC)) if name in self.owners else None

    def buckets(self, project):
        return [name for name, owner in self.owners.items() if owner == project]

    def add_bucket(self, name, project):
        return self.owners.setdefault(name, project)

    def project(self, name):
        return name, "1001"


class Client:
    """Calls an application in this process."""

    def __init__(self, app):
        self._app = app
        self.get, self.post, self.put, self.delete = (
            partial(self._call, verb) for verb in ("GET", "POST", "PUT", "DELETE")
        )

    def _call(self, verb, path, **options):
        async def call():
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(verb, path, **options)

        return asyncio.run(call())


@pytest.fixture
def client(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    remotes = remotes_of(
        {
            name: RemoteBucket((tmp_path / "elsewhere").as_uri())
            for name in ("far", "theirs", "nobodys")
        }
    )
    objects = ObjectsWithRemotes(data_dir=tmp_path / "data", remotes=remotes)
    owners = Owners({"far": "one", "near": "one", "theirs": "two"})
    objects.buckets.make("near")
    rows = storage_routes(objects, Uploads(objects), owners, ProjectBytes(10))

    def endpoint(row):
        async def handle(request):
            return await row.handle(request, CALLER)

        return handle

    routes = [Route(row.path, endpoint(row), methods=[row.verb]) for row in rows]
    return Client(Starlette(routes=routes))


def upload(client, bucket, content):
    path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name=a/b"
    return client.post(path, content=content)


def test_uploads_downloads_ranges_and_copies(client):
    assert upload(client, "far", b"0123456789").json()["size"] == "10"
    there = "/storage/v1/b/far/o/a%2Fb"
    assert client.get(f"{there}?alt=media").content == b"0123456789"
    part = client.get(f"{there}?alt=media", headers={"Range": "bytes=2-4"})
    assert (part.status_code, part.content) == (206, b"234")
    assert client.post(f"{there}/rewriteTo/b/near/o/copy", json={}).json()["done"]
    assert client.get("/storage/v1/b/near/o/copy?alt=media").content == b"0123456789"
    assert client.delete(there).status_code == 204
    assert client.get(there).status_code == 404


def test_a_resumable_upload_goes_there(client):
    begun = client.post("/upload/storage/v1/b/far/o?uploadType=resumable&name=big", json={})
    answer = client.put(begun.headers["location"], content=b"x" * 1000)
    assert answer.json()["size"] == "1000"


def test_what_is_kept_elsewhere_counts_for_no_limit_of_a_project(client):
    assert upload(client, "far", b"x" * 100).status_code == 200
    assert upload(client, "near", b"x" * 100).status_code == 403


@pytest.mark.parametrize("bucket", ["theirs", "nobodys"])
def test_it_belongs_to_a_project_or_is_not_there(client, bucket):
    assert client.get(f"/storage/v1/b/{bucket}/o").status_code == 404
    assert upload(client, bucket, b"x").status_code == 404


def test_a_store_that_is_away_is_503_in_a_sentence(client, tmp_path, monkeypatch):
    def away(*_args, **_named):
        raise ConnectionError("no route")

    monkeypatch.setattr("trainshed.storage.folder_files.FolderFiles.ls", away)
    answer = client.get("/storage/v1/b/far/o")
    assert answer.status_code == 503
    assert "behind the bucket far" in answer.json()["error"]["message"]
    assert tmp_path.name not in answer.json()["error"]["message"]
