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
    done = run([*SERVE, "--data-dir", tmp_path / "data", *flags], environ)
    assert done.returncode in {1, 2}
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "unexpected" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("flag", ["--port", "--grpc-port"])
def test_a_port_that_another_program_has_is_told_with_the_process(tmp_path, flag):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(tmp_path, flag, str(port))
    program = Path("/proc/self/comm").read_text().strip()
    assert said == (
        f"error: cannot listen on 127.0.0.1:{port}: Address already in use, by process "
        f"{os.getpid()} ({program}): end it with kill {os.getpid()}; {flag} names another port\n"
    )


def test_a_data_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    said = refused(tmp_path, "--data-dir", str(tmp_path / "file" / "data"))
    assert "the data directory" in said
    assert "Not a directory" in said
    assert "--data-dir" in said


@pytest.mark.parametrize("url", ["nonsense", "mysql://me:secret@db/jobs"])
def test_a_database_that_is_none(tmp_path, url):
    said = refused(tmp_path, "--database", url)
    assert "postgresql+psycopg://" in said
    assert "secret" not in said


@pytest.mark.parametrize("package", ["sqlalchemy", "uvicorn", "grpc"])
def test_an_installation_without_the_service_names_the_extra(tmp_path, package):
    stub = tmp_path / "stub"
    stub.mkdir()
    (stub / f"{package}.py").write_text(f"raise ModuleNotFoundError(name={package!r})\n")
    said = refused(tmp_path, run=executed, PYTHONPATH=str(stub))
    assert said.startswith(f"error: {package} is not installed; pip install --find-links dist ")
