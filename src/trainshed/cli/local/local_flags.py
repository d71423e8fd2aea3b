"""The flags that both local runs share: where and in what a job runs on this machine."""

import argparse
from typing import Final

from trainshed.cli import flags
from trainshed.model.resources import FleetPolicy

#: Flags of jobs on a server that mean nothing on one machine; taken, and named in a note.
_IDLE_KMS = ("--kms-key", "--kms-keyring", "--kms-location", "--kms-project")
IDLE_WORDS = ("--service-account", *_IDLE_KMS)

#: Those of ``engines.container_runtime``; help is printed without importing an engine.
RUNTIMES: Final = ("auto", "none", "docker", "podman", "apptainer")


def add_local_flags(parser: flags.Parser) -> None:
    """How a job is run, in which containers and limits, and how it is checked."""
    flags.add_format(parser)
    flags.add_run_flags(parser)
    _add_engine_flags(parser)
    _add_network_flag(parser)
    flags.add_catalog_flags(parser)
    flags.add_gcloud_wide(parser)


def _add_engine_flags(parser: argparse.ArgumentParser) -> None:
    """What a server has in the table [fleet] of its settings, under the same names."""
    group = parser.add_argument_group("containers and limits, as a server has them")
    group.add_argument(
        "--container-runtime",
        choices=RUNTIMES,
        default="none",
        help="What runs the images of the job; auto: the first that answers; default: none, and "
        "images are only names",
    )
    group.add_argument(
        "--container-user",
        metavar="UID[:GID]",
        type=_container_user,
        help='Whom containers run as, or "image" for whom the image says; default: you, and '
        "65533:65533 where that is root",
    )
    group.add_argument(
        "--fleet-policy",
        choices=(FleetPolicy.EXACT.value, FleetPolicy.BEST_EFFORT.value),
        default=FleetPolicy.BEST_EFFORT.value,
        help="exact: no replica gets more memory or CPUs than its machine type has; default: "
        "best-effort, without limits",
    )


def _add_network_flag(parser: argparse.ArgumentParser) -> None:
    """``--network``, which names a VPC in scripts that were written for Google."""
    parser.add_argument(
        "--network",
        metavar="job|host",
        help="job: a network of the job's own, as jobs of a server have it, with the ports of "
        "Google and without the gateway; needs slirp4netns; default: host, this machine's. Any "
        "other name is a VPC of Google's and means nothing here",
    )


def _container_user(text: str) -> str:
    from trainshed.config.values import WrongValue, container_user

    try:
        return container_user(text)
    except WrongValue as wrong:
        raise argparse.ArgumentTypeError(f"{text!r} is not {wrong}") from None
