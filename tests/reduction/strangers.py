"""The protocol spoken by hand, well or badly, to a reducer or by one."""

import contextlib
import socket
import threading

from reduction.crew import DEADLINE_S, HOST, TOKEN
from trainshed_trainer.reduction import frames, handshake
from trainshed_trainer.reduction.frames import Frame
from trainshed_trainer.reduction.handshake import Challenge, Hello


def hello(**other):
    """A greeting of the only worker of a group."""
    settings = {"index": 0, "epoch": 1, "rank": 0, "world": 1, "timeout_ms": 60_000}
    return Hello(**{**settings, "nonce": handshake.nonce(), **other})


def connected(address, *, receives=None):
    """A connection; ``receives`` bounds the bytes that the system takes for it, about."""
    sock = socket.socket()
    sock.settimeout(DEADLINE_S)
    if receives:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
    try:
        sock.connect(address)
    except OSError:
        sock.close()
        raise
    return sock


def exactly(sock, nbytes):
    data = b""
    while len(data) < nbytes:
        more = sock.recv(nbytes - len(data))
        if not more:
            raise ConnectionResetError("closed")
        data += more
    return data


def closed(sock):
    """Whether nothing comes any more but the end."""
    with contextlib.suppress(ConnectionResetError):
        return not sock.recv(1)
    return True


def challenged(sock, greeting):
    """Greet; what the reducer answers: its challenge and its proof."""
    sock.sendall(greeting.pack())
    answer = exactly(sock, handshake.CHALLENGE.size + handshake.PROOF_SIZE)
    challenge = handshake.parse_challenge(answer[: handshake.CHALLENGE.size])
    return challenge, answer[handshake.CHALLENGE.size :]


def admitted(address, token=TOKEN, **other):
    """A connection that has proved itself."""
    sock, greeting = connected(address), hello(**other)
    challenge, _ = challenged(sock, greeting)
    sock.sendall(handshake.proof(token, b"worker", greeting, challenge))
    return sock


def next_frame(sock):
    """The next frame that is no sign of life, and its content."""
    while True:
        frame, nbytes = frames.parse_head(exactly(sock, frames.HEAD.size))
        body = exactly(sock, nbytes)
        if frame is not Frame.HEARTBEAT:
            return frame, body


def error_of(sock):
    """The error that the reducer ends a connection with."""
    while True:
        frame, body = next_frame(sock)
        if frame is Frame.ERROR:
            return frames.parse_error(body)


@contextlib.contextmanager
def serving(answer):
    """A server that deals with each connection as ``answer`` does; where it listens."""
    server = socket.create_server((HOST, 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                sock, _ = server.accept()
                with sock, contextlib.suppress(OSError):
                    sock.settimeout(DEADLINE_S)
                    answer(sock)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(DEADLINE_S)


def impostor(received, *, version=handshake.VERSION, token=b"wrong" * 8):
    """What answers as a reducer with another token or version; keeps what it was told."""

    def answer(sock):
        greeting = handshake.parse_hello(exactly(sock, handshake.HELLO.size))
        challenge = Challenge(1 << 20, handshake.nonce())
        head = handshake.CHALLENGE.pack(handshake.MAGIC, version, 0, 1 << 20, challenge.nonce)
        sock.sendall(head + handshake.proof(token, b"reducer", greeting, challenge))
        with contextlib.suppress(OSError):
            while more := sock.recv(1 << 10):
                received.append(more)

    return answer
