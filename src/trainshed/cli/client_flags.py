"""The flags that say which server a command is about, and those that creates share."""

import argparse
from pathlib import Path

from trainshed.cli import flags

#: What a resource of each group of commands is called, and an id as it may look.
NOUNS = {
    "ai-platform jobs": ("job", "census_1"),
    "ml-engine jobs": ("job", "census_1"),
    "ai custom-jobs": ("custom job", "4611686018427387904"),
    "ai hp-tuning-jobs": ("tuning job", "4611686018427387904"),
    "ai pipelines": ("training pipeline", "4611686018427387904"),
}


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


#: Flags of one text that are part of a job: name, metavar, help.  ml v1 has no persistent resource.
_SPEC = (
    ("service-account", "EMAIL", "Account of the job; noted, and nothing runs under it here"),
    ("network", "NAME", "Network of the job; noted"),
)
_SPEC_VERTEX = (("persistent-resource-id", "ID", "Persistent resource to run on; noted"),)
_KMS = ("kms-key", "kms-keyring", "kms-location", "kms-project")


def add_client_flags(parser: argparse.ArgumentParser, *, region: str = "") -> None:
    """The server, the project, gcloud's flags that mean nothing here, and ``--format``.

    ``region`` is the help of ``--region``, for collections that have one.
    """
    flags.add_format(parser)
    parser.add_argument(
        "--project", metavar="ID", help="Project; default: CLOUDSDK_CORE_PROJECT, TRAINSHED_PROJECT"
    )
    if region:
        parser.add_argument("--region", metavar="REGION", help=region)
    add_server_flags(parser)
    parser.add_argument("--quiet", "-q", action="store_true", help=argparse.SUPPRESS)
    flags.add_gcloud_idle(parser)


def add_spec_flags(parser: argparse.ArgumentParser, *, vertex: bool) -> None:
    """What a job says of accounts, networks, keys and access, the same in both dialects."""
    group = parser.add_argument_group("accounts, networks and access")
    for name, metavar, text in (*_SPEC, *(_SPEC_VERTEX if vertex else ())):
        group.add_argument(f"--{name}", metavar=metavar, dest=f"spec:{name}", help=text)
    for name in ("enable-web-access", *(["enable-dashboard-access"] if vertex else [])):
        group.add_argument(
            f"--{name}", dest=f"switch:{name}", action="store_true", help=argparse.SUPPRESS
        )
    for name in _KMS:
        group.add_argument(f"--{name}", metavar="NAME", help=argparse.SUPPRESS)


def add_stream_flag(parser: argparse.ArgumentParser) -> None:
    """``--stream-logs``."""
    parser.add_argument(
        "--stream-logs",
        action="store_true",
        help="Print the job's log until it ends, and end as its primary replica does; "
        "Ctrl-C leaves the job running",
    )
