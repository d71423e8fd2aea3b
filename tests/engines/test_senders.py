"""Who may give orders to a supervisor, or take ports from a holder."""

import os
import shutil
import subprocess
import sys

import pytest

#: A server and a process of ours that judges it, below a process of root's that they do not see.
HIDDEN = """
import ctypes, os, subprocess
from trainshed.engines.supervise.kernel import senders
subprocess.run(["mount", "-o", "remount,hidepid=2", "/proc"], check=True)
server = os.fork()
if not server:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE: as after an exec
    assert not os.path.exists("/proc/1/stat")
    judge = os.fork()
    if not judge:
        os._exit(senders.is_of_job(os.getppid()))
    os._exit(os.waitstatus_to_exitcode(os.waitpid(judge, 0)[1]))
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(server, 0)[1]))
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="run as root: mounts /proc"
)
def test_a_server_whose_parent_is_hidden_is_no_job():
    """The unit has ProtectProc=invisible: each order of the server was refused as a job's."""
    argv = ["unshare", "-m", "-p", "-f", "--mount-proc", sys.executable, "-c", HIDDEN]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    if "mount" in done.stderr:
        pytest.skip(f"mounts nothing here: {done.stderr.strip().splitlines()[-1]}")
    assert (done.returncode, done.stderr) == (0, "")
