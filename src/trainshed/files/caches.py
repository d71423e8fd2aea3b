"""Where what was made once is kept for the next time."""

import os
from pathlib import Path


def default_cache_dir() -> Path:
    """Where environments are kept: ``trainshed/environments`` in the user's cache directory."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "trainshed" / "environments"
