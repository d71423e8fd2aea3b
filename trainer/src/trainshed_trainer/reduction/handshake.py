"""Both sides prove that they hold the job's token, but never send it (docs/sources/reduction.md 6).

Three messages of fixed length are sent: HELLO (the rank, the epoch, a nonce), CHALLENGE (a nonce,
the size of this reducer's ring for a worker, the reducer's proof), and the worker's proof.
A proof is HMAC-SHA256 over the side's name and both messages, so that it cannot be replayed or sent
back.  A reducer allocates no memory for a connection before it has checked the worker's proof.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from typing import NamedTuple

from trainshed_trainer.reduction.errors import ReductionError

MAGIC = b"TSRD"
VERSION = 1
#: Magic, version, reducer's index, epoch, rank, world, timeout in ms, nonce.
HELLO = struct.Struct("<4sHHQIII16s")
#: Magic, version, reserved, ring in bytes, nonce.
CHALLENGE = struct.Struct("<4sHHI16s")
PROOF_SIZE = 32
NONCE_SIZE = 16
#: Seconds that a handshake may take.
DEADLINE_S = 5.0
#: Most workers of a group.
WORLD_MAX = 4096
#: Shortest and longest timeout of a worker, in milliseconds.
TIMEOUT_MS = (100, 24 * 3600 * 1000)
#: A reducer's answer to a greeting of another version; only the version in it has a meaning.
ANSWER_TO_OTHERS = CHALLENGE.pack(MAGIC, VERSION, 0, 0, bytes(NONCE_SIZE)) + bytes(PROOF_SIZE)


class OtherVersion(ValueError):
    """The other side speaks another version of this protocol."""


class Hello(NamedTuple):
    """A worker's greeting; ``index`` is the reducer's index in the worker's list."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used
    epoch: int
    rank: int
    world: int
    timeout_ms: int
    nonce: bytes

    def pack(self) -> bytes:
        return HELLO.pack(
            MAGIC,
            VERSION,
            self.index,
            self.epoch,
            self.rank,
            self.world,
            self.timeout_ms,
            self.nonce,
        )


class Challenge(NamedTuple):
    """A reducer's answer: the bytes of its ring for each worker, and a nonce."""

    ring: int
    nonce: bytes

    def pack(self) -> bytes:
        """Render the message that precedes the proof."""
        return CHALLENGE.pack(MAGIC, VERSION, 0, self.ring, self.nonce)


def nonce() -> bytes:
    """Return random bytes that are unique to a connection."""
    return os.urandom(NONCE_SIZE)


def parse_hello(data: bytes) -> Hello:
    """Parse a worker's greeting.  Raises ``ValueError`` if it is malformed."""
    magic, version, index, epoch, rank, world, timeout_ms, peer_nonce = HELLO.unpack(data)
    if magic != MAGIC:
        raise ValueError("not a greeting of this protocol")
    if version != VERSION:
        raise OtherVersion(f"a greeting must have version {VERSION}, got {version}")
    if not 0 < world <= WORLD_MAX or rank >= world:
        raise ValueError(
            f"a rank must be below the number of workers, 1 to {WORLD_MAX}; got {rank} of {world}"
        )
    if not TIMEOUT_MS[0] <= timeout_ms <= TIMEOUT_MS[1]:
        raise ValueError(
            f"a timeout must be {TIMEOUT_MS[0]} to {TIMEOUT_MS[1]} ms, got {timeout_ms}"
        )
    return Hello(index, epoch, rank, world, timeout_ms, peer_nonce)


def parse_challenge(data: bytes) -> Challenge:
    """Parse the reducer's answer; :class:`ReductionError` if it is malformed."""
    magic, version, _, ring, peer_nonce = CHALLENGE.unpack(data)
    if magic != MAGIC:
        raise ReductionError("the process at this address is not a Trainshed reducer")
    if version != VERSION:
        raise ReductionError(
            f"the reducer has protocol version {version}, this worker {VERSION}: install the same"
            " version of Trainshed on both"
        )
    return Challenge(ring, peer_nonce)


def proof(token: bytes, side: bytes, hello: Hello, challenge: Challenge) -> bytes:
    """Compute the proof that ``side`` (``b"worker"``, ``b"reducer"``) holds the token."""
    message = side + b"\0" + hello.pack() + challenge.pack()
    return hmac.new(token, message, hashlib.sha256).digest()


def proves(token: bytes, side: bytes, hello: Hello, challenge: Challenge, received: bytes) -> bool:
    """Return whether ``received`` is the proof of ``side``; compare in constant time."""
    return hmac.compare_digest(proof(token, side, hello, challenge), received)
