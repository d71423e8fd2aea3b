"""A real PostgreSQL for tests: Debian's package, its own cluster, a Unix socket."""

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Identifier

START_S_MAX = 180
POLL_S = 0.05
DELETE_ALL = SQL("DELETE FROM shared.{}")
TABLES_OF_SHARED = (
    "SELECT tablename FROM pg_tables WHERE schemaname = 'shared' AND tablename != 'alembic_version'"
)


class PostgresServer:
    """One running server; every test has its own schema, which is cheaper than a database."""

    def __init__(self, folder: Path, command: Sequence[str | Path]) -> None:
        self._folder = folder
        self._command = command
        self._numbers = itertools.count(1)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, cwd=self._folder
            )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it at once, like a crash: committed data exists when it starts again."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def new_database(self) -> str:
        """Return the SQLAlchemy URL of a new schema, which looks like an empty database."""
        name = f"test{next(self._numbers)}"
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return self._url(name)

    def ascii_database(self) -> str:
        """Return the SQLAlchemy URL of a database as ``createdb`` makes one in the locale C."""
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(
                "CREATE DATABASE old ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' "
                "TEMPLATE template0"
            )
        return f"postgresql+psycopg://postgres@/old?host={self._folder}"

    def emptied_database(self) -> str:
        """Return a database whose tables are emptied; only one test at a time may use it."""
        with psycopg.connect(self._dsn) as connection:  # one transaction for all tables
            connection.execute("CREATE SCHEMA IF NOT EXISTS shared")
            connection.execute("SET session_replication_role = replica")  # in any order
            tables = connection.execute(TABLES_OF_SHARED).fetchall()
            deletes = [DELETE_ALL.format(Identifier(name)) for (name,) in tables]
            connection.execute(SQL(";").join(deletes))  # one round trip, not thirty
        return self._url("shared")

    def _wait_until_ready(self, process: subprocess.Popen) -> None:
        deadline = time.monotonic() + START_S_MAX
        while True:
            try:
                psycopg.connect(self._dsn).close()
            except psycopg.OperationalError:
                assert process.poll() is None, (self._folder / "log").read_text()
                assert time.monotonic() < deadline, (self._folder / "log").read_text()
                time.sleep(POLL_S)
            else:
                return

    def _url(self, schema: str) -> str:
        path = f"options=-csearch_path%3D{schema}"
        return f"postgresql+psycopg://postgres@/postgres?host={self._folder}&{path}"

    @property
    def _dsn(self) -> str:
        return f"host={self._folder} user=postgres dbname=postgres"


def bin_folder() -> Path | None:
    """Return the folder of the newest installed server; None if there is none."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return programs[-1].parent if programs else None


@contextlib.contextmanager
def running_postgres():
    """Start a server, which ends with the block.

    It leaves syncs to the kernel: a process that is killed loses nothing by that, only a machine.
    """
    programs = bin_folder()
    assert programs is not None, "apt install postgresql"
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: a socket's path has 107 bytes at most
    prefix = _as_postgres(folder)
    data = folder / "data"
    initdb = [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"]
    locale = ["--encoding=UTF8", "--locale=C.UTF-8"]
    subprocess.run([*prefix, *initdb, *locale], check=True, capture_output=True, cwd=folder)
    postgres = [programs / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses="]
    postgres += ["-c", "fsync=off", "-c", "full_page_writes=off"]
    server = PostgresServer(folder, [*prefix, *postgres])
    try:
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def _as_postgres(folder: Path) -> list[str]:
    """Return the prefix that runs a command as the package's user: the server refuses to run as
    root."""
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam("postgres")
    os.chown(folder, user.pw_uid, user.pw_gid)
    ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}"]
    return ["setpriv", *ids, "--clear-groups", "--"]
