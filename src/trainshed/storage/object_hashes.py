"""CRC32C and MD5 of streams, as the storage API writes them."""

import base64
import hashlib
from collections.abc import Iterator
from typing import BinaryIO

import google_crc32c

from trainshed.model.stored_objects import Checksums

PIECE_BYTES = 1 << 20


class HashMismatch(Exception):
    """The bytes do not have the caller's checksum; the message is for the caller."""


class Hasher:
    """Both checksums of what was fed, in one pass."""

    def __init__(self) -> None:
        self._crc32c = 0
        self._md5 = hashlib.md5(usedforsecurity=False)

    def update(self, piece: bytes) -> None:
        """Take the next bytes."""
        self._crc32c = google_crc32c.extend(self._crc32c, piece)
        self._md5.update(piece)

    def checksums(self) -> Checksums:
        """The checksums of everything that was fed."""
        return Checksums(crc32c=_crc32c_text(self._crc32c), md5=_text(self._md5.digest()))


def crc32c_of(file: BinaryIO) -> str:
    """Return the CRC32C of a file that a program wrote without the API."""
    crc = 0
    for piece in pieces(file):
        crc = google_crc32c.extend(crc, piece)
    return _crc32c_text(crc)


def checksums_of(file: BinaryIO) -> Checksums:
    """Both checksums of the rest of an open file."""
    hasher = Hasher()
    for piece in pieces(file):
        hasher.update(piece)
    return hasher.checksums()


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """The rest of an open file in pieces that fit any memory."""
    while piece := file.read(PIECE_BYTES):
        yield piece


def check(claimed: Checksums, actual: Checksums) -> None:
    """Raise HashMismatch where the caller claims another checksum than the bytes have."""
    for kind, claim, real in (
        ("CRC32C", claimed.crc32c, actual.crc32c),
        ("MD5", claimed.md5, actual.md5),
    ):
        if claim and claim != real:
            raise HashMismatch(
                f"Provided {kind} {claim!r} doesn't match calculated {kind} {real!r}"
            )


def _crc32c_text(value: int) -> str:
    return _text(value.to_bytes(4, "big"))


def _text(digest: bytes) -> str:
    return base64.b64encode(digest).decode("ascii")
