"""A cluster that the environment names, for the tests that need no control over a cluster.

README.md in this folder describes the variables.
"""

import os
from pathlib import Path

from trainshed.engines.kubernetes.api.client import connect

CLAIM, CLAIM_PATH = "TRAINSHED_TEST_CLAIM", "TRAINSHED_TEST_CLAIM_PATH"
SHELL_IMAGE, PYTHON_IMAGE = "TRAINSHED_TEST_SHELL_IMAGE", "TRAINSHED_TEST_PYTHON_IMAGE"
NAMESPACE, KUBECONFIG = "TRAINSHED_TEST_NAMESPACE", "KUBECONFIG"
_REQUIRED = (KUBECONFIG, CLAIM_PATH, SHELL_IMAGE, PYTHON_IMAGE)
#: Begins the reason of a skipped test; the end of a run lists these.
NEEDS_CONTROL = "needs control over the cluster"


class GivenCluster:
    """One namespace and one claim, whose folder this machine has too."""

    control = None
    """The means to stop the API, to close nodes and to add images: none."""

    def __init__(self, environ, folder):
        missing = [name for name in _REQUIRED if not environ.get(name)]
        if missing:
            raise ValueError(f"{CLAIM} is set, so {', '.join(missing)} must be set too")
        self.image, self.stand_in = environ[SHELL_IMAGE], environ[PYTHON_IMAGE]
        self._kubeconfig, self._folder = environ[KUBECONFIG], folder
        self._claim, self._claim_path = environ[CLAIM], environ[CLAIM_PATH]
        client = self.connect()
        self.namespace = environ.get(NAMESPACE) or client.namespace
        client.close()

    def connect(self, _token=""):
        """A client with the rights of the kubeconfig."""
        return connect(self._kubeconfig, keys_folder=str(self._folder))

    def open_claim(self, _name):
        """The name of the claim, and the path of its folder on this machine."""
        return self._claim, Path(self._claim_path)

    def make_settings(self, _folder, _claim, _token):
        """The settings of an engine that say where the cluster and the claim are."""
        return {
            "kubeconfig": self._kubeconfig,
            "namespace": self.namespace,
            "claim": self._claim,
            "spool": self._claim_path,
        }


def is_given():
    """Whether the environment names a cluster."""
    return bool(os.environ.get(CLAIM))
