import base64
import hashlib
import json
import os
import stat
import threading
import time

import google_crc32c
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from trainshed.model.stored_objects import ALWAYS, Attributes, Checksums, Conditions
from trainshed.storage import objects as module
from trainshed.storage.bucket_folders import BucketNotEmpty
from trainshed.storage.object_files import ConditionFailed, NameRefused, NoSuchObject
from trainshed.storage.object_lists import ListQuery, list_page
from trainshed.storage.objects import NewObject, Objects
from trainshed.storage.uploads import Target, compose, copy, part


@pytest.fixture
def objects(tmp_path):
    objects = Objects(data_dir=tmp_path)
    objects.buckets.make("bkt")
    return objects


def put(objects, name, content=b"", conditions=ALWAYS, **fields):
    with part(objects.data_dir) as (path, file):
        file.write(content)
        file.flush()
        new = NewObject(bucket="bkt", name=name, file=path, **fields)
        return objects.commit(new, conditions)


def content(objects, name):
    _, file = objects.open("bkt", name)
    with file:
        return file.read()


def crc32c(text):
    return base64.b64encode(google_crc32c.value(text).to_bytes(4, "big")).decode()


def leftovers(objects):
    return [path for path in (objects.data_dir / "uploads").rglob("*") if path.is_file()]


def test_an_object_is_a_file_that_jobs_can_open(objects, tmp_path):
    stored = put(objects, "dir/x.txt", b"hello", attributes=Attributes(content_type="text/plain"))
    assert (tmp_path / "buckets/bkt/dir/x.txt").read_bytes() == b"hello"
    assert objects.get("bkt", "dir/x.txt") == objects.get("bkt", "dir/x.txt")
    assert (stored.size, stored.attributes.content_type) == (5, "text/plain")
    assert leftovers(objects) == []


def test_what_a_job_wrote_is_an_object_with_a_checksum(objects, tmp_path):
    (tmp_path / "buckets/bkt/out").write_bytes(b"model")
    stored = objects.get("bkt", "out")
    assert (stored.size, stored.metageneration) == (5, 1)
    assert stored.checksums == Checksums(crc32c=crc32c(b"model"))
    assert objects.get("bkt", "out", hashes=False).checksums.crc32c  # it is remembered


def test_a_checksum_is_never_of_an_older_content(objects, tmp_path):
    file = tmp_path / "buckets/bkt/out"
    file.write_bytes(b"model")
    first = objects.get("bkt", "out")
    os.utime(file, ns=(0, 10**18))
    objects.get("bkt", "out")
    file.write_bytes(b"other")
    os.utime(file, ns=(0, 10**18))  # the same size and time, another inode is not needed
    copied = file.with_name("copied")
    copied.write_bytes(b"again")
    os.utime(copied, ns=(0, 10**18))
    copied.rename(file)
    stored = objects.get("bkt", "out")
    assert stored.checksums.crc32c == crc32c(b"again") != first.checksums.crc32c


def test_a_job_that_writes_an_object_anew_makes_a_new_generation_of_it(objects, tmp_path):
    attributes = Attributes(content_type="text/plain", metadata={"k": "v"})
    # the time of a file that is written is that of the kernel's last tick
    a_second_ago = Objects(data_dir=tmp_path, clock_ns=lambda: time.time_ns() - 10**9)
    before = put(a_second_ago, "x", b"one", attributes=attributes)
    (tmp_path / "buckets/bkt/x").write_bytes(b"two!")
    after = objects.get("bkt", "x")
    assert after.generation > before.generation
    assert (after.attributes, after.checksums.crc32c) == (Attributes(), crc32c(b"two!"))


def test_nobody_waits_for_the_checksum_of_a_huge_file(objects, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "HASH_BYTES_MAX", 3)
    (tmp_path / "buckets/bkt/out").write_bytes(b"model")
    assert objects.get("bkt", "out").checksums == Checksums()


def test_generations_ascend_even_when_the_clock_stands_still(tmp_path):
    objects = Objects(data_dir=tmp_path, clock_ns=lambda: 10**18)
    objects.buckets.make("bkt")
    generations = [put(objects, "x", bytes([n])).generation for n in range(4)]
    assert generations == sorted(set(generations))


def test_conditions_hold_or_nothing_happens(objects):
    first = put(objects, "x", b"one", Conditions(generation=0))
    with pytest.raises(ConditionFailed, match="ifGenerationMatch"):
        put(objects, "x", b"two", Conditions(generation=0))
    with pytest.raises(ConditionFailed, match="ifMetagenerationMatch"):
        objects.delete("bkt", "x", Conditions(metageneration=9))
    with pytest.raises(ConditionFailed, match="ifGenerationNotMatch"):
        objects.get("bkt", "x", Conditions(generation_not=first.generation))
    with pytest.raises(NoSuchObject):
        objects.get("bkt", "x", Conditions(revision=first.generation - 1))
    assert content(objects, "x") == b"one"
    assert put(objects, "x", b"two", Conditions(generation=first.generation)).size == 3


def test_of_many_who_want_to_create_an_object_one_does(objects):
    outcomes = []

    def create(n):
        try:
            outcomes.append(put(objects, "x", bytes([n]), Conditions(generation=0)))
        except ConditionFailed:
            outcomes.append(None)

    threads = [threading.Thread(target=create, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 8
    assert len([outcome for outcome in outcomes if outcome]) == 1


def test_attributes_change_alone(objects):
    before = put(objects, "x", b"one", attributes=Attributes(metadata={"k": "v"}))
    after = objects.patch("bkt", "x", lambda _: Attributes(content_type="a/b"))
    assert (after.generation, after.metageneration) == (before.generation, 2)
    assert after.attributes == Attributes(content_type="a/b")
    assert after.created == before.created
    assert content(objects, "x") == b"one"


def test_who_reads_is_not_disturbed_by_who_writes(objects):
    put(objects, "x", b"one")
    stored, file = objects.open("bkt", "x")
    with file:
        put(objects, "x", b"another")
        assert (stored.size, file.read()) == (3, b"one")


def test_a_copy_has_the_bytes_and_what_is_said_of_them(objects):
    attributes = Attributes(content_type="a/b")
    put(objects, "x", b"one", attributes=attributes)
    stored, file = objects.open("bkt", "x")
    copied = copy(objects, stored, file, Target(bucket="bkt", name="y/z", attributes=attributes))
    assert content(objects, "y/z") == b"one"
    assert (copied.attributes, objects.get("bkt", "y/z").checksums.crc32c) == (
        attributes,
        crc32c(b"one"),
    )


def test_objects_are_put_one_behind_the_other(objects):
    put(objects, "a", b"one")
    put(objects, "b", b"two")
    target = Target(bucket="bkt", name="a", attributes=Attributes())
    stored = compose(objects, "bkt", [("a", ALWAYS), ("b", ALWAYS)], target)
    assert content(objects, "a") == b"onetwo"
    assert stored.checksums.crc32c == crc32c(b"onetwo")
    with pytest.raises(NoSuchObject, match="bkt/none"):
        compose(objects, "bkt", [("a", ALWAYS), ("none", ALWAYS)], target)


def test_a_move_takes_everything_along(objects):
    before = put(objects, "x", b"one", attributes=Attributes(metadata={"k": "v"}))
    moved = objects.move("bkt", "x", "dir/y", ALWAYS, Conditions(generation=0))
    assert (moved.attributes, moved.checksums) == (before.attributes, before.checksums)
    assert content(objects, "dir/y") == b"one"
    with pytest.raises(NoSuchObject):
        objects.get("bkt", "x")


def test_a_deleted_object_is_gone_with_what_was_said_of_it(objects, tmp_path):
    put(objects, "dir/x", b"one", attributes=Attributes(metadata={"k": "v"}))
    objects.delete("bkt", "dir/x")
    with pytest.raises(NoSuchObject, match="No such object: bkt/dir/x"):
        objects.delete("bkt", "dir/x")
    assert (tmp_path / "buckets/bkt/dir").is_dir()  # its job may be about to write there
    assert put(objects, "dir", b"a file now").size == 10


def test_a_placeholder_of_a_folder_is_an_object_until_it_is_deleted(objects, tmp_path):
    put(objects, "dir/")
    assert objects.get("bkt", "dir/").size == 0
    assert (tmp_path / "buckets/bkt/dir").is_dir()
    with pytest.raises(NameRefused, match="a name that ends with / must have no content"):
        put(objects, "dir/", b"content")
    objects.delete("bkt", "dir/")
    with pytest.raises(NoSuchObject):
        objects.get("bkt", "dir/")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "got 0"),
        ("a//b", "empty"),
        ("/a", "empty"),
        ("//", "empty"),
        ("..", "'..'"),
        ("../other/x", "'..'"),
        ("a/./b", "'.'"),
        ("a\0b", "NUL"),
        ("a\nb", "line end"),
        ("x" * 256, "255"),
        ("x/" * 600, "1024"),
        (".trainshed-x", "unfinished"),
        ("\ud800", "UTF-8"),
    ],
)
def test_a_name_that_no_file_can_have_is_refused_with_the_reason(objects, name, why):
    with pytest.raises(NameRefused, match=why):
        put(objects, name, b"x")
    with pytest.raises(NoSuchObject):
        objects.get("bkt", name)


def test_an_object_cannot_be_a_file_and_a_folder(objects):
    put(objects, "a", b"x")
    with pytest.raises(NameRefused, match="the name of one of its folders"):
        put(objects, "a/b", b"y")
    put(objects, "c/d", b"y")
    with pytest.raises(NameRefused, match="a folder with objects has this name"):
        put(objects, "c", b"x")
    put(objects, "e/f/")
    with pytest.raises(NameRefused, match="a folder with objects has this name"):
        put(objects, "e", b"x")
    assert (content(objects, "a"), content(objects, "c/d")) == (b"x", b"y")
    assert objects.get("bkt", "e/f/").size == 0


names = st.text(st.characters(blacklist_categories=("Cs",)), max_size=40)
parts = st.lists(st.sampled_from(["..", ".", "a", "", "é:*?\\", "~"]), max_size=6).map("/".join)


@given(names | parts)
@example("gs:/x-2026-11-20-23:53:10.914")
@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_every_name_is_stored_in_its_bucket_or_refused(objects, name):
    folders = {*objects.data_dir.iterdir()} | {*(objects.data_dir / "buckets").iterdir()}
    folders |= {objects.data_dir / "objects", objects.data_dir / "uploads"}
    text = b"" if name.endswith("/") else b"text"
    try:
        put(objects, name, text)
    except NameRefused:
        return
    assert objects.get("bkt", name).size == len(text)
    objects.delete("bkt", name)
    assert {*objects.data_dir.iterdir()} | {*(objects.data_dir / "buckets").iterdir()} == folders


def test_links_lead_nowhere_out_of_the_bucket(objects, tmp_path):
    folder = tmp_path / "buckets/bkt"
    (tmp_path / "secret").write_text("admin-token")
    (tmp_path / "outside").mkdir()
    (folder / "file").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to(tmp_path / "outside")
    (folder / "loop").symlink_to("loop")
    (folder / "gone").symlink_to("nothing")
    (folder / "back").symlink_to(".")
    for name in ("file", "folder/x", "loop", "gone", "back/file", "folder/", "back/"):
        with pytest.raises(NoSuchObject):
            objects.get("bkt", name)
    with pytest.raises(NameRefused, match="a link is in the way"):
        put(objects, "folder/x", b"escaped")
    assert list((tmp_path / "outside").iterdir()) == []
    with pytest.raises(NameRefused, match="a link is in the way"):
        put(objects, "file", b"would replace the link")
    assert (tmp_path / "secret").read_text() == "admin-token"


def test_a_link_is_no_object_wherever_it_leads(objects, tmp_path):
    put(objects, "ckpt-10", b"weights")
    link = tmp_path / "buckets/bkt/latest"
    link.symlink_to("ckpt-10")
    for act in (
        lambda: objects.get("bkt", "latest"),
        lambda: objects.delete("bkt", "latest"),
        lambda: objects.move("bkt", "latest", "other", ALWAYS, ALWAYS),
        lambda: objects.patch("bkt", "latest", lambda attributes: attributes),
    ):
        with pytest.raises(NoSuchObject):
            act()
    assert link.is_symlink()
    assert content(objects, "ckpt-10") == b"weights"


def test_nothing_is_made_of_a_name_that_is_refused(objects, tmp_path):
    folder = tmp_path / "buckets/bkt"
    (folder / "a").mkdir()
    (folder / "a" / "link").symlink_to(tmp_path)
    put(objects, "a/file", b"")
    for name in ("a/link/new/x", "a/link", "a/file/new/x"):
        with pytest.raises(NameRefused):
            put(objects, name, b"x")
    assert sorted(path.name for path in (folder / "a").iterdir()) == ["file", "link"]
    assert not (tmp_path / "new").exists()


def test_a_pipe_of_a_job_is_no_object_and_stops_nobody(objects, tmp_path):
    os.mkfifo(tmp_path / "buckets/bkt/pipe")
    with pytest.raises(NoSuchObject):
        objects.get("bkt", "pipe")


def test_a_bucket_on_another_file_system_is_written_whole_too(objects, tmp_path, monkeypatch):
    rename, refused = os.rename, []

    def across(source, target, **folders):
        if folders and folders["src_dir_fd"] != folders["dst_dir_fd"]:
            refused.append(source)
            raise OSError(18, "Invalid cross-device link")
        return rename(source, target, **folders)

    monkeypatch.setattr("os.rename", across)
    put(objects, "x", b"one")
    assert refused
    assert content(objects, "x") == b"one"
    assert [path.name for path in (tmp_path / "buckets/bkt").iterdir()] == ["x"]
    assert leftovers(objects) == []


def test_a_full_disk_leaves_what_was_there(objects, monkeypatch):
    put(objects, "x", b"one")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        put(objects, "x", b"two")
    assert content(objects, "x") == b"one"
    assert leftovers(objects) == []


def test_a_bucket_goes_when_it_is_empty(objects, tmp_path):
    put(objects, "dir/x", hashlib.sha256().digest())
    with pytest.raises(BucketNotEmpty):
        objects.buckets.drop("bkt")
    objects.delete("bkt", "dir/x")
    objects.buckets.drop("bkt")
    assert objects.buckets.names() == []
    assert not (tmp_path / "objects/bkt").exists()


def test_folders_that_are_no_buckets_are_not_listed(objects, tmp_path):
    (tmp_path / "buckets/Upper").mkdir()
    (tmp_path / "buckets/file").touch()
    assert objects.buckets.names() == ["bkt"]
    assert not objects.buckets.has("..")


def test_what_is_stored_is_for_jobs_of_other_users_whatever_the_umask_is(objects, tmp_path):
    """They come to a bucket by its group, or by a mount; nobody else gets into the directory."""
    bucket = tmp_path / "buckets/bkt"
    bucket.chmod(0o2770)
    if os.geteuid() == 0:
        os.chown(bucket, -1, 4711)
    before = os.umask(0o077)
    try:
        put(objects, "a/b/c", b"bytes")
    finally:
        os.umask(before)
    paths = [bucket / name for name in ("a", "a/b", "a/b/c")]
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o2775, 0o2775, 0o664]
    assert {path.stat().st_gid for path in paths} == {bucket.stat().st_gid}


#: A note of the object as it is, with something behind it.
NOTE = b'{"name": "x", "fingerprint": FINGERPRINT, "created_ns": 1, "updated_ns": 1'


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b'{"name": "x", "finger',
        b"[" * 5000,
        b'{"name": "x"}',
        NOTE.replace(b'"x"', b'"y"') + b"}",
        NOTE + b"0" * 30 + b"}",
        NOTE + b', "metageneration": NaN}',
        NOTE + b', "attributes": {"metadata": {"k": "\\ud800"}}}',
        NOTE + b', "attributes": {"metadata": {"k": 1}}}',
    ],
)
def test_an_object_whose_note_cannot_be_read_is_there_without_it(objects, text):
    put(objects, "a")
    put(objects, "x", b"bytes", attributes=Attributes(metadata={"k": "v"}))
    note = objects.buckets.notes("bkt")._path("x")
    fingerprint = json.dumps(json.loads(note.read_bytes())["fingerprint"]).encode()
    note.write_bytes(text.replace(b"FINGERPRINT", fingerprint))
    page = list_page(objects, "bkt", ListQuery())
    assert [(item.name, item.attributes) for item in page.items] == [
        ("a", Attributes()),
        ("x", Attributes()),
    ]
    assert content(objects, "x") == b"bytes"
    patched = objects.patch("bkt", "x", lambda _: Attributes(metadata={"k": "again"}))
    assert patched.attributes.metadata == {"k": "again"}
