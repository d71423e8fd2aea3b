"""The proxy: answers CONNECT on loopback, and ends TLS for the names of Google that it redirects.

Bytes are passed on as they are: HTTP/2, which is gRPC, to the server's gRPC port, HTTP/1.1 to its
REST port.  All other names are reached through tunnels, whose TLS is not ended.
"""

import asyncio
import base64
import hmac
import re
import secrets
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from trainshed.api.gateway.sockets import connect_target, read_head
from trainshed.api.gateway.tunnels import Tunnels
from trainshed.api.google_names import is_served_google_name
from trainshed.proxy.authority import Authority

_HTTPS: Final = 443
_HEAD_S: Final = 30.0
_PIECE_BYTES: Final = 64 << 10
_TUNNELS_MAX: Final = 1024
_OK: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_CREDENTIALS: Final = re.compile(rb"\r\nproxy-authorization: *basic +([^\r]+)", re.IGNORECASE)
_USER: Final = "run"
_NOT_OF_RUN: Final = (
    "this proxy serves only programs that its trainshed run started: HTTPS_PROXY has its secret"
)
_OFFLINE: Final = "the command runs with --offline, and Trainshed does not serve this name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """The server that Google's names lead to."""

    url: str
    grpc: str | None
    """HOST:PORT of gRPC; None: the server has no gRPC."""
    ca: str | None
    """The file of CA certificates to trust for both; None: the machine's certificates."""

    @property
    def rest_address(self) -> tuple[str, int]:
        """Return the host and the port of REST."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def grpc_address(self) -> tuple[str, int] | None:
        """Return the host and the port of gRPC; None: the server has no gRPC."""
        if self.grpc is None:
            return None
        host, _, port = self.grpc.rpartition(":")
        return host.strip("[]"), int(port)


class Proxy:
    """Serves on a thread of its own from ``start`` to ``stop``."""

    def __init__(
        self,
        authority: Authority,
        upstream: Upstream,
        *,
        offline: bool = False,
        proxies: Mapping[str, str],
    ) -> None:
        """Make a proxy to ``upstream``, which may be replaced later.

        ``offline`` refuses names that Trainshed does not serve.  ``proxies`` are the caller's proxy
        variables: other names are reached through these proxies.
        """
        self.upstream = upstream
        self._authority = authority
        self.is_offline = offline
        self._secret = secrets.token_urlsafe(24)
        # the programs of a run have their user's own network already
        self._tunnels = Tunnels(proxies, most=_TUNNELS_MAX, refuse=None, user_of=None)
        self._loop = asyncio.new_event_loop()
        # asyncio would print a line for each client that ends a handshake into the command's output
        self._loop.set_exception_handler(lambda _loop, _context: None)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._thread = threading.Thread(target=self._serve, name="proxy", daemon=True)
        self._handling: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Return the proxy's URL, with the secret that clients must send."""
        port = self._listener.getsockname()[1]
        return f"http://{_USER}:{self._secret}@127.0.0.1:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and close all connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        self._listener.setblocking(False)
        accepting = self._loop.create_task(self._accept())
        try:
            self._loop.run_forever()
        finally:
            tasks = [accepting, *self._handling]
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()
            self._listener.close()

    async def _accept(self) -> None:
        while True:
            try:
                client, _ = await self._loop.sock_accept(self._listener)
            except OSError:  # no descriptor is left
                await asyncio.sleep(0.1)
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._handle(client))
            self._handling.add(task)
            task.add_done_callback(self._handling.discard)

    async def _handle(self, client: socket.socket) -> None:
        with client, suppress(OSError, ssl.SSLError, TimeoutError):
            client.setblocking(False)
            async with asyncio.timeout(_HEAD_S):
                head = await read_head(self._loop, client)
            target = connect_target(head)
            if not self._has_secret(head):
                await self._refuse(client, "407 Proxy Authentication Required", _NOT_OF_RUN)
            elif target is None and self.is_offline:
                await self._refuse(client, "403 Forbidden", _OFFLINE)
            elif target is None:
                await self._refuse(client, "400 Bad Request", "CONNECT must name HOST:PORT")
            elif target[1] == _HTTPS and is_served_google_name(target[0]):
                await self._answer_as(target[0], client)
            else:
                await self._pass_through(client, *target)

    def _has_secret(self, head: bytes) -> bool:
        match = _CREDENTIALS.search(head)
        expected = base64.b64encode(f"{_USER}:{self._secret}".encode())
        return match is not None and hmac.compare_digest(match[1].strip(), expected)

    async def _pass_through(self, client: socket.socket, host: str, port: int) -> None:
        is_server = (host, port) in {self.upstream.rest_address, self.upstream.grpc_address}
        if self.is_offline and not is_server:
            await self._refuse(client, "403 Forbidden", f"{host}: {_OFFLINE}")
        elif refusal := await self._tunnels.run(client, host, port):
            await self._refuse(client, "502 Bad Gateway", refusal.why)

    async def _refuse(self, client: socket.socket, status: str, reason: str) -> None:
        text = f"{reason}\n".encode()
        head = [f"HTTP/1.1 {status}", "Content-Type: text/plain", "Connection: close"]
        if status.startswith("407"):
            head.append('Proxy-Authenticate: Basic realm="trainshed run"')
        lines = "\r\n".join([*head, f"Content-Length: {len(text)}", "", ""])
        await self._loop.sock_sendall(client, lines.encode() + text)

    async def _answer_as(self, host: str, client: socket.socket) -> None:
        """Speak TLS as one of Google's hosts, and pass the client's bytes to the server."""
        await self._loop.sock_sendall(client, _OK)
        reader = asyncio.StreamReader(loop=self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        transport, _ = await self._loop.connect_accepted_socket(
            lambda: protocol, client.dup(), ssl=self._authority.context_of(host)
        )
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        try:
            protocol_name = transport.get_extra_info("ssl_object").selected_alpn_protocol()
            server_reader, server_writer = await self._connect(is_grpc=protocol_name == "h2")
            try:
                await _copy_both_ways((reader, writer), (server_reader, server_writer))
            finally:
                server_writer.close()
        finally:
            writer.close()

    async def _connect(self, *, is_grpc: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        upstream = self.upstream
        address = upstream.grpc_address if is_grpc else upstream.rest_address
        if address is None:
            raise ConnectionRefusedError
        if not is_grpc and upstream.url.startswith("http:"):
            return await asyncio.open_connection(*address)
        context = ssl.create_default_context(cafile=upstream.ca)
        context.set_alpn_protocols(["h2" if is_grpc else "http/1.1"])
        return await asyncio.open_connection(*address, ssl=context)


_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _copy_both_ways(client: _Streams, server: _Streams) -> None:
    """Copy bytes both ways until one side ends; TLS cannot end one direction alone."""
    copies = [
        asyncio.ensure_future(_copy(client[0], server[1])),
        asyncio.ensure_future(_copy(server[0], client[1])),
    ]
    try:
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for copy in copies:
            copy.cancel()
        await asyncio.gather(*copies, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE_BYTES):
        writer.write(piece)
        await writer.drain()
