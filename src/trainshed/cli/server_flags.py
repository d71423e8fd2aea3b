"""The flags that say which server a command is about."""

import argparse
from pathlib import Path


def add_server_flags(parser: argparse.ArgumentParser) -> None:
    """``--url``, ``--data-dir`` and ``--token-file``."""
    group = parser.add_argument_group("which server")
    group.add_argument(
        "--url", help="Address of the server; default: the one of the data directory"
    )
    group.add_argument(
        "--data-dir", metavar="DIR", help="Data directory; default: TRAINSHED_DATA_DIR"
    )
    group.add_argument(
        "--token-file",
        "--access-token-file",
        metavar="FILE",
        type=Path,
        help="File with a token; default: TRAINSHED_TOKEN, then admin-token in DIR",
    )


def add_grant_flags(parser: argparse.ArgumentParser) -> None:
    """``--project`` and ``--role``: what is granted."""
    parser.add_argument("--project", metavar="ID", help="The one project; default: all projects")
    parser.add_argument(
        "--role",
        choices=("viewer", "submitter", "admin"),
        help="viewer reads; submitter runs jobs too; admin gives out tokens too (submitter)",
    )


def add_database_flag(parser: argparse.ArgumentParser) -> None:
    """``--database``, for commands that work without a server."""
    parser.add_argument(
        "--database",
        metavar="URL",
        help="The server's database, for when no server runs; default: as in config.toml",
    )
