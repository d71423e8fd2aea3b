"""A supervisor notices the end of its replicas whatever its parent has blocked."""

import signal
import subprocess
import sys

PROGRAM = """
import os, select, signal, subprocess
from trainshed.engines.supervise.kernel.signals import wake_on_signals
wake = wake_on_signals()
child = subprocess.Popen(["true"])
ready, _, _ = select.select([wake], [], [], 60)
print(list(os.read(wake, 1)) if ready else "never")
"""


def test_the_end_of_a_child_wakes_though_the_parent_has_blocked_its_signal():
    """slurmstepd of 25.05.6 blocks SIGCHLD: no attempt ever ended there."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            check=True,
            capture_output=True,
            text=True,
            restore_signals=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    assert done.stdout.strip() == str([signal.SIGCHLD.value])
