"""Files and folders of a bucket are swapped with links meanwhile: no byte of another place is read,
and nothing is made there."""

import contextlib
import functools
import shutil
import time
from pathlib import Path

import pytest

from conftest import FULL
from service.test_programs import spec
from storage.swapper import KNOWN, check_unharmed, check_unread, swapping
from trainshed.engines.environments.content import own_copies
from trainshed.files import beneath
from trainshed.files.beneath import NOT_A_FILE
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.model.stored_objects import ALWAYS, Checksums
from trainshed.service.starts.programs import Source, environment_of
from trainshed.storage.buckets import buckets_of
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

pytestmark = [pytest.mark.slow, KNOWN]

SECONDS = 60.0 if FULL else 3.0


@pytest.fixture(params=[beneath.by_kernel, beneath.by_parts], ids=["openat2", "by parts"])
def objects(request, tmp_path, monkeypatch):
    monkeypatch.setattr(beneath, "_resolve", lambda: request.param)
    objects = Objects(data_dir=tmp_path / "data")
    objects.buckets.make("bkt")
    return objects


def put(objects, name, content=b"new"):
    with part(objects.data_dir) as (path, file):
        file.write(content)
        file.flush()
        return objects.commit(NewObject(bucket="bkt", name=name, file=path))


def content(objects, name):
    _, file = objects.open("bkt", name)
    with file:
        return file.read()


@contextlib.contextmanager
def packages_of(environment, into):
    """What goes away meanwhile is what the engine tells as its own fault."""
    try:
        with own_copies(environment, into) as own:
            yield own
    except OSError as error:
        if error.errno not in NOT_A_FILE:
            raise
        raise EngineFault(str(error)) from None


def installed(objects, name, into):
    """A package of a bucket as it is copied before it is installed; the copy stays."""
    buckets = buckets_of(objects.data_dir)
    source = Source(folder=into)
    environment = environment_of(spec(f"gs://bkt/{name}"), source, "python", buckets, into)
    with packages_of(environment, into) as own:
        for number, package in enumerate(own.packages):
            copy = shutil.copytree if Path(package).is_dir() else shutil.copy
            target = into / f"{name.replace('/', '-')}-{number}"
            shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
            copy(package, target)


def calls(objects, into):
    """All that is done with names of a bucket, while they are being swapped."""
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
        stored, file = objects.open("bkt", name)
        copy(objects, stored, file, Target(bucket="bkt", name=to))

    def moved(name, to):
        objects.move("bkt", name, to, ALWAYS, ALWAYS)

    for name in ("file", "folder/secret", "folder"):
        yield functools.partial(installed, objects, name, into)
    for name in ("file", "folder/secret"):
        yield functools.partial(content, objects, name)
        yield functools.partial(objects.patch, "bkt", name, lambda attributes: attributes)
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


def test_no_byte_from_outside_is_read_and_nothing_is_made_there(objects, tmp_path):
    outside, into, bucket = tmp_path / "outside", tmp_path / "into", objects.buckets.path("bkt")
    into.mkdir()
    done, refused, end_s = 0, 0, time.monotonic() + SECONDS
    with swapping(bucket, outside):
        while time.monotonic() < end_s or not (done and refused):
            for call in calls(objects, into):
                try:
                    call()
                    done += 1
                except (NameRefused, NoSuchObject, UsageFault, EngineFault):
                    refused += 1
                check_unharmed(outside)
    check_unread(bucket, into)
