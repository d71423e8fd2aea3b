"""The flags that both local runs share: containers, limits and network of a job."""

import argparse
from typing import Final

from trainshed.cli import flags
from trainshed.model.resources import FleetPolicy

#: Flags that have no effect in a local run: they are accepted, and a note names them.
_IDLE_KMS = ("--kms-key", "--kms-keyring", "--kms-location", "--kms-project")
IDLE_WORDS = ("--service-account", *_IDLE_KMS)

#: The names of ``engines.container_runtime``; --help must not import an engine.
RUNTIMES: Final = ("auto", "none", "docker", "podman", "apptainer")


def add_local_flags(parser: flags.Parser) -> None:
    """Add the flags that say how a job runs on this machine and how it is checked."""
    flags.add_format(parser)
    flags.add_run_flags(parser)
    _add_engine_flags(parser)
    _add_network_flag(parser)
    flags.add_catalog_flags(parser)
    flags.add_gcloud_wide(parser)


def _add_engine_flags(parser: argparse.ArgumentParser) -> None:
    """Add the settings that a server has in its table [fleet], under the same names."""
    add = flags.adder(parser.add_argument_group("containers and limits, as on a server"))
    add(
        "--container-runtime",
        "Program that runs the images of the job; auto: the first one that works; default: "
        "none, the job runs without its images",
        choices=RUNTIMES,
        default="none",
    )
    add(
        "--container-user UID[:GID]",
        'User that containers run as, or "image" for the user of the image; default: you, or '
        "65533:65533 if you are root",
        type=_container_user,
    )
    add(
        "--fleet-policy",
        "exact: no replica gets more memory or CPUs than its machine type has; default: "
        "best-effort, without limits",
        choices=(FleetPolicy.EXACT.value, FleetPolicy.BEST_EFFORT.value),
        default=FleetPolicy.BEST_EFFORT.value,
    )


def _add_network_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--network``, which names a VPC in scripts that were written for Google."""
    add = flags.adder(parser)
    add(
        "--network job|host",
        "job: the job gets its own network, as on a server, with Google's ports and without "
        "the gateway; needs slirp4netns; default: host, the network of this machine. Any other "
        "name is a VPC of Google and is ignored",
    )


def _container_user(text: str) -> str:
    from trainshed.config.values import WrongValue, container_user

    try:
        return container_user(text)
    except WrongValue as wrong:
        raise argparse.ArgumentTypeError(f"must be {wrong}, got {text!r}") from None
