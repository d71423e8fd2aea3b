"""A server that is wired and not yet started."""

import os

import pytest

from trainshed.app import build
from trainshed.config import Settings
from trainshed.store.base import StoreFault


def test_servers_of_other_machines_are_refused_while_they_live(tmp_path):
    """Each would take the other's node for gone, and fail the jobs that are placed there."""
    application = build(Settings(data_dir=tmp_path))
    try:
        application.store.join("gpu-box-17-abc123~1", 60.0)
        with pytest.raises(StoreFault, match="a server on gpu-box uses this database"):
            application.start()
        application.store.leave("gpu-box-17-abc123~1")
        application.store.join(f"{os.uname().nodename}-17-abc123", 60.0)
        application.start()
    finally:
        application.stop()
