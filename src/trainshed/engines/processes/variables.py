"""Which variables of the server's environment reach supervisors, installers and programs of users.

A service's environment holds undocumented values: tokens of other services, addresses, keys.
So it is not passed on but for what is known to be needed, and what ``[fleet] pass_env`` names.
A local run passes on all that the user has.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

#: What programs need of the machine: where things are, how text and time are written, GPUs.
_OF_PROGRAMS: Final = (
    "PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR", "HOME", "USER", "LOGNAME", "SHELL",
    "LD_LIBRARY_PATH", "CUDA_*", "CUDNN_*", "NVIDIA_*", "NCCL_*", "OMP_NUM_THREADS",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip

#: What uv needs besides to find packages; setup.py of users has it too, other programs do not.
_OF_BUILDERS: Final = (
    "UV_*", "PIP_*", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY",
    "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip

#: What container runtimes and we ourselves need besides.
_OF_HELPERS: Final = (
    *_OF_BUILDERS, "TMPDIR", "XDG_*", "PYTHON*", "TRAINSHED_*",
    "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "REGISTRY_AUTH_FILE", "STORAGE_DRIVER",
    "STORAGE_OPTS", "DOCKER_*", "CONTAINER_*", "CONTAINERS_*", "APPTAINER_*", "SINGULARITY_*",
)  # fmt: skip

#: Secrets of the server, which no setting passes to a job.
SECRET: Final = frozenset(
    {
        "CLOUDSDK_AUTH_ACCESS_TOKEN",
        "PGPASSWORD",
        "STORAGE_EMULATOR_HOST",  # carries the token in its path
        "TRAINSHED_DATABASE",
        "TRAINSHED_TOKEN",
    }
)


def of_helpers(env: Mapping[str, str], passed: Iterable[str]) -> dict[str, str]:
    """What a supervisor and the helpers that it starts have of a server's environment."""
    return _select(env, (*_OF_PROGRAMS, *_OF_HELPERS, *passed))


def of_builders(env: Mapping[str, str], passed: Iterable[str]) -> dict[str, str]:
    """What those have who build packages behind walls."""
    return _select(env, (*_OF_PROGRAMS, *_OF_BUILDERS, *passed))


def of_programs(env: Mapping[str, str], passed: Iterable[str]) -> dict[str, str]:
    """What programs of users have of it; ``passed`` are names, in which * stands for anything."""
    return _select(env, (*_OF_PROGRAMS, *passed))


def without_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """All of it but what the server alone knows."""
    return {name: text for name, text in env.items() if name not in SECRET}


def _select(env: Mapping[str, str], patterns: tuple[str, ...]) -> dict[str, str]:
    is_named = _compile_any(patterns).fullmatch
    return {name: text for name, text in env.items() if is_named(name) and name not in SECRET}


@cache
def _compile_any(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Each job asks twice, with the same patterns."""
    words = (re.escape(pattern).replace(r"\*", ".*") for pattern in patterns)
    return re.compile("|".join(words), re.DOTALL)
