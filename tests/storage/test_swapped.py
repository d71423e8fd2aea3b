"""Files and folders of a bucket are swapped with links meanwhile: no byte of another place is read,
and nothing is made there."""

import contextlib
import functools
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import FULL
from trainshed.files import beneath
from trainshed.model.stored_objects import ALWAYS, Checksums
from trainshed.storage.object_files import NameRefused, NoSuchObject
from trainshed.storage.object_lists import ListQuery, list_page
from trainshed.storage.objects import NewObject, Objects
from trainshed.storage.uploads import (
    NoSuchUpload,
    Target,
    Uploads,
    UploadSession,
    compose,
    copy,
    part,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        platform.machine() != "x86_64", reason="the neighbour knows renameat2 of x86-64 only"
    ),
]

SECONDS = 60.0 if FULL else 3.0
SECRET = b"the administrator's"
#: Who swaps; a server that is no root can only be its own neighbour.
NOBODY = 65534


@pytest.fixture(params=[beneath.by_kernel, beneath.by_parts], ids=["openat2", "by parts"])
def objects(request, tmp_path, monkeypatch):
    monkeypatch.setattr(beneath, "_resolve", lambda: request.param)
    found = Objects(data_dir=tmp_path / "data")
    found.buckets.make("bkt")
    return found


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(SECRET)
    return folder


@pytest.fixture
def neighbour(objects, outside, tmp_path):
    bucket = objects.buckets.path("bkt")
    argv = [sys.executable, Path(__file__).with_name("swapper.py"), bucket, outside]
    if os.geteuid() == 0:
        argv.append(str(NOBODY))
        os.chown(bucket, NOBODY, NOBODY)
        for folder in (*bucket.parents[:4], *tmp_path.parents[:2]):
            folder.chmod(0o755)
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "1000\n"
        yield process
        if process.poll() is None:
            process.communicate(timeout=60)


def put(objects, name, content=b"new"):
    with part(objects.data_dir) as (path, file):
        file.write(content)
        file.flush()
        return objects.commit(NewObject(bucket="bkt", name=name, file=path))


def content(objects, name):
    _, file = objects.open("bkt", name)
    with file:
        return file.read()


def calls(objects):
    """All that the storage API does with names that are being swapped."""
    uploads = Uploads(objects)

    def upload(name):
        session = uploads.begin(UploadSession(bucket="bkt", name=name))
        uploads.write(session, 0, b"new")
        try:
            uploads.finish(session, Checksums())
        finally:
            with contextlib.suppress(NoSuchUpload):
                uploads.cancel(session)

    def copied(name, to):
        found, file = objects.open("bkt", name)
        copy(objects, found, file, Target(bucket="bkt", name=to))

    def moved(name, to):
        objects.move("bkt", name, to, ALWAYS, ALWAYS)

    for name in ("file", "folder/secret"):
        yield functools.partial(content, objects, name)
        yield functools.partial(objects.patch, "bkt", name, lambda found: found)
        yield functools.partial(copied, name, "copied")
        yield functools.partial(moved, name, "moved")
        sources = [(name, ALWAYS), (name, ALWAYS)]
        target = Target(bucket="bkt", name="composed")
        yield functools.partial(compose, objects, "bkt", sources, target)
        yield functools.partial(objects.delete, "bkt", name)
    for name in ("file", "folder/secret", "folder/new", "folder/new-folder/x", "folder/below/x/"):
        yield functools.partial(put, objects, name, b"" if name.endswith("/") else b"new")
        yield functools.partial(upload, name)
        yield functools.partial(moved, "moved", name)
    yield functools.partial(list_page, objects, "bkt", ListQuery())


def test_no_byte_from_outside_is_read_and_nothing_is_made_there(objects, outside, neighbour):
    done, refused, end_s = 0, 0, time.monotonic() + SECONDS
    while time.monotonic() < end_s or not (done and refused):
        for call in calls(objects):
            try:
                call()
                done += 1
            except (NameRefused, NoSuchObject):
                refused += 1
            assert sorted(path.name for path in outside.iterdir()) == ["secret"]
            assert (outside / "secret").read_bytes() == SECRET
    assert neighbour.poll() is None
    neighbour.communicate(timeout=60)
    bucket = objects.buckets.path("bkt")
    made = [path for path in bucket.rglob("*") if path.is_file() and not path.is_symlink()]
    assert made
    assert all(SECRET not in path.read_bytes() for path in made)
