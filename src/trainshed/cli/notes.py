"""Remarks beside the answer: on stderr, so that stdout stays the answer alone."""

import sys

from trainshed.cli.failures import harmless
from trainshed.cli.terminal import DIM, painted, wants_colour


def note(text: str) -> None:
    """Write one line of Trainshed's own."""
    line = painted(f"trainshed: {harmless(text)}", DIM, on=wants_colour("auto", sys.stderr))
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
