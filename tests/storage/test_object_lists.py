import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.files.beneath import Beneath
from trainshed.storage.object_files import NameRefused
from trainshed.storage.object_lists import BadPageToken, ListQuery, list_page
from trainshed.storage.objects import NewObject, Objects
from trainshed.storage.uploads import part


@pytest.fixture
def objects(tmp_path):
    objects = Objects(data_dir=tmp_path)
    objects.buckets.make("bkt")
    return objects


def put(objects, *names):
    for name in names:
        with part(objects.data_dir) as (path, _):
            objects.commit(NewObject(bucket="bkt", name=name, file=path))


def listed(objects, **query):
    """All pages: (names, prefixes)."""
    names, prefixes, token = [], [], ""
    while True:
        page = list_page(objects, "bkt", ListQuery(page_token=token, **query))
        names += [item.name for item in page.items]
        prefixes += page.prefixes
        token = page.next_token
        if not token:
            return names, prefixes


def by_bytes(names):
    return sorted(names, key=str.encode)


def expected(names, *, prefix="", delimiter="", start="", end=""):
    """The rules of the API, said slowly."""
    items, groups = [], []
    for name in by_bytes(names):
        in_order = name.encode() >= start.encode() and not (end and name.encode() >= end.encode())
        if not (in_order and name.startswith(prefix)):
            continue
        at = name.find(delimiter, len(prefix)) if delimiter else -1
        group = name[: at + len(delimiter)]
        if at < 0:
            items.append(name)
        elif group not in groups:
            groups.append(group)
    return items, groups


SOME = ["a", "b/c", "b/d/e", "b-c", "b0", "é/ü", "z/"]


def test_names_come_in_the_order_of_their_bytes(objects):
    put(objects, *SOME)
    assert listed(objects) == (["a", "b-c", "b/c", "b/d/e", "b0", "z/", "é/ü"], [])


def test_a_delimiter_makes_folders(objects):
    put(objects, *SOME)
    assert listed(objects, delimiter="/") == (["a", "b-c", "b0"], ["b/", "z/", "é/"])
    assert listed(objects, delimiter="/", prefix="b/") == (["b/c"], ["b/d/"])
    assert listed(objects, delimiter="/", prefix="z/") == (["z/"], [])
    assert listed(objects, delimiter="-") == (["a", "b/c", "b/d/e", "b0", "z/", "é/ü"], ["b-"])


def test_what_jobs_leave_behind_is_listed_if_it_can_be_read(objects, tmp_path):
    folder = tmp_path / "buckets/bkt"
    (folder / "empty/deep").mkdir(parents=True)
    (folder / "made").write_text("by a job")
    (folder / "link").symlink_to("made")
    (folder / "away").symlink_to(tmp_path)
    (folder / ".trainshed-half").touch()
    os.mkfifo(folder / "pipe")
    with open(os.fsencode(folder) + b"/\xff", "wb"):  # noqa: PTH123 -- a name in bytes
        pass
    assert listed(objects) == (["made"], [])
    assert listed(objects, delimiter="/") == (["made"], [])


def test_a_file_that_only_its_owner_may_read_spoils_no_list(objects, monkeypatch):
    put(objects, "a", "closed", "z")
    plain = Beneath.read

    def guarded(self, name):
        if name == "closed":
            raise PermissionError(13, "Permission denied")
        return plain(self, name)

    monkeypatch.setattr(Beneath, "read", guarded)
    assert listed(objects) == (["a", "z"], [])


def test_a_list_never_makes_anybody_wait_for_a_checksum(objects, tmp_path):
    (tmp_path / "buckets/bkt/made").write_text("by a job")
    page = list_page(objects, "bkt", ListQuery())
    assert page.items[0].checksums.crc32c == ""


def make_file(objects, name):
    """Make a file as a job would, or a placeholder as clients do; False where it is in the way."""
    path = objects.buckets.path("bkt") / name
    try:
        if name.endswith("/"):
            put(objects, name)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(exist_ok=False)
    except (NameRefused, OSError):
        return False
    return True


PARTS = st.sampled_from(["a", "b", "a-", "a0", "é", "\U0001f600", "\uffff"])
names = st.lists(
    st.lists(PARTS, min_size=1, max_size=3)
    .map("/".join)
    .flatmap(lambda name: st.sampled_from([name, f"{name}/"])),
    max_size=8,
    unique=True,
)  # fmt: skip
bounds = st.sampled_from(["", "a", "a/", "a/b", "a-", "b", "é", "\uffff"])


queries = st.fixed_dictionaries(
    {
        "prefix": bounds,
        "delimiter": st.sampled_from(["", "/", "a", "b/"]),
        "start": bounds,
        "end": bounds,
    }
)


@given(names, queries, st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_pages_of_any_size_hold_what_the_rules_say(tmp_path_factory, names, query, size):
    objects = Objects(data_dir=tmp_path_factory.mktemp("data"))
    objects.buckets.make("bkt")
    there = [name for name in names if make_file(objects, name)]
    assert listed(objects, page_size=size, **query) == expected(there, **query)


def test_a_page_goes_on_behind_what_was_deleted_or_added_meanwhile(objects):
    put(objects, "a", "b", "c", "d")
    first = list_page(objects, "bkt", ListQuery(page_size=2))
    objects.delete("bkt", "b")
    put(objects, "aa", "bb")
    second = list_page(objects, "bkt", ListQuery(page_token=first.next_token))
    assert [item.name for item in second.items] == ["bb", "c", "d"]


@pytest.mark.parametrize("token", ["é", "x", "%%%", "YQ==="])
def test_a_page_token_that_no_page_gave_is_refused(objects, token):
    with pytest.raises(BadPageToken, match="pageToken"):
        list_page(objects, "bkt", ListQuery(page_token=token))


def test_a_list_that_nobody_waits_for_stops(objects):
    for name in "abc":
        put(objects, name)
    calls = []

    def go_on():
        calls.append(1)
        if len(calls) == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        list_page(objects, "bkt", ListQuery(), go_on)
    assert len(calls) == 2
