"""A real cluster that the environment names, for the tests that need no control over a cluster.

See README.md in this folder for the variables.
"""

import os
from pathlib import Path

from trainshed.engines.kubernetes.api.client import connect

CLAIM, CLAIM_PATH = "TRAINSHED_TEST_CLAIM", "TRAINSHED_TEST_CLAIM_PATH"
NAMESPACE = "TRAINSHED_TEST_NAMESPACE"
SHELL_IMAGE, PYTHON_IMAGE = "TRAINSHED_TEST_SHELL_IMAGE", "TRAINSHED_TEST_PYTHON_IMAGE"
#: Begins the reason of a skipped test; the summary of a run lists these.
NEEDS_CONTROL = "needs control over the cluster"


class GivenCluster:
    """One namespace and one claim; its folder is a folder of this machine too."""

    control = None
    """The means to stop the API and to keep nodes closed: none."""

    def __init__(self, environ, folder):
        missing = [
            name for name in (CLAIM_PATH, SHELL_IMAGE, PYTHON_IMAGE) if not environ.get(name)
        ]
        if missing:
            raise ValueError(f"{CLAIM} is set, so {', '.join(missing)} must be set too")
        self.image, self.python_image = environ[SHELL_IMAGE], environ[PYTHON_IMAGE]
        self._environ, self._folder = environ, folder
        client = self.connect()
        self.namespace = environ.get(NAMESPACE) or client.namespace
        client.close()

    def connect(self):
        """A client with the rights of the kubeconfig."""
        return connect(keys_folder=str(self._folder))

    def open_claim(self, _name):
        """The name of a claim and the path of its folder on this machine."""
        return self._environ[CLAIM], Path(self._environ[CLAIM_PATH])

    def make_settings(self, _folder, _claim, _token):
        """The settings of an engine that say where the cluster and the claim are."""
        return {
            "namespace": self.namespace,
            "claim": self._environ[CLAIM],
            "spool": self._environ[CLAIM_PATH],
        }


def is_given():
    """Whether the environment names a cluster."""
    return bool(os.environ.get(CLAIM))
