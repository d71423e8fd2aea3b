"""Opening a store: whose file it is, who may read it, and which release wrote it."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, make_url, text

from store.builders import LEASE_S, SERVER, add, place
from trainshed.store import migrate
from trainshed.store.base import StoreFault
from trainshed.store.database import write_engine
from trainshed.store.opening import open_store
from trainshed.store.tables import METADATA

OPENS = "import sys; from trainshed.store.opening import open_store; open_store(sys.argv[1])"

SET_VERSION = text("UPDATE alembic_version SET version_num = :version")


def test_a_database_file_is_for_its_owner_only(sqlite_url, clock):
    open_store(sqlite_url, clock).close()
    path = Path(make_url(sqlite_url).database)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_in_use_names_the_process_that_holds_it(sqlite_url, clock):
    store = open_store(sqlite_url, clock)
    for opener in (in_this_process, in_another_process):
        assert f"in use by another server (process {os.getpid()})" in opener(sqlite_url)
    store.close()
    open_store(sqlite_url, clock).close()


def in_this_process(url):
    with pytest.raises(StoreFault) as caught:
        open_store(url)
    return str(caught.value)


def in_another_process(url):
    command = [sys.executable, "-c", OPENS, url]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_a_database_needs_a_file():
    with pytest.raises(StoreFault, match="sqlite:///PATH"):
        open_store("sqlite://")


def test_a_server_that_is_down_is_told_in_one_line(tmp_path):
    with pytest.raises(StoreFault, match=f"the database nothing on {tmp_path} does not answer"):
        open_store(f"postgresql+psycopg://nobody@/nothing?host={tmp_path}")


def test_a_file_that_is_no_database_is_told_in_one_line(tmp_path):
    notes = tmp_path / "notes.db"
    notes.write_text("this is not a database, it is a note to myself\n" * 100)
    notes.chmod(0o644)
    with pytest.raises(StoreFault, match="not a database"):
        open_store(f"sqlite:///{notes}")
    assert stat.S_IMODE(notes.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [notes]


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "mysql://me:secret@db/jobs",
        "postgresql+foo://me:secret@db/jobs",
        "postgresql+asyncpg://me:secret@db/jobs",
        "postgresql+psycopg://me:secret@db:port/jobs",
    ],
)
def test_a_url_that_means_nothing_here_is_answered_with_one_that_would(url):
    with pytest.raises(StoreFault, match=r"postgresql\+psycopg://") as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def test_a_folder_that_cannot_be_made_is_told_in_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreFault, match="cannot be used"):
        open_store(f"sqlite:///{tmp_path}/file/trainshed.db")


def test_whoever_opens_the_file_next_need_not_wait_for_leases(sqlite_url, clock):
    first = open_store(sqlite_url, clock)
    uid = add(first).uid
    first.join(SERVER, LEASE_S, lead=True)
    place(first, uid)
    first.close()
    second = open_store(sqlite_url, clock)
    assert second.join("server-b", LEASE_S, lead=True)
    assert list(second.take_over("server-b")) == [uid]
    second.close()


def test_the_newest_migration_is_the_one_the_release_knows():
    assert ScriptDirectory(str(migrate._FOLDER)).get_heads() == [migrate.NEWEST]


def test_a_database_of_a_newer_release_is_left_alone(url, clock):
    open_store(url, clock).close()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(SET_VERSION, {"version": "9999"})
    try:
        with pytest.raises(StoreFault, match="newer release"):
            open_store(url, clock)
    finally:
        with engine.begin() as connection:
            connection.execute(SET_VERSION, {"version": migrate.NEWEST})
        engine.dispose()


SQLITE_TABLES = text(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'alembic_version'"
)
SQLITE_INDEXES = text(
    "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name != 'alembic_version'"
)
POSTGRES_COLUMNS = text(
    "SELECT table_name, column_name, data_type, is_nullable, column_default IS NULL"
    " FROM information_schema.columns"
    " WHERE table_schema = current_schema() AND table_name != 'alembic_version'"
)
POSTGRES_CONSTRAINTS = text(
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = current_schema()::regnamespace AND contype != 'n'"
    " AND conname NOT LIKE 'alembic%'"
)
POSTGRES_INDEXES = text(
    "SELECT replace(indexdef, current_schema() || '.', '') FROM pg_indexes"
    " WHERE schemaname = current_schema() AND tablename != 'alembic_version'"
)


def test_migrated_sqlite_is_what_the_tables_say(tmp_path):
    schemas = []
    for name, make in (("a", migrate.migrate), ("b", METADATA.create_all)):
        (tmp_path / f"{name}.db").touch()
        engine = write_engine(make_url(f"sqlite:///{tmp_path}/{name}.db"))
        with engine.begin() as connection:
            make(connection)
            schemas.append(sqlite_schema(connection))
        engine.dispose()
    assert schemas[0] == schemas[1]


def test_migrated_postgresql_is_what_the_tables_say(postgres):
    schemas = []
    for make in (migrate.migrate, METADATA.create_all):
        engine = write_engine(make_url(postgres.new_database()))
        with engine.begin() as connection:
            make(connection)
            queries = (POSTGRES_COLUMNS, POSTGRES_CONSTRAINTS, POSTGRES_INDEXES)
            schemas.append([sorted(map(tuple, connection.execute(q))) for q in queries])
        engine.dispose()
    assert schemas[0] == schemas[1]


def sqlite_schema(connection):
    """What the tables are, not how they were written: a column that was added stands behind."""
    indexes = {name: words(sql) for name, sql in connection.execute(SQLITE_INDEXES)}
    tables = {
        (name, about): connection.exec_driver_sql(f"PRAGMA {about}({name})").all()
        for (name,) in connection.execute(SQLITE_TABLES)
        for about in ("table_info", "foreign_key_list")
    }
    return indexes, tables


def words(sql):
    return None if sql is None else " ".join(sql.split())


@pytest.mark.parametrize("module", ["alembic.command", "sqlalchemy.dialects.postgresql"])
def test_a_sqlite_database_of_today_is_opened_without(sqlite_url, clock, module):
    open_store(sqlite_url, clock).close()
    code = f"{OPENS}.close(); assert {module!r} not in sys.modules"
    subprocess.run([sys.executable, "-c", code, sqlite_url], check=True)


def test_a_database_in_sql_ascii_is_refused_with_the_line_that_makes_a_right_one(postgres):
    with pytest.raises(StoreFault, match="createdb -E UTF8 -T template0 old_utf8") as raised:
        open_store(postgres.ascii_database())
    assert "SQL_ASCII" in str(raised.value)


def test_a_database_that_nobody_used_is_not_made_where_one_must_exist(postgres, tmp_path):
    with pytest.raises(StoreFault, match="does not exist"):
        open_store(f"sqlite:///{tmp_path}/none/trainshed.db", existing=True)
    assert not (tmp_path / "none").exists()
    with pytest.raises(StoreFault, match="no server has used it"):
        open_store(postgres.new_database(), existing=True)
