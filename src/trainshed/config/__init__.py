"""The settings of the server, from a TOML file that is read once, passed on as arguments."""

from trainshed.config.load import FILE, load_environments, load_settings, load_used_settings
from trainshed.config.settings import Settings
from trainshed.service.starts.images import ImageMapping, LocalEnvironment

__all__ = [
    "FILE",
    "ImageMapping",
    "LocalEnvironment",
    "Settings",
    "load_environments",
    "load_settings",
    "load_used_settings",
]
