"""The command that installs an extra of this distribution, for messages that name one."""


def install_command(extra: str) -> str:
    """A command that works while no package index has Trainshed: its wheels lie in ``dist``."""
    return f"pip install --find-links dist 'trainshed[{extra}]' (`make dist` makes dist/)"
