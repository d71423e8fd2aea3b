"""The settings of the server: a TOML file, read once, passed down as arguments."""

from trainshed.config.load import FILE, load_settings
from trainshed.config.settings import ImageMapping, LocalEnvironment, Settings

__all__ = ["FILE", "ImageMapping", "LocalEnvironment", "Settings", "load_settings"]
