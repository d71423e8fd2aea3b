"""A server that cannot start says why in one line, and what would help."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from server_process import TRAINSHED, finished

SERVE = (TRAINSHED, "serve", "--port", "0", "--grpc-port", "none")


def executed(argv, env):
    return subprocess.run(
        argv, env={**os.environ, **env}, capture_output=True, text=True, timeout=120, check=False
    )


def refused(tmp_path, *flags, run=lambda argv, env: finished(argv, env=env), **environ):
    process = run([*SERVE, "--data-dir", tmp_path / "data", *flags], environ)
    assert process.returncode in {1, 2}
    assert process.stdout == ""
    assert process.stderr.startswith("error: ")
    assert "unexpected" not in process.stderr
    return process.stderr


@pytest.mark.parametrize("flag", ["--port", "--grpc-port"])
def test_a_port_that_another_program_has_is_told_with_the_process(tmp_path, flag):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        stderr = refused(tmp_path, flag, str(port))
    program = Path("/proc/self/comm").read_text().strip()
    assert stderr == (
        f"error: cannot listen on 127.0.0.1:{port}: Address already in use, by process "
        f"{os.getpid()} ({program}): end it with kill {os.getpid()}; give another port with "
        f"{flag}\n"
    )


def test_a_data_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    stderr = refused(tmp_path, "--data-dir", str(tmp_path / "file" / "data"))
    assert "the data directory" in stderr
    assert "Not a directory" in stderr
    assert "--data-dir" in stderr


@pytest.mark.parametrize("url", ["nonsense", "mysql://me:secret@db/jobs"])
def test_a_database_that_is_none(tmp_path, url):
    stderr = refused(tmp_path, "--database", url)
    assert "postgresql+psycopg://" in stderr
    assert "secret" not in stderr


@pytest.mark.parametrize(
    "package",
    ["sqlalchemy", *(pytest.param(x, marks=pytest.mark.full) for x in ("uvicorn", "grpc"))],
)
def test_an_installation_without_the_service_names_the_extra(tmp_path, package):
    stub = tmp_path / "stub"
    stub.mkdir()
    (stub / f"{package}.py").write_text(f"raise ModuleNotFoundError(name={package!r})\n")
    stderr = refused(tmp_path, run=executed, PYTHONPATH=str(stub))
    assert stderr.startswith(f"error: {package} is not installed; pip install --find-links dist ")
