"""Clients of the registries of tests, and their docker config files."""

import json
from pathlib import Path

import pytest

from trainshed.engines.kubernetes.registry import Registry, RegistryFault

DIGEST = "sha256:" + "a" * 64
DEADLINE_S = 60.0


def registry_at(host, *, ca="", architecture="amd64", more_hosts=(), **options):
    """A registry, without TLS unless there is a CA."""
    plain = () if ca else (host, *more_hosts)
    options = {"timeout_s": DEADLINE_S, **{name: _text(value) for name, value in options.items()}}
    return Registry(architecture, ca_file=str(ca), plain_hosts=plain, **options)


def _text(value):
    return str(value) if isinstance(value, Path) else value


def trouble_of(registry, image):
    with pytest.raises(RegistryFault) as fault:
        registry.describe(image)
    return fault.value


def write_config(path, **document):
    path.write_text(json.dumps(document))
    return path
