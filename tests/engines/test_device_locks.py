"""One lock for a device on the whole machine, that every user can take and none can misdirect."""

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from trainshed.engines.local.devices import locks as device_locks
from trainshed.engines.local.devices.locks import DeviceHolder
from trainshed.model.faults import EngineFault

NOBODY = 65534
ME = DeviceHolder(pid=12, what="attempt 7/1", root="/data/jobs")


@pytest.fixture
def narrow_umask():
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "locks"
    device_locks.prepare(path)
    return path


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Stands for /run/lock; the temporary directory is another one."""
    path = tmp_path / "system"
    path.mkdir()
    monkeypatch.setattr(device_locks, "_SYSTEM", path)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    return path


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("narrow_umask")
def test_every_user_can_use_what_the_first_one_has_made(tmp_path):
    path = tmp_path / "locks"
    device_locks.prepare(path)
    with closing(device_locks.try_lock(path, "GPU-1", ME)):
        assert mode(path) == 0o1777
        assert mode(path / "GPU-1.lock") == 0o666


def test_a_locked_device_is_not_locked_again_until_it_is_given_back(directory):
    first = device_locks.try_lock(directory, "GPU-1", ME)
    assert device_locks.try_lock(directory, "GPU-1", ME) is None
    first.close()
    second = device_locks.try_lock(directory, "GPU-1", ME)
    assert second is not None
    second.close()


@pytest.fixture
def open_to_all():
    """A lock directory that other users can reach, as they cannot reach pytest's own."""
    path = Path(tempfile.mkdtemp())
    device_locks.prepare(path)
    yield path
    shutil.rmtree(path)


def locks_as_nobody(directory, *uuids):
    """Which of these devices another user can lock, asked in a process of that user."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            files = [device_locks.try_lock(directory, uuid, ME) for uuid in uuids]
            os.write(writer, b"".join(b"n" if file is None else b"y" for file in files))
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with os.fdopen(reader, "rb") as answers:
        return answers.read()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become two users: run as root")
def test_two_users_exclude_each_other_whoever_made_the_lock_file(open_to_all):
    """Also where fs.protected_regular is set: what is there is opened without O_CREAT."""
    device_locks.try_lock(open_to_all, "free", ME).close()
    with closing(device_locks.try_lock(open_to_all, "held", ME)):
        assert locks_as_nobody(open_to_all, "free", "held", "theirs") == b"yny"
    with closing(device_locks.try_lock(open_to_all, "theirs", ME)):
        assert locks_as_nobody(open_to_all, "theirs", "held") == b"ny"


def test_the_directory_is_the_same_for_every_session_of_every_user(system, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    assert device_locks.shared_directory({}) == system / "trainshed-gpus"


def test_where_the_system_s_directory_is_closed_to_us_the_temporary_one_is_used(
    system, tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert device_locks.shared_directory({}) == tmp_path / "trainshed-gpus"
    (system / "trainshed-gpus").mkdir()  # by somebody who may
    assert device_locks.shared_directory({}) == system / "trainshed-gpus"


@pytest.mark.usefixtures("system")
def test_a_variable_says_where_instead(tmp_path):
    env = {"TRAINSHED_LOCK_DIR": str(tmp_path / "given")}
    assert device_locks.shared_directory(env) == tmp_path / "given"


def test_a_directory_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "locks").symlink_to("elsewhere")
    with pytest.raises(EngineFault, match="locks must not be a link"):
        device_locks.prepare(tmp_path / "locks")


def test_a_file_in_its_place_is_refused(tmp_path):
    (tmp_path / "locks").touch()
    with pytest.raises(EngineFault, match="locks is not a directory"):
        device_locks.prepare(tmp_path / "locks")


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EngineFault, match=r"cannot lock a GPU: .*file/locks: Not a directory"):
        device_locks.prepare(tmp_path / "file" / "locks")


def test_a_lock_file_that_is_a_link_is_refused_and_nothing_is_made_behind_it(directory, tmp_path):
    (directory / "GPU-1.lock").symlink_to(tmp_path / "target")
    with pytest.raises(EngineFault, match=r"cannot lock a GPU: .*GPU-1\.lock"):
        device_locks.try_lock(directory, "GPU-1", ME)
    assert not (tmp_path / "target").exists()


def test_a_fifo_in_place_of_a_lock_file_is_refused_and_does_not_make_us_wait(directory):
    os.mkfifo(directory / "GPU-1.lock")
    with pytest.raises(EngineFault, match=r"GPU-1\.lock must be a regular file"):
        device_locks.try_lock(directory, "GPU-1", ME)


def test_a_replica_does_not_inherit_the_lock(directory):
    with closing(device_locks.try_lock(directory, "GPU-1", ME)) as file:
        code = f"import os; os.fstat({file.fileno()})"
        answer = subprocess.run(
            [sys.executable, "-c", code], close_fds=False, capture_output=True, check=False
        )
        assert b"Bad file descriptor" in answer.stderr


def test_a_look_says_who_holds_a_device_and_does_not_hold_it(directory):
    assert device_locks.holder_of(directory, "GPU-1") is None
    assert not list(directory.iterdir())
    with closing(device_locks.try_lock(directory, "GPU-1", ME)):
        assert device_locks.holder_of(directory, "GPU-1") == ME
        assert device_locks.holder_of(directory, "GPU-2") is None
    assert device_locks.holder_of(directory, "GPU-1") is None
    with closing(device_locks.try_lock(directory, "GPU-1", DeviceHolder(pid=3, what="a"))):
        assert str(device_locks.holder_of(directory, "GPU-1")) == "process 3 (a)"


@pytest.mark.parametrize("text", [b"", b"x", b"[1]", b'{"pid": "x"}', b"\xff" * 9000])
def test_a_lock_whose_text_somebody_has_spoilt_holds_all_the_same(directory, text):
    with closing(device_locks.try_lock(directory, "GPU-1", ME)):
        (directory / "GPU-1.lock").write_bytes(text)
        assert str(device_locks.holder_of(directory, "GPU-1")) == "another job"
        assert device_locks.try_lock(directory, "GPU-1", ME) is None


def test_a_holder_s_name_brings_nothing_but_text_into_a_log(directory):
    with closing(
        device_locks.try_lock(directory, "GPU-1", DeviceHolder(pid=1, what="a\n\x1b[2Jb"))
    ):
        assert str(device_locks.holder_of(directory, "GPU-1")) == "process 1 (a[2Jb)"


def test_a_lock_that_was_handed_on_outlives_the_process_that_took_it(directory):
    """As the preparer hands it to the supervisor, which is no child of it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid = os.fork()
        if not pid:
            file = device_locks.try_lock(directory, "GPU-1", ME)
            socket.send_fds(theirs, [b"x"], [file.fileno()])
            os._exit(0)
        _, (handed,), _, _ = socket.recv_fds(ours, 1, 1, socket.MSG_CMSG_CLOEXEC)
        os.waitpid(pid, 0)
    assert device_locks.try_lock(directory, "GPU-1", ME) is None
    os.close(handed)
    with closing(device_locks.try_lock(directory, "GPU-1", ME)) as file:
        assert file is not None


def test_the_name_of_an_old_driver_s_instance_is_a_file_name_all_the_same(directory):
    with closing(device_locks.try_lock(directory, "MIG-GPU-1/7/0", ME)):
        assert device_locks.holder_of(directory, "MIG-GPU-1/7/0") == ME


def test_another_name_of_a_file_of_ours_is_no_lock_and_keeps_its_bytes(directory, tmp_path):
    """Kernels without fs.protected_hardlinks let every user make one."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    (directory / "GPU-1.lock").hardlink_to(secret)
    with pytest.raises(EngineFault, match=r"GPU-1\.lock must have one name, got 2; remove it"):
        device_locks.try_lock(directory, "GPU-1", ME)
    assert (secret.read_text(), secret.stat().st_mode & 0o777) == ("secret", 0o600)
