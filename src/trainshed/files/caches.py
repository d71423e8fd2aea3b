"""The folders of caches."""

import os
from pathlib import Path


def default_cache_dir() -> Path:
    """Return the folder for cached environments, in the user's cache directory."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "trainshed" / "environments"
