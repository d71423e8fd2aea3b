"""slirp4netns, the way out of a job's network, that does not start, hangs, or ends for good.

Another program lies in its place, in a mount namespace of the test.
"""

import ctypes
import os
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from engines.attempts import KEY, ended, lines, order, supervisor, texts, until
from engines.networks import launch_in_network, skip_without_networks
from engines.support import FOREVER, marked_processes, wait_until
from trainshed.engines.isolation.modes import USERS
from trainshed.engines.network.way_out import PROGRAM, find_program
from trainshed.engines.processes import tree
from trainshed.model.attempt import Phase

_NEW_MOUNTS, _BIND, _PRIVATE, _RECURSIVE = 0x0002_0000, 4096, 1 << 18, 16384
_SHARED = 1 << 20

DIES = "#!/bin/sh\necho 'slirp4netns: no room for another link' >&2\nexit 1\n"
HANGS = "#!/bin/sh\nexec sleep 600\n"
WHAT_TO_DO = 'set [isolation] network = "host"'


@pytest.fixture
def way_out(tmp_path):
    """Puts a script in the place of slirp4netns, for this thread and all that it starts."""
    skip_without_networks(USERS)
    program = find_program()
    libc = ctypes.CDLL(None, use_errno=True)
    folder = Path.cwd()

    def replace(script, mode=0o755):
        path = tmp_path / f"way-out-{os.urandom(4).hex()}"
        path.write_text(script)
        path.chmod(mode)
        check(libc.mount(os.fsencode(path), os.fsencode(program), None, _BIND, None))

    with own_mounts(libc):
        yield replace
    os.chdir(folder)


@contextmanager
def own_mounts(libc):
    with Path("/proc/thread-self/ns/mnt").open("rb") as before:
        check(libc.unshare(_NEW_MOUNTS))
        try:
            check(libc.mount(None, b"/", None, _PRIVATE | _RECURSIVE, None))
            yield
        finally:
            check(libc.setns(before.fileno(), _NEW_MOUNTS))


def check(status):
    if status != 0:
        pytest.skip(f"no mounts of one's own: {os.strerror(ctypes.get_errno())}")


@pytest.fixture(
    params=[
        pytest.param((DIES, 0o755, "slirp4netns: no room for another link"), id="dies"),
        pytest.param((DIES, 0o644, "slirp4netns is not installed"), id="is not there"),
        pytest.param(
            (HANGS, 0o755, "slirp4netns: no network connection within 10 s"),
            id="hangs",
            marks=pytest.mark.full,
        ),
    ]
)
def trouble(request, way_out):
    """Replaces slirp4netns when it is called; what the job's log and story say then."""
    script, mode, why = request.param

    def begin():
        way_out(script, mode)
        return why

    return begin


def test_an_attempt_whose_way_out_does_not_start_is_lost_with_what_to_do(trouble, root, mark):
    why = trouble()
    engine = launch_in_network(root, mark, FOREVER)
    lost = until(engine, Phase.LOST)
    assert f"cannot make the network of the job: {why}" in lost.fault
    assert WHAT_TO_DO in lost.fault
    assert not texts(root), "no program of the job was started"
    assert not marked_processes(mark)


def test_a_way_out_that_cannot_be_started_again_is_told_once_and_the_job_goes_on(
    trouble, root, mark
):
    """Most jobs exchange nothing with other machines."""
    engine = launch_in_network(root, mark, FOREVER)
    until(engine, Phase.READY)
    why = trouble()
    os.kill(way_out_of(root), signal.SIGKILL)
    wait_until(lambda: any(why in text for text in warnings(root)), "the log says so")
    engine.stop(KEY, order(0.0))
    assert ended(engine).outcome.interrupted
    killed, *rest = warnings(root)
    assert "slirp4netns was ended by signal 9" in killed
    assert len(rest) == 1
    assert not marked_processes(mark)


def test_no_mount_of_the_machine_goes_with_a_job(root, mark, tmp_path):
    """As those in ``/run/netns``, a shared mount, do not, in which podman keeps its networks."""
    skip_without_networks(USERS)
    shared = tmp_path / "shared"
    libc = ctypes.CDLL(None, use_errno=True)
    folder = Path.cwd()
    with own_mounts(libc):
        mount_tmpfs(libc, shared)
        check(libc.mount(None, os.fsencode(shared), None, _SHARED, None))
        mount_tmpfs(libc, shared / "inner")
        engine = launch_in_network(root, mark, FOREVER)
        until(engine, Phase.READY)
        wait_until(lambda: has_left_mounts(way_out_of(root)), "slirp4netns is in its sandbox")
        assert (shared / "inner").is_mount()
        engine.stop(KEY, order(0.0))
        ended(engine)
    os.chdir(folder)


def mount_tmpfs(libc, place):
    place.mkdir()
    check(libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, None))


def has_left_mounts(pid):
    """Whether the machine's folders are not there for a process."""
    return "/proc " not in Path(f"/proc/{pid}/mounts").read_text()


def test_a_way_out_that_was_stopped_keeps_no_job_from_its_end(root, mark):
    engine = launch_in_network(root, mark, FOREVER)
    until(engine, Phase.READY)
    pid = way_out_of(root)
    os.kill(pid, signal.SIGSTOP)
    engine.stop(KEY, order(0.0))
    ended(engine)
    assert not tree.living([pid])


def warnings(root):
    return [line.text for line in lines(root) if line.severity == "WARNING"]


def way_out_of(root):
    children = tree.children(supervisor(root))
    (pid,) = [pid for pid in children if Path(f"/proc/{pid}/comm").read_text().strip() == PROGRAM]
    return pid
