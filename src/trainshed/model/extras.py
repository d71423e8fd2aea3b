"""The command that installs an extra of this distribution, for messages."""


def install_command(extra: str) -> str:
    """Return a command that needs no package index with Trainshed: its wheels are in ``dist``."""
    return f"pip install --find-links dist 'trainshed[{extra}]' (`make dist` makes dist/)"
