"""The archives that nodes run from: one for launcher and wardens, one with the trainer library.

Both are made of this installation's sources alone, named by what is in them, and the same wherever
they are made.  A node needs Python 3.9 and nothing else: what is newer in our sources is rewritten
(``archive_syntax``).
"""

from typing import NamedTuple


class Archive(NamedTuple):
    """A file for nodes."""

    name: str
    data: bytes


def build() -> Archive:
    """``warden-HASH.pyz``: ``python -I -S ARCHIVE attempt FOLDER`` and ``... task``."""
    raise NotImplementedError


def library() -> Archive:
    """``library-HASH.zip``, for the PYTHONPATH of programs."""
    raise NotImplementedError
