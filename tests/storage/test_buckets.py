from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.faults import UsageFault
from trainshed.storage.buckets import (
    Buckets,
    buckets_of,
    cache_dir,
    data_dir,
    is_bucket_name,
    split,
)

BUCKETS = Buckets(root=Path("/data/buckets"))


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("gs://my-bucket", "/data/buckets/my-bucket"),
        ("gs://my-bucket/", "/data/buckets/my-bucket"),
        ("gs://my-bucket/a/b.txt", "/data/buckets/my-bucket/a/b.txt"),
        ("gs://my.dotted.bucket//a//b/", "/data/buckets/my.dotted.bucket/a/b"),
    ],
)
def test_an_object_lies_in_the_folder_of_its_bucket(uri, path):
    assert BUCKETS.path_of(uri) == Path(path)


@pytest.mark.parametrize(
    "name",
    ["", "Upper", "under_", "-dash", "a..b", "192.168.1.1", "goog-data", "a" * 64, "a b"],
)
def test_a_name_that_cloud_storage_refuses_is_no_bucket(name):
    assert not is_bucket_name(name)
    with pytest.raises(UsageFault, match="not a bucket name"):
        BUCKETS.path_of(f"gs://{name}/x")


@pytest.mark.parametrize("name", ["abc", "a" * 63, "my_bucket-1", "0ab", "a.b-c.d"])
def test_a_name_that_cloud_storage_takes_is_a_bucket(name):
    assert is_bucket_name(name)


@pytest.mark.parametrize("uri", ["gs://abc/../x", "gs://abc/a/./b", "gs://abc/a/..", "gs://abc/\0"])
def test_a_path_cannot_climb_out_of_its_bucket(uri):
    with pytest.raises(UsageFault, match=r"no '\.' or '\.\.'"):
        BUCKETS.path_of(uri)


@given(st.text())
def test_every_uri_lies_below_its_bucket_or_is_refused(name):
    try:
        path = BUCKETS.path_of(f"gs://bucket/{name}")
    except UsageFault:
        return
    assert path.is_relative_to(BUCKETS.root / "bucket")
    assert ".." not in path.parts


def test_what_is_no_gs_uri_cannot_be_split():
    with pytest.raises(UsageFault, match="not a gs:// URI"):
        split("s3://abc/x")


def test_the_data_folder_is_the_flag_then_the_variable_then_the_users():
    given_by = {"TRAINSHED_DATA_DIR": "/env", "XDG_DATA_HOME": "/xdg"}
    assert data_dir("/flag", given_by) == Path("/flag")
    assert data_dir(None, given_by) == Path("/env")
    assert data_dir(None, {"XDG_DATA_HOME": "/xdg"}) == Path("/xdg/trainshed")
    assert data_dir(None, {}) == Path("~/.local/share/trainshed").expanduser()
    assert buckets_of(Path("/flag")).root == Path("/flag/buckets")


def test_the_cache_may_be_put_elsewhere():
    assert cache_dir({"TRAINSHED_CACHE_DIR": "/cache"}) == Path("/cache/environments")
    assert cache_dir({}) is None
