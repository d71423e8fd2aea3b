"""What programs write to Cloud Logging and Cloud Monitoring is taken; other calls are refused."""

import http.client
import json
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from trainshed.api.gateway.make import make_gateway
from trainshed.api.gateway.server import _terminates_tls
from trainshed.app.gateway import list_names
from trainshed.config.settings import DROP, PASS, REFUSE, GatewaySettings
from trainshed.model.attempt import AttemptKey
from trainshed.service.gateway.attempts import LivingAttempt
from trainshed.service.gateway.places import LOGGING_HOST, MONITORING_HOST
from trainshed.service.gateway.telemetry import Telemetry, tell_in_story
from trainshed.service.gateway.tokens import AttemptTokens
from trainshed.store.records.steps import StoredEvent
from trainshed.wire.logging_v2.written import LINES_MAX

#: Only something broken takes so long.
WAIT_S_MAX = 60
PEER = LivingAttempt(
    key=AttemptKey(11, 1), job_id="job11", project="one", project_number="1001", location=""
)
WRITE = "/google.logging.v2.LoggingServiceV2/WriteLogEntries"
SERIES = "/google.monitoring.v3.MetricService/CreateTimeSeries"
DESCRIPTOR = "/google.monitoring.v3.MetricService/CreateMetricDescriptor"
#: WriteLogEntriesRequest with one entry: severity 500, text_payload "boom".
ONE_ENTRY = b"\x22\x09" + b"\x50\xf4\x03" + b"\x1a\x04boom"


class World:
    """A gateway whose only peer is one attempt, or nobody."""

    def __init__(self, data_dir):
        self.peer = PEER
        self.notices = []
        self.lines = []
        self.keeps = True
        self.recording = Telemetry(lambda _, text: self.notices.append(text), self._keep)
        self.dropped = Telemetry(lambda _, text: self.notices.append(text))
        self._listeners = []
        self._data_dir = data_dir

    def _keep(self, key, lines):
        assert key == PEER.key
        self.lines.extend(lines)
        return self.keeps

    def serve(self, telemetry):
        serving = make_gateway(
            self._data_dir,
            rows=(),
            tokens=AttemptTokens(b"secret"),
            attempt_at=lambda _theirs, _ours: self.peer and self.peer.key,
            find=lambda _key: self.peer,
            telemetry=telemetry,
        )
        listener = socket.create_server(("127.0.0.1", 0))
        thread = threading.Thread(target=serving.run, args=([listener],))
        thread.start()
        self._listeners.append((serving, listener, thread))
        return Client(listener.getsockname()[1], self._data_dir / "tls/ca.pem")

    def close(self):
        for serving, listener, thread in self._listeners:
            serving.stop()
            thread.join(WAIT_S_MAX)
            listener.close()
            assert not thread.is_alive()


class Client:
    """A program of a job."""

    def __init__(self, port, ca):
        self._port = port
        self._ca = ca

    def call(self, name, message=b"", host=LOGGING_HOST):
        """The answer of an rpc.  Raises grpc.RpcError."""
        options = [
            ("grpc.ssl_target_name_override", host),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        credentials = grpc.ssl_channel_credentials(self._ca.read_bytes())
        place = f"127.0.0.1:{self._port}"
        with grpc.secure_channel(place, credentials, options) as channel:
            return channel.unary_unary(name)(message, timeout=WAIT_S_MAX)

    def refused(self, name, host=LOGGING_HOST):
        with pytest.raises(grpc.RpcError) as failed:
            self.call(name, host=host)
        return failed.value.code().name, failed.value.details()

    def post(self, host, path, document, verb="POST"):
        """A status and an answer by REST."""
        plain = socket.create_connection(("127.0.0.1", self._port), timeout=WAIT_S_MAX)
        context = ssl.create_default_context(cafile=self._ca)
        connection = http.client.HTTPSConnection(host)
        connection.sock = context.wrap_socket(plain, server_hostname=host)
        connection.request(verb, path, json.dumps(document))
        answer = connection.getresponse()
        status, body = answer.status, json.loads(answer.read())
        connection.close()
        return status, body


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.close()


def test_what_is_written_ends_without_an_error_and_is_told_once(world):
    client = world.serve(world.dropped)
    for _ in range(2):
        assert client.call(WRITE, ONE_ENTRY) == b""
        assert client.call(SERIES, b"\x1a\x01p", MONITORING_HOST) == b""
        assert client.post(LOGGING_HOST, "/v2/entries:write", {"entries": []}) == (200, {})
        series = "/v3/projects/p/timeSeries"
        assert client.post(MONITORING_HOST, series, {"timeSeries": []}) == (200, {})
    about_logs, about_series = world.notices
    assert "Cloud Logging; this server does not keep the lines" in about_logs
    assert 'telemetry = "log"' in about_logs
    assert "Cloud Monitoring; this server does not keep the data" in about_series


def test_a_metric_descriptor_is_answered_with_itself(world):
    client = world.serve(world.dropped)
    descriptor = b"\x0a\x01x"
    request = b"\x1a\x01p" + b"\x12\x03" + descriptor
    assert client.call(DESCRIPTOR, request, MONITORING_HOST) == descriptor
    document = {"type": "custom.googleapis.com/x"}
    path = "/v3/projects/p/metricDescriptors"
    assert client.post(MONITORING_HOST, path, document) == (200, document)


def test_entries_become_lines_where_they_are_kept(world):
    client = world.serve(world.recording)
    client.call(WRITE, ONE_ENTRY)
    entries = [
        {"severity": "NOTICE", "textPayload": "two\nlines"},
        {"jsonPayload": {"message": "said"}},
        {"severity": "ALERT", "jsonPayload": {"message": "said", "step": 1}},
        {"jsonPayload": {"logging.googleapis.com/diagnostic": {"version": "3"}}},
        "no entry",
    ]
    assert client.post(LOGGING_HOST, "/v2/entries:write", {"entries": entries})[0] == 200
    assert world.lines == [
        ("boom", "ERROR"),
        ("two", "INFO"),
        ("lines", "INFO"),
        ("said", "INFO"),
        ('{"message": "said", "step": 1}', "CRITICAL"),
    ]
    assert not world.notices


def test_a_client_is_told_to_come_again_where_no_line_can_be_written(world):
    client = world.serve(world.recording)
    world.keeps = False
    assert client.refused(WRITE)[0] == "UNAVAILABLE"
    assert client.post(LOGGING_HOST, "/v2/entries:write", {"entries": []})[0] == 503


def test_more_entries_than_are_read_at_once_are_refused_not_dropped(world):
    client = world.serve(world.recording)
    entry = {"severity": "INFO", "textPayload": "x"}
    status, answer = client.post(LOGGING_HOST, "/v2/entries:write", {"entries": [entry] * 12_000})
    assert (status, answer["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert "write fewer entries in a request" in answer["error"]["message"]
    assert client.post(LOGGING_HOST, "/v2/entries:write", {"entries": [entry] * 4_000})[0] == 200
    assert len(world.lines) == 4_000


def test_entries_that_cannot_be_read_are_refused(world):
    client = world.serve(world.recording)
    assert client.post(LOGGING_HOST, "/v2/entries:write", float("nan"))[0] == 400
    with pytest.raises(grpc.RpcError) as failed:
        client.call(WRITE, b"\x22\xff")
    assert failed.value.code().name == "INVALID_ARGUMENT"


def test_more_lines_than_are_taken_at_once_by_grpc_are_refused_not_dropped(world):
    client = world.serve(world.recording)
    with pytest.raises(grpc.RpcError) as failed:
        client.call(WRITE, ONE_ENTRY * (LINES_MAX + 1))
    assert failed.value.code().name == "RESOURCE_EXHAUSTED"
    assert not world.lines
    assert client.call(WRITE, ONE_ENTRY * 12_000) == b""
    assert len(world.lines) == 12_000


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("/google.pubsub.v1.Publisher/Publish", "PERMISSION_DENIED", 'other_apis = "pass"'),
        ("/google.storage.v2.Storage/ReadObject", "UNIMPLEMENTED", "by REST only"),
        (
            "/google.logging.v2.LoggingServiceV2/ListLogEntries",
            "PERMISSION_DENIED",
            "cannot read or change anything",
        ),
    ],
)
def test_other_calls_by_grpc_are_refused_at_once_in_a_sentence(world, name, code, words):
    status, details = world.serve(world.dropped).refused(name, "pubsub.googleapis.com")
    assert status == code
    assert words in details
    assert not world.notices


def test_reading_by_rest_is_refused_in_a_sentence(world):
    client = world.serve(world.dropped)
    for host, path in ((LOGGING_HOST, "/v2/entries:list"), (MONITORING_HOST, "/v3/projects/p/x")):
        status, answer = client.post(host, path, {})
        assert status == 403
        assert "cannot read or change anything" in answer["error"]["message"]


def test_strangers_and_attempts_that_have_ended_write_nothing(world):
    client = world.serve(world.recording)
    world.peer = None
    assert client.refused(WRITE)[0] == "UNAVAILABLE"  # its connection has been closed
    assert client.post(LOGGING_HOST, "/v2/entries:write", {"entries": []})[0] == 403
    assert not world.lines


def unix_sockets(words):
    """The names of this machine's Unix sockets that have these words, as every job sees them."""
    table = Path("/proc/net/unix").read_text().splitlines()
    names = [line.split(maxsplit=7)[7] for line in table if words in line]
    return [name.replace("@", "\0", 1) for name in names if name.startswith(("/", "@"))]


def forward_as(name, path, listener):
    """Pass one connection on, from a Unix socket of a chosen name to another one."""
    client, _ = listener.accept()
    with client, socket.socket(socket.AF_UNIX) as forged:
        forged.bind(name)
        forged.connect(path)
        back = threading.Thread(target=pass_on, args=(forged, client))
        back.start()
        pass_on(client, forged)
        back.join(WAIT_S_MAX)


def pass_on(come, go):
    with suppress(OSError):
        while piece := come.recv(1 << 16):
            go.sendall(piece)
        go.shutdown(socket.SHUT_WR)


def test_a_program_cannot_write_in_the_name_of_a_job_whose_socket_name_it_takes(world, tmp_path):
    """In the mode landlock programs of jobs are the server's user, and see all sockets' names."""
    before = set(unix_sockets("trainshed-"))
    client = world.serve(world.recording)
    options = [("grpc.ssl_target_name_override", LOGGING_HOST)]
    trust = grpc.ssl_channel_credentials(client._ca.read_bytes())
    with grpc.secure_channel(f"127.0.0.1:{client._port}", trust, options) as channel:
        channel.unary_unary(WRITE)(ONE_ENTRY, timeout=WAIT_S_MAX)
        world.lines.clear()
        names = set(unix_sockets("trainshed-")) - before
        assert names
        for path in names:
            for number, name in enumerate(names | {"\0stranger"}):
                forged = str(tmp_path / str(number) / Path(name.strip("\0")).name)
                Path(forged).parent.mkdir(exist_ok=True)
                Path(forged).unlink(missing_ok=True)
                check_forged(forged, path)
    assert not world.lines


def check_forged(name, path):
    """Call from a socket of this name."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=suppressed(forward_as), args=(name, path, listener))
        thread.start()
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        with grpc.insecure_channel(place) as channel, pytest.raises(grpc.RpcError):
            channel.unary_unary(WRITE)(ONE_ENTRY, timeout=WAIT_S_MAX)
        thread.join(WAIT_S_MAX)


def suppressed(function):
    def call(*args):
        with suppress(OSError):
            function(*args)

    return call


def test_a_setting_has_the_two_hosts_reach_google(world):
    client = world.serve(None)
    assert client.refused(WRITE)[0] == "PERMISSION_DENIED"
    for host in (LOGGING_HOST, MONITORING_HOST):
        assert not _terminates_tls(lambda _: False, host, passes_on=False)
        assert host not in list_names(GatewaySettings(telemetry=PASS))
        assert host in list_names(GatewaySettings(telemetry=DROP, other_apis=PASS))
    assert "bigquery.googleapis.com" in list_names(GatewaySettings(other_apis=REFUSE))
    assert "bigquery.googleapis.com" not in list_names(GatewaySettings(other_apis=PASS))


class Stories:
    """A store's events."""

    def __init__(self):
        self.rows = []

    def add_event(self, uid, event):
        seq = len(self.rows) + 1
        position = {"seq": seq, "uid": uid, "attempt": 1, "stamp_ns": seq}
        content = {"kind": event.kind, "message": event.message, "data": event.data}
        self.rows.append(StoredEvent(**position, **content))

    def events(self, uid, *, after=0, limit=1000):
        return [event for event in self.rows if event.uid == uid and event.seq > after][:limit]


def test_a_job_is_told_once_whatever_restarts_there_are():
    stories = Stories()
    for _server in range(2):
        Telemetry(tell_in_story(stories)).take(PEER, LOGGING_HOST)
    assert [event.kind for event in stories.rows] == ["TELEMETRY_DROPPED"]
