"""Brings a database's tables up to this release.

Alembic takes 0.2 s to import, so it is imported only if the version in the database is not the
newest.
"""

from pathlib import Path
from typing import Final

from sqlalchemy import Connection, column, inspect, select, table, text

from trainshed.store.base import StoreFault

#: The newest file of ``migrations/versions``.
NEWEST: Final = "0017"

_FOLDER: Final = Path(__file__).parent / "migrations"
#: Any number, as long as all servers agree on it.
_LOCK: Final = 7_246_325_433
_VERSION: Final = table("alembic_version", column("version_num"))


def migrate(connection: Connection) -> None:
    """Create or change the tables in the connection's transaction; servers may do so at once.

    Raises StoreFault if a newer release has written the database.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    if _known_version(connection) != NEWEST:
        _upgrade(connection)


def check_exists(connection: Connection) -> None:
    """Raise StoreFault if the database has no tables; writes nothing."""
    if _version(connection) is None:
        raise StoreFault(
            "the database is empty: no server has used it yet; start one with trainshed serve"
        )


def check_version(connection: Connection) -> None:
    """Raise StoreFault if the tables are of another release or missing; writes nothing."""
    check_exists(connection)
    version = _known_version(connection)
    if version != NEWEST:
        raise StoreFault(
            f"the database was written by an older release (its tables are of version {version}, "
            f"this release needs {NEWEST}); start a server of this release, which migrates it"
        )


def _known_version(connection: Connection) -> str | None:
    version = _version(connection)
    if version is not None and version > NEWEST:
        raise StoreFault(
            f"the database was written by a newer release (its tables are of version {version}, "
            f"this release knows {NEWEST}); use the newer release"
        )
    return version


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSION.name):
        return None
    return connection.execute(select(_VERSION.c.version_num)).scalar_one_or_none()


def _upgrade(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415 - see above
    from alembic.config import Config  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    command.upgrade(config, "head")
