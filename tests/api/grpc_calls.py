"""A gRPC client of the tests: a real channel over TLS, messages of our own pool."""

import socket
from contextlib import contextmanager

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict

from trainshed.api.connections import limits_of
from trainshed.api.grpc_server import start_grpc
from trainshed.service.auth.certificates import ServerTls
from trainshed.wire.descriptors import message_class, pool

JOBS = "google.cloud.aiplatform.v1.JobService"
DETAILS = "grpc-status-details-bin"


class GrpcClient:
    """Calls by name: ``call(rpc, request as JSON) -> answer as JSON``."""

    def __init__(self, channel, rows, port, tls):
        self.channel = channel
        self.port = port
        self.tls = tls
        self._rows = {row.rpc: row for row in rows if row.rpc}

    def call(self, rpc, request, token="demo"):  # noqa: S107  # it opens nothing
        message = message_class(self._rows[rpc].request)()
        ParseDict(request, message, descriptor_pool=pool())
        return self.send(rpc, message.SerializeToString(), token)

    def send(self, rpc, data, token="demo"):  # noqa: S107  # the same
        """The same for bytes that may be no message at all."""
        row = self._rows.get(rpc)
        answer = self.channel.unary_unary(f"/{rpc}")(
            data,
            metadata=[("authorization", f"Bearer {token}")] if token else [],
            timeout=60,
        )
        message = message_class(row.response).FromString(answer)
        return MessageToDict(message, descriptor_pool=pool())


@contextmanager
def grpc_client(rows, around, folder, **options):
    """A server on a port of its own, and a channel that trusts its authority only."""
    tls = ServerTls(folder, ())
    server = start_grpc(
        rows,
        around,
        pair=lambda: tls.pair,
        listener=socket.create_server(("127.0.0.1", 0)),
        **{"limits": limits_of(1024)} | options,
    )
    credentials = grpc.ssl_channel_credentials(tls.files.ca.read_bytes())
    try:
        with grpc.secure_channel(f"127.0.0.1:{server.port}", credentials) as channel:
            yield GrpcClient(channel, rows, server.port, tls)
    finally:
        server.stop(0)


def status_of(error):
    """The google.rpc.Status in the trailing metadata, as JSON."""
    data = dict(error.trailing_metadata())[DETAILS]
    return MessageToDict(
        message_class("google.rpc.Status").FromString(data), descriptor_pool=pool()
    )
