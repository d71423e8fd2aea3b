"""Writes the ``[[engine]]`` table of a server's configuration."""


def compose_engine_table(settings):
    """The table as TOML; the values are texts, numbers, switches, lists and tables of these."""
    return "\n".join(["[[engine]]", *(f"{key} = {_toml(settings[key])}" for key in settings), ""])


def _toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}" = {_toml(entry)}' for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(entry) for entry in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
