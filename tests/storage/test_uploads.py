import base64
import contextlib
import threading
import time

import google_crc32c
import pytest

from trainshed.model.stored_objects import Attributes, Checksums, Conditions
from trainshed.storage.object_files import ConditionFailed, NameRefused, NoSuchObject
from trainshed.storage.object_hashes import HashMismatch
from trainshed.storage.objects import Objects
from trainshed.storage.uploads import (
    PART_AGE_S_MAX,
    SESSION_AGE_S_MAX,
    ConcurrentWrite,
    NoSuchUpload,
    Uploads,
    UploadSession,
)

SAID = Attributes(content_type="a/b", metadata={"k": "v"})


class Clock:
    def __init__(self):
        self.now = time.time()

    def __call__(self):
        return self.now


@pytest.fixture
def objects(tmp_path):
    objects = Objects(data_dir=tmp_path)
    objects.buckets.make("bkt")
    return objects


@pytest.fixture
def uploads(objects):
    return Uploads(objects)


def session(**more):
    return UploadSession(**{"bucket": "bkt", "name": "dir/x", "attributes": SAID, **more})


def content(objects):
    _, file = objects.open("bkt", "dir/x")
    with file:
        return file.read()


def crc32c(text):
    return base64.b64encode(google_crc32c.value(text).to_bytes(4, "big")).decode()


def test_an_upload_goes_on_in_another_server(objects):
    first = Uploads(objects)
    upload = first.begin(session(total=6, conditions=Conditions(generation=0)))
    first.write(upload, 0, b"abc")
    second = Uploads(Objects(data_dir=objects.data_dir))
    assert second.received(upload) == 3
    assert second.session(upload).conditions == Conditions(generation=0)
    with pytest.raises(NoSuchObject):
        content(objects)
    second.write(upload, 3, b"def")
    stored = second.finish(upload, Checksums(crc32c=crc32c(b"abcdef")))
    assert content(objects) == b"abcdef"
    assert (stored.attributes, stored.checksums.crc32c) == (SAID, crc32c(b"abcdef"))


def test_the_end_may_be_asked_for_again(uploads):
    upload = uploads.begin(session())
    uploads.write(upload, 0, b"abc")
    assert uploads.finish(upload, Checksums()) == uploads.finish(upload, Checksums())
    assert uploads.session(upload).done


def test_of_two_that_continue_an_upload_one_is_told(uploads):
    upload = uploads.begin(session())
    uploads.write(upload, 0, b"abc")
    with pytest.raises(ConcurrentWrite):
        uploads.write(upload, 0, b"abc")
    assert uploads.received(upload) == 3


def test_many_at_once_never_mix_their_bytes(uploads, objects):
    upload = uploads.begin(session())

    def send():
        for at in range(0, 40, 4):
            with contextlib.suppress(ConcurrentWrite):
                uploads.write(upload, at, b"%04d" % at)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    uploads.finish(upload, Checksums())
    assert content(objects) == b"".join(b"%04d" % at for at in range(0, 40, 4))


@pytest.mark.parametrize("where", ["document", "header"])
def test_bytes_with_another_checksum_are_thrown_away(uploads, objects, where):
    wrong = Checksums(crc32c=crc32c(b"other"))
    upload = uploads.begin(session(checksums=wrong if where == "document" else Checksums()))
    uploads.write(upload, 0, b"abc")
    with pytest.raises(HashMismatch, match="CRC32C"):
        uploads.finish(upload, wrong if where == "header" else Checksums())
    with pytest.raises(NoSuchObject):
        content(objects)
    with pytest.raises(NoSuchUpload):
        uploads.received(upload)


def test_a_condition_is_looked_at_when_the_object_is_made(uploads):
    late = uploads.begin(session(conditions=Conditions(generation=0)))
    early = uploads.begin(session(conditions=Conditions(generation=0)))
    uploads.finish(early, Checksums())
    with pytest.raises(ConditionFailed):
        uploads.finish(late, Checksums())


def test_a_name_is_refused_before_anything_is_sent(uploads):
    with pytest.raises(NameRefused):
        uploads.begin(session(name="a//b"))


def test_a_cancelled_upload_is_gone(uploads, tmp_path):
    upload = uploads.begin(session())
    uploads.write(upload, 0, b"abc")
    uploads.cancel(upload)
    for call in (uploads.received, uploads.session, uploads.cancel):
        with pytest.raises(NoSuchUpload):
            call(upload)
    assert [path for path in (tmp_path / "uploads").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("upload", ["", "..", "../../objects", "x" * 43, "é" * 43])
def test_an_id_that_nobody_was_given_finds_nothing(uploads, upload):
    for call in (uploads.session, uploads.received, uploads.cancel):
        with pytest.raises(NoSuchUpload):
            call(upload)


def test_old_sessions_and_parts_are_swept_away_and_no_others(objects):
    clock = Clock()
    uploads = Uploads(objects, clock)
    old, done = uploads.begin(session()), uploads.begin(session())
    uploads.finish(done, Checksums())
    parts = objects.data_dir / "uploads/parts"
    parts.mkdir(exist_ok=True)
    (parts / "left").touch()
    clock.now += PART_AGE_S_MAX / 2
    young = uploads.begin(session())
    assert (parts / "left").exists()
    clock.now += PART_AGE_S_MAX
    uploads.sweep()
    assert not (parts / "left").exists()
    with pytest.raises(NoSuchUpload):
        uploads.session(done)
    assert uploads.session(old) == uploads.session(young)
    clock.now += SESSION_AGE_S_MAX
    uploads.sweep()
    with pytest.raises(NoSuchUpload):
        uploads.session(old)


@pytest.mark.parametrize("text", [b"", b'{"bucket": "bk', b"[" * 5000, b'{"bucket": 1}'])
def test_a_session_that_cannot_be_read_is_none(objects, uploads, text):
    upload = uploads.begin(session())
    (objects.data_dir / "uploads/sessions" / upload / "session.json").write_bytes(text)
    with pytest.raises(NoSuchUpload, match="start it again"):
        uploads.session(upload)
