"""``trainshed backup`` and ``restore`` say what they did not copy, in lines and in JSON."""

import os

import pytest

from trainshed.store.opening import open_store

LEFT_OUT = "pipes, sockets and devices that were left out: 1, the first is buckets/bkt/pipe"


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    (folder / "buckets" / "bkt").mkdir(parents=True)
    (folder / "buckets" / "bkt" / "object").write_text("text")
    open_store(f"sqlite:///{folder}/trainshed.db").close()
    return folder


def test_a_backup_prints_a_line_for_what_it_left_out(trainshed, data, tmp_path):
    os.mkfifo(data / "buckets" / "bkt" / "pipe")
    run = trainshed("backup", tmp_path / "one", "--data-dir", data)
    assert run.code == 0
    assert run.out.splitlines()[1] == LEFT_OUT
    run = trainshed("backup", tmp_path / "two", "--data-dir", data, "--format", "json")
    assert run.json["remarks"] == [LEFT_OUT]


def test_a_restore_prints_a_line_for_what_a_link_has_kept_from_it(trainshed, data, tmp_path):
    assert trainshed("backup", tmp_path / "one", "--data-dir", data).code == 0
    name = "\x1b[31m"
    (data / "buckets" / "bkt" / "object").unlink()
    (data / "buckets" / "bkt" / "object").symlink_to(tmp_path / name)
    run = trainshed("restore", tmp_path / "one", "--data-dir", data)
    assert run.code == 0
    assert (
        "names that were left out because a link or something else has their place: 1, the first "
        "is buckets/bkt/object" in run.out.splitlines()
    )
    assert not (tmp_path / name).exists()


def test_names_of_strangers_are_shown_in_one_line_and_obeyed_by_no_terminal(
    trainshed, data, tmp_path
):
    os.mkfifo(data / "buckets" / "bkt" / "a\n\x1b[31mb")
    run = trainshed("backup", tmp_path / "one", "--data-dir", data)
    assert run.out.splitlines()[1].endswith(r"the first is buckets/bkt/a\n\x1b[31mb")
