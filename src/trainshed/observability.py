"""Logs of the server itself, for the rim: one line a record, never a secret."""

import logging
import sys

FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def log_to_stderr(*, verbose: bool = False) -> None:
    """Send the server's own records to stderr; ``verbose`` adds what only developers read."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT))
    root = logging.getLogger("trainshed")
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    root.propagate = False
