"""A proxy of the machine: the server reaches other machines by it, with a password."""

import contextlib
import socket
import threading

PASSWORD = "password-of-the-proxy"
#: What it has machines at; to others it says that there are none.
NETWORK = b"198.51.100."
_HEAD_BYTES_MAX = 1 << 16


class Proxy:
    """It keeps the heads that come, and leads tunnels to nothing, open until the client ends."""

    def __init__(self, port_of_server):
        """Tunnels to that port are led too: those to the machine itself name it."""
        self.heads = []
        self._port_of_server = port_of_server
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)

    @property
    def url(self):
        return f"http://server:{PASSWORD}@127.0.0.1:{self._listener.getsockname()[1]}"

    @contextlib.contextmanager
    def running(self):
        accepting = threading.Thread(target=self._accept)
        accepting.start()
        try:
            yield self
        finally:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            accepting.join()

    def _accept(self):
        with contextlib.suppress(OSError):  # the end
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head and len(head) < _HEAD_BYTES_MAX:
                piece = client.recv(1 << 12)
                if not piece:
                    return
                head += piece
            self.heads.append(head.decode(errors="replace"))
            target = head.split(b" ")[1]
            is_led = target.startswith(NETWORK) or target.endswith(b":%d" % self._port_of_server())
            client.sendall(b"HTTP/1.1 %s\r\n\r\n" % (b"200 OK" if is_led else b"502 None"))
            while is_led and client.recv(1 << 12):
                pass
