"""The shared folder: who may enter it, and what is stored in it for nodes."""

import os
import stat
from pathlib import Path

import pytest

from trainshed.engines import node_files, spool
from trainshed.engines.spool import PASSABLE, PRIVATE, Spool
from trainshed.model.attempt import AttemptKey
from trainshed.model.faults import EngineFault, UsageFault

KEY = AttemptKey(7, 2)
ABOVE = ("here", "here/jobs", "here/lib", "here/jobs/7")
FILES = {"ld.so": b"loader", "lib/libc.so": b"library", "bin/python3": b"python"}


def opened(root, mode=PASSABLE):
    result = Spool(str(root), "/nodes", "here", mode=mode)
    result.open()
    return result


def modes(root, names=ABOVE):
    return {name: stat.S_IMODE(Path(root, name).stat().st_mode) for name in names}


@pytest.fixture
def umask():
    """A umask that takes all rights from others."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_a_kubelet_passes_the_folders_above_an_attempt_and_enters_no_attempt(tmp_path):
    folder = opened(tmp_path).make(KEY)
    assert set(modes(tmp_path).values()) == {PASSABLE}
    assert stat.S_IMODE(Path(folder.path).stat().st_mode) == PRIVATE


def test_folders_are_private_unless_an_engine_wants_others_to_pass(tmp_path):
    opened(tmp_path, PRIVATE).make(KEY)
    assert set(modes(tmp_path).values()) == {PRIVATE}


def test_folders_of_an_earlier_server_get_the_new_mode(tmp_path):
    opened(tmp_path, PRIVATE).make(KEY)
    again = opened(tmp_path)
    assert set(modes(tmp_path, ABOVE[:3]).values()) == {PASSABLE}
    again.make(KEY)
    assert set(modes(tmp_path).values()) == {PASSABLE}


def test_an_engine_with_private_folders_takes_no_rights_from_another_engine(tmp_path):
    opened(tmp_path)
    opened(tmp_path, PRIVATE)
    assert set(modes(tmp_path, ABOVE[:3]).values()) == {PASSABLE}


@pytest.mark.usefixtures("umask")
def test_an_order_before_the_start_does_not_keep_a_kubelet_out(tmp_path):
    shared = opened(tmp_path)
    shared.folder(KEY).make()
    shared.make(KEY)
    assert modes(tmp_path)["here/jobs/7"] == PASSABLE


def test_the_mode_of_what_a_link_leads_to_is_not_changed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    shared = opened(tmp_path)
    Path(shared.jobs, "7").symlink_to(outside)
    with pytest.raises(EngineFault, match="is a link"):
        shared.make(KEY)
    assert stat.S_IMODE(outside.stat().st_mode) == PRIVATE


def test_a_missing_folder_is_named_with_the_setting(tmp_path):
    with pytest.raises(UsageFault, match=r"spool .*none must be a folder .* `spool`"):
        opened(tmp_path / "none")


def test_a_mount_names_a_folder_relative_to_the_shared_folder(tmp_path):
    shared = opened(tmp_path)
    assert shared.to_sub_path(shared.folder(KEY).path) == "here/jobs/7/2"
    assert shared.to_sub_path(shared.library) == "here/lib"
    with pytest.raises(AssertionError, match="not below"):
        shared.to_sub_path("/elsewhere")


@pytest.mark.usefixtures("umask")
def test_a_file_for_nodes_has_its_mode_with_any_umask(tmp_path):
    shared = opened(tmp_path)
    assert shared.keep("a.pyz", b"archive", 0o644) == "/nodes/here/lib/a.pyz"
    path = Path(shared.library, "a.pyz")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"archive", 0o644)


def test_a_stored_file_gets_rights_and_stays_the_same_file(tmp_path):
    shared = opened(tmp_path)
    shared.keep("a.pyz", b"archive", 0o600)
    path = Path(shared.library, "a.pyz")
    inode = path.stat().st_ino
    shared.keep("a.pyz", b"archive", 0o644)
    assert (path.stat().st_ino, stat.S_IMODE(path.stat().st_mode)) == (inode, 0o644)


def names_of(path):
    return [entry.name for entry in Path(path).iterdir()]


def content(path):
    return {
        file.relative_to(path).as_posix(): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file()
    }


@pytest.mark.usefixtures("umask")
def test_a_folder_for_nodes_is_for_all_users_with_any_umask(tmp_path):
    shared = opened(tmp_path)
    assert shared.keep_folder("runtime-1", FILES) == "/nodes/here/lib/runtime-1"
    path = Path(shared.library, "runtime-1")
    assert content(path) == FILES
    assert {stat.S_IMODE(each_path.stat().st_mode) for each_path in (path, *path.rglob("*"))} == {
        0o755
    }


def test_a_stored_folder_is_left_alone(tmp_path):
    shared = opened(tmp_path)
    shared.keep_folder("runtime-1", FILES)
    inode = Path(shared.library, "runtime-1/ld.so").stat().st_ino
    shared.keep_folder("runtime-1", FILES)
    assert Path(shared.library, "runtime-1/ld.so").stat().st_ino == inode
    assert names_of(shared.library) == ["runtime-1"]


def truncate(path):
    (path / "ld.so").write_bytes(b"load")


def extend(path):
    (path / "ld.so").write_bytes(b"loader and more")


def drop(path):
    (path / "bin/python3").unlink()


def link(path):
    (path / "ld.so").rename(path / "other")
    (path / "ld.so").symlink_to("other")


def link_whole(path):
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


def become_file(path):
    path.rename(path.with_name("moved"))
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [truncate, extend, drop, link, link_whole, become_file])
def test_a_damaged_folder_is_replaced(tmp_path, damage):
    shared = opened(tmp_path)
    shared.keep_folder("runtime-1", FILES)
    path = Path(shared.library, "runtime-1")
    damage(path)
    shared.keep_folder("runtime-1", FILES)
    assert content(path) == FILES
    assert not any(entry.is_symlink() for entry in (path, *path.rglob("*")))
    assert set(names_of(shared.library)) <= {"runtime-1", "moved"}


def test_a_server_that_is_killed_meanwhile_leaves_no_half_folder(tmp_path, monkeypatch):
    shared = opened(tmp_path)

    def fail(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(node_files.os, "rename", fail)
        with pytest.raises(KeyboardInterrupt):
            shared.keep_folder("runtime-1", FILES)
    assert not Path(shared.library, "runtime-1").exists()
    shared.keep_folder("runtime-1", FILES)
    assert content(Path(shared.library, "runtime-1")) == FILES


def test_two_servers_may_store_one_folder_at_once(tmp_path, monkeypatch):
    shared = opened(tmp_path)
    rename = os.rename

    def rename_second(draft, path):
        monkeypatch.setattr(node_files.os, "rename", rename)
        shared.keep_folder("runtime-1", FILES)  # the other server is faster
        rename(draft, path)

    monkeypatch.setattr(node_files.os, "rename", rename_second)
    shared.keep_folder("runtime-1", FILES)
    assert content(Path(shared.library, "runtime-1")) == FILES
    assert names_of(shared.library) == ["runtime-1"]


def test_a_claim_is_read_with_a_bound_and_a_link_is_no_claim(tmp_path):
    folder = opened(tmp_path).make(KEY)
    claim = Path(folder.path, "claim")
    assert (spool.read_claim(folder), spool.is_claimed(folder)) == (b"", False)
    claim.write_text("c5c3 and more")
    assert (spool.read_claim(folder, 4), spool.is_claimed(folder)) == (b"c5c3", True)
    claim.rename(f"{claim}-other")
    claim.symlink_to("claim-other")
    assert (spool.read_claim(folder), spool.take_claim(folder)) == (b"", False)
