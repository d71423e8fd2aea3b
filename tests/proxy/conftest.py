"""A server and a token for the tests of ``trainshed run``."""

import pytest

from server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = ServerProcess(tmp_path_factory.mktemp("service")).start()
    yield server
    server.stop()
