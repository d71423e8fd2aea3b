"""A bucket that is kept elsewhere is one like any other, and never empty because it is away."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Event

import fsspec
import pytest

from trainshed.files.acting import acting_as
from trainshed.model.faults import UsageFault
from trainshed.model.stored_objects import Conditions
from trainshed.storage.bucket_folders import BucketNotEmpty
from trainshed.storage.buckets import RemoteBucket
from trainshed.storage.object_files import ConditionFailed, NameRefused, NoSuchObject
from trainshed.storage.object_lists import ListQuery, list_page
from trainshed.storage.objects import NewObject
from trainshed.storage.remote import RemoteFailed, RemoteRefused, _generation, remotes_of
from trainshed.storage.remote_objects import ObjectsWithRemotes
from trainshed.storage.uploads import Target, compose, copy

FAR = "far"


@pytest.fixture
def far(tmp_path):
    folder = tmp_path / "elsewhere/data"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def objects(tmp_path, far):
    remotes = remotes_of({FAR: RemoteBucket(far.as_uri())})
    objects = ObjectsWithRemotes(data_dir=tmp_path / "data", remotes=remotes)
    objects.buckets.make("near")
    return objects


def put(objects, name, content=b"x", conditions=None, bucket=FAR):
    file = objects.data_dir / "part"
    file.write_bytes(content)
    new = NewObject(bucket=bucket, name=name, file=file)
    return objects.commit(new, conditions or Conditions())


def listed(objects, **query):
    page = list_page(objects, FAR, ListQuery(**query))
    return [item.name for item in page.items], list(page.prefixes)


def read(objects, name):
    _, file = objects.open(FAR, name)
    with file:
        return file.read()


def test_objects_are_stored_read_listed_and_deleted_there(objects, far):
    stored = put(objects, "a/b.txt", b"0123456789")
    assert (far / "a/b.txt").read_bytes() == b"0123456789"
    assert not (objects.data_dir / "part").exists()
    opened, file = objects.open(FAR, "a/b.txt")
    with file:
        file.seek(3)
        assert (opened.size, opened.generation) == (10, stored.generation)
        assert file.read(4) == b"3456"
    (far / "a/own.txt").write_text("of somebody else")
    put(objects, "a-b")
    assert listed(objects) == (["a-b", "a/b.txt", "a/own.txt"], [])
    assert listed(objects, delimiter="/") == (["a-b"], ["a/"])
    assert listed(objects, prefix="a/o") == (["a/own.txt"], [])
    assert listed(objects, prefix="nothing/") == ([], [])
    objects.delete(FAR, "a/b.txt")
    with pytest.raises(NoSuchObject):
        objects.get(FAR, "a/b.txt")
    assert objects.buckets.names() == [FAR, "near"]
    assert not objects.buckets.path(FAR).exists()


def test_pages_of_a_listing_fit_together(objects):
    names = sorted(f"{number % 3}/{number}" for number in range(10))
    for name in names:
        put(objects, name)
    object_names, token = [], ""
    while True:
        page = list_page(objects, FAR, ListQuery(page_size=3, page_token=token))
        object_names += [item.name for item in page.items]
        if not (token := page.next_token):
            break
    assert object_names == names


def test_copies_moves_and_compositions_go_through(objects, far):
    stored = put(objects, "one", b"1")
    put(objects, "two", b"2", bucket="near")
    _, file = objects.open("near", "two")
    copy(objects, objects.get("near", "two"), file, Target(bucket=FAR, name="two"))
    compose(
        objects, FAR, [("one", Conditions()), ("two", Conditions())], Target(bucket=FAR, name="sum")
    )
    assert read(objects, "sum") == b"12"
    objects.move(FAR, "one", "moved", Conditions(revision=stored.generation), Conditions())
    assert sorted(path.name for path in far.iterdir()) == ["moved", "sum", "two"]


def test_a_folder_that_a_program_makes_is_there_though_it_is_empty(objects, far):
    put(objects, "new/dir/", b"")
    assert listed(objects, prefix="new/dir/") == (["new/dir/"], [])
    assert objects.get(FAR, "new/dir/").size == 0
    put(objects, "new/dir/a")
    assert listed(objects) == (["new/dir/", "new/dir/a"], [])
    with pytest.raises(NameRefused, match="must have no content"):
        put(objects, "full/", b"x")
    objects.delete(FAR, "new/dir/")
    assert listed(objects) == (["new/dir/a"], [])
    assert [path.name for path in (far / "new/dir").iterdir()] == ["a"]


def test_conditions_hold_there_too(objects):
    stored = put(objects, "a", b"1", Conditions(generation=0))
    with pytest.raises(ConditionFailed):
        put(objects, "a", b"2", Conditions(generation=0))
    put(objects, "a", b"2", Conditions(generation=stored.generation))
    assert read(objects, "a") == b"2"


@pytest.mark.parametrize("name", ["../outside", "a/../../outside", "a//b", "/etc/passwd"])
def test_no_name_leads_out_of_it(objects, far, name):
    (far.parent / "outside").write_text("secret")
    with pytest.raises(NoSuchObject):
        objects.get(FAR, name)
    with pytest.raises(NameRefused):
        put(objects, name)
    assert listed(objects, prefix=f"{name.rpartition('/')[0]}/") == ([], [])


def test_it_is_neither_deleted_here_nor_are_its_objects_changed(objects):
    put(objects, "a")
    with pytest.raises(BucketNotEmpty, match="in another store"):
        objects.buckets.drop(FAR)
    with pytest.raises(RemoteRefused, match="in another store"):
        objects.patch(FAR, "a", lambda before: before)


class Broken(fsspec.AbstractFileSystem):
    """A store that answers everything with one error."""

    protocol = "broken"

    def __init__(self, *args, error, **named):
        super().__init__(*args, **named)
        self.error = error

    def _fail(self, *_args, **_named):
        raise self.error

    info = ls = cat_file = put_file = rm_file = cp_file = _fail


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (ConnectionError("no route"), RemoteFailed, "does not answer: ConnectionError: no route"),
        (TimeoutError(), RemoteFailed, "does not answer"),
        (PermissionError("no"), RemoteRefused, "refused the call"),
        (OSError("Forbidden: https://x"), RemoteRefused, "refused the call"),
    ],
)
def test_a_store_that_is_away_or_refuses_is_an_error_that_names_the_bucket(
    tmp_path, error, raised, words
):
    fsspec.register_implementation("broken", Broken, clobber=True)
    remotes = remotes_of({FAR: RemoteBucket("broken://x", {"error": error})})
    objects = ObjectsWithRemotes(data_dir=tmp_path, remotes=remotes)
    for call in (
        lambda: listed(objects),
        lambda: objects.get(FAR, "a"),
        lambda: objects.find(FAR, "a"),
        lambda: put(objects, "a"),
        lambda: objects.delete(FAR, "a"),
    ):
        with pytest.raises(raised, match=f"behind the bucket {FAR}.*{words}"):
            call()


def test_a_store_that_did_not_answer_is_not_asked_by_each_who_waits(objects, monkeypatch):
    calls = []

    def away(*args, **_named):
        calls.append(args)
        raise TimeoutError

    monkeypatch.setattr("trainshed.storage.folder_files.FolderFiles.info", away)
    now = [100.0]
    monkeypatch.setattr("trainshed.storage.remote.time.monotonic", lambda: now[0])
    for _ in range(3):
        with pytest.raises(RemoteFailed, match="does not answer"):
            objects.get(FAR, "a")
    assert len(calls) == 1
    now[0] += 60.0
    with pytest.raises(RemoteFailed):
        objects.get(FAR, "a")
    assert len(calls) == 2


def test_bytes_that_are_missing_end_a_read(objects, far):
    put(objects, "a", b"x" * 100)
    _, file = objects.open(FAR, "a")
    (far / "a").write_bytes(b"x" * 10)
    with file, pytest.raises(RemoteFailed, match="shorter"):
        file.read()


def test_a_scheme_that_nobody_knows_is_named_at_the_start():
    with pytest.raises(UsageFault, match=r"buckets\.far: cannot open nothing://x"):
        remotes_of({FAR: RemoteBucket("nothing://x")})


def test_a_generation_changes_with_the_bytes_within_a_second():
    at = datetime(2026, 1, 1, tzinfo=UTC)
    one, two = (_generation({"ETag": tag}, at) for tag in ("a", "b"))
    assert one != two
    assert _generation({"generation": "17"}, at) == 17


@pytest.fixture
def secret(tmp_path, far):
    """A file outside of the bucket, and links to it and its folder that a job has planted."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "shadow").write_text("secret")
    (far / "file").symlink_to(outside / "shadow")
    (far / "folder").symlink_to(outside)
    (far / "a").mkdir()
    (far / "a" / "up").symlink_to("../../../outside")
    return outside / "shadow"


@pytest.mark.parametrize("name", ["file", "folder/shadow", "a/up/shadow"])
def test_a_link_in_a_folder_leads_no_call_out_of_it(objects, secret, name):
    """A job read the server's token, and /etc/shadow, by the link that it had planted."""
    for call in (
        lambda: objects.get(FAR, name),
        lambda: objects.delete(FAR, name),
        lambda: objects.move(FAR, name, "mine", Conditions(), Conditions()),
    ):
        with pytest.raises(NoSuchObject):
            call()
    with pytest.raises(RemoteRefused):
        put(objects, name, b"of the job")
    assert listed(objects, prefix=name) == ([], [])
    assert listed(objects) == ([], [])
    assert secret.read_text() == "secret"
    assert [path.name for path in secret.parent.iterdir()] == ["shadow"]


def test_a_pipe_keeps_no_call_waiting(objects, far):
    os.mkfifo(far / "pipe")
    with pytest.raises(NoSuchObject):
        objects.get(FAR, "pipe")
    with pytest.raises(RemoteRefused):
        put(objects, "pipe")
    assert listed(objects) == ([], [])


def test_a_half_written_object_is_none(objects, far, monkeypatch):
    def fail(*_args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("trainshed.storage.folder_files.copy_file", fail)
    with pytest.raises(RemoteFailed, match="No space left"):
        put(objects, "a")
    assert list(far.iterdir()) == []


def test_a_folder_that_is_not_mounted_is_not_an_empty_bucket(objects, far):
    far.rmdir()
    for call in (lambda: listed(objects), lambda: put(objects, "a")):
        with pytest.raises(RemoteFailed, match="folder cannot be opened: No such file"):
            call()


@pytest.mark.parametrize(
    "bucket", [RemoteBucket("file://data"), RemoteBucket("file:///d", {"a": 1})]
)
def test_a_folder_has_an_absolute_path_and_no_options(bucket):
    with pytest.raises(UsageFault, match=r"buckets\.far"):
        remotes_of({FAR: bucket})


USER = 231_337


@pytest.fixture
def owned(tmp_path, far):
    """A bucket whose project has a user of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user: run the tests as root")
    far.chmod(0o700)
    os.chown(far, USER, USER)
    remotes = remotes_of({FAR: RemoteBucket(far.as_uri())}, lambda _: USER)
    objects = ObjectsWithRemotes(data_dir=tmp_path / "data", remotes=remotes)
    objects.buckets.make("near")
    return objects


def test_the_user_of_the_project_reaches_the_folder_and_not_the_server(owned, far):
    put(owned, "a/b", b"bytes")
    assert ((far / "a/b").stat().st_uid, (far / "a").stat().st_gid) == (USER, USER)
    (far / "of-root").write_text("secret")
    (far / "of-root").chmod(0o600)
    (far / "closed").mkdir(mode=0o700)
    _, file = owned.open(FAR, "a/b")
    with file:
        assert file.read() == b"bytes"
    _, file = owned.open(FAR, "of-root")
    with (
        file,
        pytest.raises(RemoteRefused, match=f"user {USER}, the system user of the bucket's project"),
    ):
        file.read()
    with pytest.raises(RemoteRefused):
        put(owned, "closed/a")
    (far / "of-root").chmod(0o640)
    os.chown(far / "of-root", 0, 0)
    _, file = owned.open(FAR, "of-root")
    with file, pytest.raises(RemoteRefused):
        file.read()


def test_the_server_is_itself_again_after_each_call(owned, far, tmp_path):
    groups = os.getgroups()
    with pytest.raises(NoSuchObject):
        owned.get(FAR, "nothing")
    (tmp_path / "made").touch()
    assert (tmp_path / "made").stat().st_uid == 0
    far.chmod(0)
    assert list(far.iterdir()) == []
    assert os.getgroups() == groups


def test_one_thread_acts_as_a_user_and_the_others_do_not(owned, tmp_path):
    assert owned is not None
    entered, go = Event(), Event()

    def act():
        with acting_as(USER):
            entered.set()
            go.wait(60)

    with ThreadPoolExecutor(1) as pool:
        acting = pool.submit(act)
        assert entered.wait(60)
        (tmp_path / "made").touch()
        go.set()
        acting.result()
    assert (tmp_path / "made").stat().st_uid == 0
