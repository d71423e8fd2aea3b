"""What a server prints and notes at its start works for commands in other terminals."""

import json
import os
import re
import socket
import subprocess
import urllib.request

import pytest

from server_process import TRAINSHED, ServerProcess, finished

pytestmark = pytest.mark.slow


def metrics_settings():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f'[metrics]\nlisten = "127.0.0.1:{free.getsockname()[1]}"\n'


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Two at once, each told of its folder by the variable, one with a database by flag."""
    servers = []
    try:
        for name in ("one", "two words"):
            data = tmp_path_factory.mktemp("serve") / name
            data.mkdir()
            (data / "config.toml").write_text(metrics_settings() if servers else "")
            flags = ("--database", f"sqlite:///{data.parent}/elsewhere.db") if servers else ()
            server = ServerProcess(data, *flags, environ={"TRAINSHED_DATA_DIR": str(data)})
            servers.append(server)
            server.start()
        yield servers
    finally:
        for server in servers:
            server.stop()


def test_two_servers_with_port_0_run_at_once(servers):
    assert len({server.url for server in servers} | {server.grpc for server in servers}) == 4
    assert all(server.is_healthy() for server in servers)


def test_the_printed_address_of_the_console_gives_its_page(servers):
    for server in servers:
        address = re.search(r"console +(\S+)", server.output())[1]
        assert address == f"{server.url}/console/"
        with server.opened(urllib.request.Request(address)) as answer:
            assert b"/console/static/" in answer.read()


def test_the_printed_address_of_the_metrics_needs_no_token(servers):
    address = re.search(r"metrics +(http\S+), without a token", servers[1].output())[1]
    with urllib.request.urlopen(address, timeout=60) as answer:
        assert b"trainshed_build_info" in answer.read()
    assert "metrics  " not in servers[0].output()


def test_the_printed_eval_line_works_in_another_terminal(servers):
    for server in servers:
        line = re.search(r"clients +(eval .*)", server.output())[1]
        there = {"PATH": f"{TRAINSHED.parent}:{os.environ['PATH']}", "HOME": str(server.data_dir)}
        script = f"set -e\n{line}\ntrainshed nodes --format json > /dev/null\n"
        process = subprocess.run(
            ["/bin/sh", "-c", f'{script}echo "$CLOUDSDK_API_ENDPOINT_OVERRIDES_ML"'],
            env=there,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert process.stdout.strip() == f"{server.url}/", process.stderr


def test_commands_find_the_database_that_was_given_to_serve_by_flag(servers, tmp_path):
    server = servers[1]
    data = ("--data-dir", server.data_dir)
    process = finished([TRAINSHED, "doctor", *data])
    assert "all" in process.stdout.splitlines()[-1], process.stdout + process.stderr
    assert not (server.data_dir / "trainshed.db").exists()
    copied = finished([TRAINSHED, "backup", *data, tmp_path / "copy", "--format", "json"])
    assert json.loads(copied.stdout)["jobs"] == 0
    assert not (tmp_path / "copy/database-url").exists()
    note = server.data_dir / "database-url"
    assert note.stat().st_mode & 0o777 == 0o600
    note.write_text("postgresql+psycopg://somebody:secret@db.invalid/trainshed\n")
    refusal = finished([TRAINSHED, "backup", *data, tmp_path / "again"])
    assert "pg_dump --format=custom --file=trainshed.dump trainshed;" in refusal.stderr
    assert not (tmp_path / "again").exists()
    assert "secret" not in refusal.stderr
