"""A replica resolves the others' names and sees buckets as folders; the machine sees neither."""

import os
import socket
import sys
from pathlib import Path

import pytest

from trainshed.engines.isolation import mounts
from trainshed.engines.isolation.mounts import GCS, allowed, private_mounts, write_hosts

NAME = "cmle-training-workerpool0-0123456789-0"

may_mount = pytest.mark.skipif(not allowed(), reason="no right to mount: run the tests as root")


def inside(enter, code, tmp_path):
    """What a program writes that runs in the mounts, and its exit code."""
    output = tmp_path / "output"
    pid = os.fork()
    if pid == 0:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        enter()
        os.execv(sys.executable, [sys.executable, "-c", code])  # noqa: S606 - as a replica is started
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return output.read_text(), status


def mounted():
    """What of ours the machine sees; others may mount something meanwhile."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if line.split()[4].startswith((GCS, "/etc/hosts"))]


@pytest.fixture
def hosts(tmp_path):
    path = tmp_path / "hosts"
    write_hosts(str(path), [("127.0.0.1", NAME), ("127.0.0.2", "other")])
    return str(path)


@may_mount
def test_names_of_replicas_resolve_inside_and_not_outside(hosts, tmp_path):
    before = mounted()
    code = (
        "import socket, subprocess, sys\n"
        f"sys.stdout.write(socket.gethostbyname({NAME!r}) + ' ' + socket.gethostbyname('other'))\n"
        "sys.stdout.write(' ' + socket.gethostbyname('localhost') + ' ')\n"
        "sys.stdout.flush()\n"
        f"subprocess.run(['getent', 'hosts', {NAME!r}], check=True)"
    )
    output, status = inside(private_mounts(hosts, ()), code, tmp_path)
    assert status == 0, output
    assert output.split() == ["127.0.0.1", "127.0.0.2", "127.0.0.1", "127.0.0.1", NAME]
    with pytest.raises(socket.gaierror):
        socket.gethostbyname(NAME)
    assert mounted() == before


@may_mount
def test_what_is_written_to_a_bucket_is_in_its_folder(hosts, tmp_path):
    before = mounted()
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    (folders[1] / "data").write_text("here")
    code = (
        "import os\n"
        f"open('{GCS}/a-bucket/model', 'w').write('weights')\n"
        f"assert open('{GCS}/other/data').read() == 'here'\n"
        f"assert sorted(os.listdir('{GCS}')) == ['a-bucket', 'other']\n"
    )
    binds = [(str(folders[0]), f"{GCS}/a-bucket"), (str(folders[1]), f"{GCS}/other")]
    assert inside(private_mounts(hosts, binds), code, tmp_path) == ("", 0)
    assert (folders[0] / "model").read_text() == "weights"
    assert mounted() == before
    assert not Path(GCS, "a-bucket").exists()


@may_mount
def test_a_bucket_that_does_not_exist_cannot_be_written_to(tmp_path):
    code = (
        "import errno, os\n"
        "try:\n"
        f"    os.mkdir('{GCS}/misspelt')\n"
        "except OSError as error:\n"
        "    assert error.errno == errno.EROFS\n"
        "else:\n"
        "    raise SystemExit(1)"
    )
    enter = private_mounts(None, [(str(tmp_path), f"{GCS}/a-bucket")])
    assert inside(enter, code, tmp_path) == ("", 0)


@may_mount
def test_what_cannot_be_mounted_is_said_and_the_rest_is_there(hosts, tmp_path):
    binds = [(str(tmp_path / "gone"), f"{GCS}/gone"), (str(tmp_path), f"{GCS}/here")]
    code = f"import socket, os\nsocket.gethostbyname({NAME!r}); os.stat('{GCS}/here/hosts')"
    output, status = inside(private_mounts(hosts, binds), code, tmp_path)
    assert status == 0, output
    assert output == f"trainshed: a mount on {GCS}/gone failed: No such file or directory\n"


@may_mount
def test_a_place_outside_of_the_buckets_is_what_it_resolves_to(tmp_path):
    """A name with dots in it does not make folders on the machine."""
    enter = private_mounts(None, [(str(tmp_path), f"{GCS}/../no-such-folder")])
    output, status = inside(enter, "", tmp_path)
    assert status == 0
    assert output == "trainshed: a mount on /no-such-folder failed: No such file or directory\n"
    assert not Path("/no-such-folder").exists()


def test_nothing_to_mount_and_no_right_to_are_nothing_to_do(hosts, monkeypatch):
    assert private_mounts(None, ()) is None
    monkeypatch.setattr(mounts, "allowed", lambda: False)
    assert private_mounts(hosts, ()) is None


def test_a_hosts_file_has_the_machine_s_own_names_first(hosts):
    lines = Path(hosts).read_text().splitlines()
    own = Path("/etc/hosts").read_text().rstrip("\n").splitlines()
    assert lines[: len(own)] == own
    assert lines[-2:] == [f"127.0.0.1 {NAME}", "127.0.0.2 other"]


def test_a_name_of_the_machine_s_own_leads_to_the_address_that_is_given_for_it(
    tmp_path, monkeypatch
):
    machine = tmp_path / "machine"
    machine.write_text("127.0.0.1 localhost\n127.0.1.1 box.lan box # own\n10.0.0.9 db  # kept\n")
    monkeypatch.setattr(mounts, "HOSTS", str(machine))
    write_hosts(str(tmp_path / "hosts"), [("198.18.0.17", "box"), ("198.18.0.17", "worker-0")])
    assert (tmp_path / "hosts").read_text().splitlines() == [
        "127.0.0.1 localhost",
        "127.0.1.1 box.lan",
        "10.0.0.9 db  # kept",
        "# the replicas of this job",
        "198.18.0.17 box",
        "198.18.0.17 worker-0",
    ]
