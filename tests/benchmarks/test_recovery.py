"""The benchmark of recovery starts a simulated server again on the same data directory."""

import importlib
from pathlib import Path


def test_a_simulated_server_starts_again_on_its_data_directory(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    servers = importlib.import_module("service_servers")
    for _ in range(2):
        with servers.simulated_at(tmp_path, gpus=1) as server:
            assert server.states() == {}
