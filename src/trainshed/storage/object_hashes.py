"""Computes CRC32C and MD5 of streams, in the text form of the storage API."""

import base64
import hashlib
from collections.abc import Iterator
from typing import BinaryIO

import google_crc32c

from trainshed.model.stored_objects import Checksums

PIECE_BYTES = 1 << 20


class HashMismatch(Exception):
    """The checksum of the bytes differs from the caller's; the message is for the caller."""


class Hasher:
    """Computes both checksums of a stream in one pass."""

    def __init__(self) -> None:
        self._crc32c = 0
        self._md5 = hashlib.md5(usedforsecurity=False)

    def update(self, piece: bytes) -> None:
        """Add the next bytes of the stream."""
        self._crc32c = google_crc32c.extend(self._crc32c, piece)
        self._md5.update(piece)

    def checksums(self) -> Checksums:
        """Return the checksums of all bytes so far."""
        return Checksums(crc32c=_crc32c_text(self._crc32c), md5=_text(self._md5.digest()))


def crc32c_of(file: BinaryIO) -> str:
    """Return the CRC32C of the rest of an open file."""
    crc = 0
    for piece in pieces(file):
        crc = google_crc32c.extend(crc, piece)
    return _crc32c_text(crc)


def checksums_of(file: BinaryIO) -> Checksums:
    """Return both checksums of the rest of an open file."""
    hasher = Hasher()
    for piece in pieces(file):
        hasher.update(piece)
    return hasher.checksums()


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the rest of an open file in pieces of at most 1 MiB."""
    while piece := file.read(PIECE_BYTES):
        yield piece


def check(claimed: Checksums, actual: Checksums) -> None:
    """Raise HashMismatch if a checksum from the caller differs from that of the bytes."""
    for kind, expected, computed in (
        ("CRC32C", claimed.crc32c, actual.crc32c),
        ("MD5", claimed.md5, actual.md5),
    ):
        if expected and expected != computed:
            raise HashMismatch(
                f"Provided {kind} {expected!r} doesn't match calculated {kind} {computed!r}"
            )


def _crc32c_text(value: int) -> str:
    return _text(value.to_bytes(4, "big"))


def _text(digest: bytes) -> str:
    return base64.b64encode(digest).decode("ascii")
