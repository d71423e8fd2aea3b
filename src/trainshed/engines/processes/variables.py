"""Selects the variables of the server's environment for supervisors, installers and programs.

The environment of a server may contain secrets: tokens of other services, addresses, keys.  So the
server passes on only the variables that programs are known to need, and the variables that
``[fleet] pass_env`` names.  A local run passes on all variables of the user.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

#: Variables that programs need: paths, locale, time zone, GPUs.
_OF_PROGRAMS: Final = (
    "PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR", "HOME", "USER", "LOGNAME", "SHELL",
    "LD_LIBRARY_PATH", "CUDA_*", "CUDNN_*", "NVIDIA_*", "NCCL_*", "OMP_NUM_THREADS",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip

#: Further variables that uv needs to find packages; a user's setup.py gets these variables, but the
#: user's programs do not.
_OF_BUILDERS: Final = (
    "UV_*", "PIP_*", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY",
    "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip

#: Further variables that container runtimes and Trainshed itself need.
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


def select_for_helpers(env: Mapping[str, str], passed: Iterable[str]) -> dict[str, str]:
    """Select the variables for a supervisor and the helper programs that it starts."""
    return _select(env, (*_OF_PROGRAMS, *_OF_HELPERS, *passed))


def select_for_builders(env: Mapping[str, str], passed: Iterable[str]) -> dict[str, str]:
    """Select the variables for programs that build packages in isolation."""
    return _select(env, (*_OF_PROGRAMS, *_OF_BUILDERS, *passed))


def select_for_programs(env: Mapping[str, str], passed: Iterable[str]) -> dict[str, str]:
    """Select the variables for programs of users.

    ``passed`` are further names of variables, in which ``*`` matches any text.
    """
    return _select(env, (*_OF_PROGRAMS, *passed))


def without_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """Return all variables except the secrets of the server."""
    return {name: text for name, text in env.items() if name not in SECRET}


def _select(env: Mapping[str, str], patterns: tuple[str, ...]) -> dict[str, str]:
    """Select the variables whose names match a pattern, without the secrets of the server."""
    is_named = _compile_any(patterns).fullmatch
    return {name: text for name, text in env.items() if is_named(name) and name not in SECRET}


@cache
def _compile_any(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compile patterns in which ``*`` matches any text; each job uses the same patterns twice."""
    words = (re.escape(pattern).replace(r"\*", ".*") for pattern in patterns)
    return re.compile("|".join(words), re.DOTALL)
