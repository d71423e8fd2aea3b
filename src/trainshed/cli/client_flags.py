"""The flags of every command that talks to a server, and those that its creates share."""

import argparse

from trainshed.cli import flags
from trainshed.cli.server_flags import add_server_flags

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
